"""to_edge_transform_and_lower: convert, transform and partition in one call.

Unlike to_edge followed by to_backend, partitioners first name the operators that must not be
decomposed (keep_ops.py). The caller's programs and configuration are never touched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch.export import ExportedProgram

from executorch_py.exir.decompose.keep_ops import check_none_survived, decompose_for, keepable
from executorch_py.exir.decompose.non_core_ops import decompose_all, decompose_non_core, rules_for
from executorch_py.exir.decompose.torchao_linear import restore_linear_layers
from executorch_py.exir.dialects.verifier import EXIREdgeDialectVerifier
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.passes.to_edge.lift_constants import lift_constant_tensor_pass
from executorch_py.exir.program.config import EdgeCompileConfig
from executorch_py.exir.program.edge import (
    Programs,
    as_methods,
    check_arguments,
    generate_edge_program,
)
from executorch_py.exir.program.managers import EdgeProgramManager, Passes
from executorch_py.exir.program.upper_floors import start_record

if TYPE_CHECKING:
    from executorch_py.exir.backend.partitioner import Partitioner

Partitioners = list["Partitioner"] | dict[str, list["Partitioner"]] | None


def _as_list(partitioner: Any) -> list[Partitioner]:
    from executorch_py.exir.backend.partitioner import check_is_partitioner

    chosen = list(partitioner) if isinstance(partitioner, Sequence) else [partitioner]
    for item in chosen:
        check_is_partitioner(item)
    return chosen


def _by_method(partitioner: Any, methods: Sequence[str]) -> dict[str, list[Partitioner]]:
    """The partitioners of each method, in order."""
    if partitioner is None:
        return {name: [] for name in methods}
    if not isinstance(partitioner, dict):
        return {name: _as_list(partitioner) for name in methods}
    unknown = sorted(set(partitioner) - set(methods))
    if unknown:
        raise ExportError(
            ExportErrorType.INVALID_INPUT_TYPE,
            f"partitioner: expected methods of {sorted(methods)}, got {unknown}",
        )
    return {name: _as_list(partitioner.get(name, [])) for name in methods}


def _convert(
    methods: dict[str, ExportedProgram],
    partitioners: dict[str, list[Partitioner]],
    constant_methods: dict[str, Any] | None,
    config: EdgeCompileConfig,
) -> tuple[EdgeProgramManager, list[Any]]:
    """All methods in the edge dialect, and the operators kept for partitioners."""
    edge_programs: dict[str, ExportedProgram] = {}
    all_kept: set[Any] = set()
    for name, program in methods.items():
        allowed, kept = config._core_aten_ops_exception_list, list[Any]()
        program = restore_linear_layers(program)
        if partitioners[name]:
            preserved = config.preserve_ops
            rules = rules_for(program, allowed, preserved)
            decomposed, kept = decompose_for(partitioners[name], program, preserved, rules)
            decomposed = decompose_non_core(decomposed, allowed, [*kept, *preserved])
        else:
            decomposed = decompose_all(program, allowed, config.preserve_ops)
        all_kept.update(kept)
        edge_programs[name] = generate_edge_program(config, decomposed, preserve_ops=kept)
    kept_ops = sorted(all_kept, key=str)
    config = dataclasses.replace(
        config,
        _core_aten_ops_exception_list=[
            *config._core_aten_ops_exception_list,
            *(op for op in kept_ops if op not in config._core_aten_ops_exception_list),
        ],
    )
    return EdgeProgramManager(edge_programs, constant_methods, config, kept_ops), kept_ops


def _partition(
    manager: EdgeProgramManager, partitioners: dict[str, list[Partitioner]]
) -> EdgeProgramManager:
    """One sweep of to_backend per position in the lists of partitioners."""
    for i in range(max(map(len, partitioners.values()), default=0)):
        sweep = {name: chosen[i] for name, chosen in partitioners.items() if i < len(chosen)}
        manager = manager.to_backend(sweep)
    return manager


def _check_result(
    manager: EdgeProgramManager,
    partitioners: dict[str, list[Partitioner]],
    config: EdgeCompileConfig,
    kept: list[Any],
) -> None:
    for name, program in manager._edge_programs.items():
        allowed = list(kept)
        for partitioner in partitioners[name]:
            ops, check = partitioner.ops_to_not_decompose(program)
            ops = list(ops) if check is None else keepable(ops)
            check_none_survived(name, program, partitioner, ops, check)
            allowed += ops
        EXIREdgeDialectVerifier(config, preserve_ops=allowed)(program)


def to_edge_transform_and_lower(
    programs: Programs,
    transform_passes: Passes | None = None,
    partitioner: Partitioners = None,
    constant_methods: dict[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Convert programs to the edge dialect, run passes over them, and lower the nodes that
    partitioners select.

    `transform_passes` is a list, a pass manager, or a dict of lists by method; `partitioner` a
    list for every method or a dict of lists by method.
    """
    check_arguments(constant_methods, compile_config)
    config = compile_config or EdgeCompileConfig()
    methods = as_methods(programs)
    partitioners = _by_method(partitioner, list(methods))
    manager, kept = _convert(methods, partitioners, constant_methods, config)
    if transform_passes is not None:
        manager = manager.transform(transform_passes)
        for program in manager._edge_programs.values():
            lift_constant_tensor_pass(program)
    if generate_etrecord:
        manager._etrecord = start_record(methods, manager)
    manager = _partition(manager, partitioners)
    _check_result(manager, partitioners, config, kept)
    return manager
