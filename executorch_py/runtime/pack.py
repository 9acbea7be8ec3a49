"""pack_weights: writes the weights that XNNPACK packs for a program to a file, ahead of time.

Loads with that file as `packed_cache_path` pack nothing. The file belongs to the XNNPACK of this
build and to processors like this one: run it on the machine, or the kind of machine, that will load
the program. A load elsewhere warns and packs its own weights.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

from executorch_py.errors import NotFound
from executorch_py.runtime.backend_options import XNNPACK
from executorch_py.runtime.runtime import Runtime
from executorch_py.terminal_text import quoted

SUFFIX = ".packed"


def pack_weights(
    program: str | PathLike[str],
    packed: str | PathLike[str] | None = None,
    *,
    data_path: Any = None,
) -> dict[str, Any]:
    """Write packed weights of a .pte file; returns its Program.packed_weights, and the `path`.

    packed: the file to write, by default the program's path with `.packed` instead of its suffix;
    a file there is replaced once the new one is complete. data_path: as for load_program.
    NotFound if no delegate of the program packs weights that a file may keep.
    """
    source = os.fspath(program)
    target = os.path.splitext(source)[0] + SUFFIX if packed is None else os.fspath(packed)
    new = f"{target}.{os.getpid()}.new"
    try:
        options = {XNNPACK: {"packed_cache_path": new}}
        with Runtime.get().load_program(
            source, data_path=data_path, backend_options=options
        ) as loaded:
            for name in sorted(loaded.method_names):
                loaded.load_method(name)
            facts = loaded.packed_weights
        if not facts.get("packed") or not os.path.exists(new):
            raise NotFound(
                f"{quoted(source)}: expected a program with weights that XNNPACK packs, got one "
                "without: lower it with XnnpackPartitioner [NotFound, error: 0x20]"
            )
        os.replace(new, target)
    finally:
        if os.path.exists(new):
            os.remove(new)
    return {**facts, "path": target}
