"""Upstream's path to what the modules of this package define."""

from executorch_py.exir.passes.lift_constants import lift_constant_tensor_pass
from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig
from executorch_py.exir.program.edge import to_edge
from executorch_py.exir.program.executorch import (
    ExecutorchProgramManager,
    edge_to_executorch_passes,
)
from executorch_py.exir.program.lower import to_edge_transform_and_lower
from executorch_py.exir.program.managers import EdgeProgramManager

__all__ = [
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "edge_to_executorch_passes",
    "lift_constant_tensor_pass",
    "to_edge",
    "to_edge_transform_and_lower",
]
