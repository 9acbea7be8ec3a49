"""Public names of the exporter: ExportedProgram in, .pte out.

Names are resolved on first use, so that importing one part (`executorch_py.exir.dialects`, say)
does not load the others. Needs torch, and says so when it is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from executorch_py._refused_paths import refuse_name

if importlib.util.find_spec("torch") is None:
    raise ImportError(
        "executorch_py.exir exports PyTorch models and needs torch: "
        "pip install 'executorch_py[export]'"
    )

if TYPE_CHECKING:
    from torch.export import ExportedProgram, ExportGraphSignature

    from executorch_py.exir.capture import CallSpec, CaptureConfig, ExirDynamoConfig, capture
    from executorch_py.exir.emit import EmitterOutput, emit_program
    from executorch_py.exir.program import (
        EdgeProgramManager,
        ExecutorchProgramManager,
        edge_to_executorch_passes,
        to_edge,
        to_edge_transform_and_lower,
    )
    from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig
    from executorch_py.exir.program.save_load import load, save
    from executorch_py.exir.trace_errors import readable_errors

_HOME = {
    "CallSpec": "executorch_py.exir.capture",
    "CaptureConfig": "executorch_py.exir.capture",
    "EdgeCompileConfig": "executorch_py.exir.program.config",
    "EdgeProgramManager": "executorch_py.exir.program",
    "EmitterOutput": "executorch_py.exir.emit",
    "ExecutorchBackendConfig": "executorch_py.exir.program.config",
    "ExecutorchProgramManager": "executorch_py.exir.program",
    "ExirDynamoConfig": "executorch_py.exir.capture",
    "ExportGraphSignature": "torch.export",
    "ExportedProgram": "torch.export",
    "capture": "executorch_py.exir.capture",
    "edge_to_executorch_passes": "executorch_py.exir.program",
    "emit_program": "executorch_py.exir.emit",
    "load": "executorch_py.exir.program.save_load",
    "readable_errors": "executorch_py.exir.trace_errors",
    "save": "executorch_py.exir.program.save_load",
    "to_edge": "executorch_py.exir.program",
    "to_edge_transform_and_lower": "executorch_py.exir.program",
}

Value = Any

__all__ = [
    "CallSpec",
    "CaptureConfig",
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "EmitterOutput",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "ExirDynamoConfig",
    "ExportGraphSignature",
    "ExportedProgram",
    "Value",
    "capture",
    "edge_to_executorch_passes",
    "emit_program",
    "load",
    "readable_errors",
    "save",
    "to_edge",
    "to_edge_transform_and_lower",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        refuse_name(__name__, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
