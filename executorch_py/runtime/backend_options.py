"""Options at load, of programs and backends: checked, and converted for the extension.

Keys and numbers are upstream's. XnnpackBackend is the only backend with options.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from executorch_py.errors import InvalidArgument

XNNPACK = "XnnpackBackend"


class WorkspaceSharing(IntEnum):
    """Scope in which XNNPACK delegates share memory of intermediate values and run by turns."""

    Disabled = 0
    PerModel = 1
    Global = 2


XnnpackOptions = tuple[int, bool, "str | None", bool]


def whole_number(name: str, value: Any) -> int:
    """The value of an option as an int; TypeError names the option."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None


def _sharing(value: Any) -> WorkspaceSharing:
    try:
        return WorkspaceSharing(value)
    except ValueError:
        known = ", ".join(f"{int(mode)} ({mode.name})" for mode in WorkspaceSharing)
        text = f"workspace_sharing_mode: expected one of {known}, got {value!r}"
        raise _invalid(text) from None


def _boolean(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _invalid(f"{key}: expected True or False, got {value!r}")
    return value


def _path(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise _invalid(f"packed_cache_path: expected a path, got {value!r}")
    return os.path.abspath(os.fsdecode(value))


def _invalid(text: str) -> InvalidArgument:
    return InvalidArgument(f"backend_options: {text} [InvalidArgument, error: 0x12]")


def xnnpack_options(options: Mapping[str, Mapping[str, Any]] | None) -> XnnpackOptions | None:
    """Options in the form of open_program's argument `xnnpack`; None if there are none."""
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise _invalid(f"expected a dict of options by backend, got {options!r}")
    for name in options:
        if name != XNNPACK:
            raise _invalid(f"expected options of {XNNPACK!r}, got options of {name!r}")
    values = options.get(XNNPACK, {})
    if not isinstance(values, Mapping):
        raise _invalid(f"{XNNPACK}: expected a dict of options, got {values!r}")
    given = dict(values)
    if not given:
        return None
    sharing = _sharing(given.pop("workspace_sharing_mode", WorkspaceSharing.PerModel))
    enabled = _boolean("weight_cache_enabled", given.pop("weight_cache_enabled", True))
    path = _path(given.pop("packed_cache_path", None))
    saves = _boolean("save_weight_cache_on_disk", given.pop("save_weight_cache_on_disk", True))
    if given:
        raise _invalid(
            f"{XNNPACK}: expected workspace_sharing_mode, weight_cache_enabled, packed_cache_path "
            f"or save_weight_cache_on_disk, got {sorted(given)[0]!r}"
        )
    if path is not None and not enabled:
        raise _invalid("packed_cache_path: expected weight_cache_enabled to be True, got False")
    return int(sharing), enabled, path, saves
