"""Stages of an export and their results: to_edge, lowering, managers, configurations.

Names are resolved on first use, so that a part of this package can be imported by the passes.
"""

from __future__ import annotations

import importlib
from typing import Any

_PACKAGE = "executorch_py.exir.program"
_HOME = {
    "EdgeCompileConfig": "config",
    "EdgeProgramManager": "managers",
    "ExecutorchBackendConfig": "config",
    "ExecutorchProgramManager": "executorch",
    "edge_to_executorch_passes": "executorch",
    "to_edge": "edge",
    "to_edge_transform_and_lower": "lower",
}

__all__ = [
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "edge_to_executorch_passes",
    "to_edge",
    "to_edge_transform_and_lower",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{_PACKAGE}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
