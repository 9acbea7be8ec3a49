"""Tools around exported programs: records, bundled test cases, inspection, debugging.

Names are loaded when first used; all of them need torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from executorch_py.devtools.bundled_program.core import BundledProgram
    from executorch_py.devtools.etrecord import ETRecord, generate_etrecord, parse_etrecord
    from executorch_py.devtools.inspector import Inspector

_HOME = {
    "BundledProgram": "bundled_program.core",
    "ETRecord": "etrecord",
    "Inspector": "inspector",
    "generate_etrecord": "etrecord",
    "parse_etrecord": "etrecord",
}

__all__ = ["BundledProgram", "ETRecord", "Inspector", "generate_etrecord", "parse_etrecord"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
