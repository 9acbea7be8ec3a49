"""Options for backends at load: what the user writes, checked, as the extension takes it.

Keys and numbers are upstream's. One backend has any: XnnpackBackend.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from executorch_py.errors import InvalidArgument

XNNPACK = "XnnpackBackend"


class WorkspaceSharing(IntEnum):
    """Which XNNPACK delegates share memory for intermediate values; those that do take turns."""

    Disabled = 0
    PerModel = 1
    Global = 2


XnnpackOptions = tuple[int, bool, "str | None", bool]


def _sharing(value: Any) -> WorkspaceSharing:
    try:
        return WorkspaceSharing(value)
    except ValueError:
        known = ", ".join(f"{int(mode)} ({mode.name})" for mode in WorkspaceSharing)
        raise _invalid(f"workspace_sharing_mode is {value!r}, needs one of {known}") from None


def _switch(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _invalid(f"{key} is {value!r}, needs True or False")
    return value


def _path(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise _invalid(f"packed_cache_path is {value!r}, needs a path")
    return os.path.abspath(os.fsdecode(value))


def _invalid(text: str) -> InvalidArgument:
    return InvalidArgument(f"backend_options: {text} [InvalidArgument, error: 0x12]")


def xnnpack_options(options: Mapping[str, Mapping[str, Any]] | None) -> XnnpackOptions | None:
    """Options as open_program takes them; None when none were given."""
    if options is None:
        return None
    for name in options:
        if name != XNNPACK:
            raise _invalid(f"no options are known for {name!r}, only for {XNNPACK!r}")
    given = dict(options.get(XNNPACK, {}))
    if not given:
        return None
    sharing = _sharing(given.pop("workspace_sharing_mode", WorkspaceSharing.PerModel))
    enabled = _switch("weight_cache_enabled", given.pop("weight_cache_enabled", True))
    path = _path(given.pop("packed_cache_path", None))
    saves = _switch("save_weight_cache_on_disk", given.pop("save_weight_cache_on_disk", True))
    if given:
        raise _invalid(
            f"{XNNPACK} has no option {sorted(given)[0]!r}; it has workspace_sharing_mode, "
            "weight_cache_enabled, packed_cache_path, save_weight_cache_on_disk"
        )
    if path is not None and not enabled:
        raise _invalid("packed_cache_path needs weight_cache_enabled")
    return int(sharing), enabled, path, saves
