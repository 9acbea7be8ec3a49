"""Export helpers of upstream's example scripts: from module to edge program, to program, to file.

Each helper is one call over torch.export and executorch_py.exir, with upstream's names and
defaults. The default is the mode without dim-order operators; pass a compile config for the other.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
from torch.export import export

from executorch_py.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    readable_errors,
    to_edge,
)

logger = logging.getLogger(__name__)

__all__ = ["export_to_edge", "export_to_exec_prog", "save_pte_program"]


def export_to_edge(
    model: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    *,
    example_kwarg_inputs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    edge_constant_methods: dict[str, Any] | None = None,
    edge_compile_config: EdgeCompileConfig | None = None,
    strict: bool = True,
    verbose: bool = True,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Export a module with its example inputs and convert it to the edge dialect."""
    with readable_errors():
        exported = export(
            model,
            example_inputs,
            example_kwarg_inputs,
            dynamic_shapes=dynamic_shapes,
            strict=strict,
        )
    if verbose:
        logger.info("exported graph:\n%s", exported.graph)
    manager = to_edge(
        exported,
        constant_methods=edge_constant_methods,
        compile_config=edge_compile_config or EdgeCompileConfig(_skip_dim_order=True),
        generate_etrecord=generate_etrecord,
    )
    if verbose:
        logger.info("edge graph:\n%s", manager.exported_program().graph)
    return manager


def export_to_exec_prog(
    model: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    *,
    example_kwarg_inputs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    edge_constant_methods: dict[str, Any] | None = None,
    edge_compile_config: EdgeCompileConfig | None = None,
    backend_config: ExecutorchBackendConfig | None = None,
    strict: bool = True,
) -> ExecutorchProgramManager:
    """Export a module to an executable program."""
    manager = export_to_edge(
        model,
        example_inputs,
        example_kwarg_inputs=example_kwarg_inputs,
        dynamic_shapes=dynamic_shapes,
        edge_constant_methods=edge_constant_methods,
        edge_compile_config=edge_compile_config,
        strict=strict,
        verbose=False,
    )
    return manager.to_executorch(backend_config)


def save_pte_program(prog: ExecutorchProgramManager, model_name: str, output_dir: str = "") -> str:
    """Write `<output_dir>/<model_name>.pte` and its data files beside it; return the path."""
    name = model_name if model_name.endswith(".pte") else f"{model_name}.pte"
    path = os.path.join(output_dir, name)
    prog.save(path)
    prog.write_tensor_data_to_file(output_dir or ".")
    logger.info("saved %s", path)
    return path
