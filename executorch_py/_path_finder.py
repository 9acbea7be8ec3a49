"""Import finder of upstream's paths and of former ones; see `_upstream_paths.py`.

It comes first on `sys.meta_path`, so that a folder that an older version left behind cannot hide an
entry. The tables are loaded with the first import of a path that may be in them: the runtime, which
is imported on small devices, has none.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_PACKAGE = "executorch_py"
WITHOUT_ENTRIES = frozenset(
    {"atomic_file", "cli", "errors", "input_spec", "runtime", "terminal_text", "toolchain"}
)


class PathFinder:
    """Finds the paths of the tables; paths below WITHOUT_ENTRIES are left to other finders."""

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        package, _, below = fullname.partition(".")
        first = below.partition(".")[0]
        if package != _PACKAGE or first.startswith("_") or first in WITHOUT_ENTRIES:
            return None
        from executorch_py._upstream_paths import spec_of_entry

        return spec_of_entry(fullname)


def install() -> None:
    """Insert the finder before all others, once."""
    if not any(type(finder).__name__ == PathFinder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, PathFinder())
