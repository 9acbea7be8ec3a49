"""to_edge: from a torch.export program to a program in the edge dialect.

Decompose, run the pipeline of passes/to_edge/steps.py on the result, and wrap it as a program whose
verifier is the edge dialect's. The caller's program is never touched: decomposition copies it.
lower.py partitions programs.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from torch.export import ExportedProgram

from executorch_py.exir.decompose.non_core_ops import decompose_all
from executorch_py.exir.decompose.torchao_linear import restore_linear_layers
from executorch_py.exir.dialects.verifier import (
    EXIRATenDialectVerifier,
    EXIREdgeDialectVerifier,
)
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.interface_names import note_names
from executorch_py.exir.ir.signature import (
    program_with_graph,
    updated_signature,
    with_written_parameters_as_buffers,
)
from executorch_py.exir.passes.base import Dialect, Fact, facts
from executorch_py.exir.passes.runner import run_pipeline
from executorch_py.exir.passes.to_edge.remove_tensor_metadata_asserts import (
    RemoveNonCoreAtenOpGraphAssertsPass,
)
from executorch_py.exir.passes.to_edge.steps import DECOMPOSED, TO_EDGE
from executorch_py.exir.program.config import EdgeCompileConfig
from executorch_py.exir.program.upper_floors import start_record

if TYPE_CHECKING:
    from executorch_py.exir.program.managers import EdgeProgramManager

Programs: TypeAlias = ExportedProgram | dict[str, ExportedProgram]


def _own_tables(program: ExportedProgram) -> ExportedProgram:
    """The program with dictionaries and a signature of its own, which may be changed."""
    own = copy.copy(program)
    own._state_dict = dict(program.state_dict)
    own._constants = dict(program.constants)
    own._graph_signature = with_written_parameters_as_buffers(
        updated_signature(program.graph_signature, program.graph_module)
    )
    return own


def generate_edge_program(
    config: EdgeCompileConfig,
    program: ExportedProgram,
    core_aten_ops_exception_list: Sequence[Any] | None = None,
    preserve_ops: Sequence[Any] | None = None,
) -> ExportedProgram:
    """Convert a decomposed program, whose graph is consumed, to the edge dialect."""
    program = _own_tables(program)
    note_names(program)
    kept = list(core_aten_ops_exception_list or ()), list(preserve_ops or ())
    verifier = EXIREdgeDialectVerifier(config, True, *kept)
    run_pipeline(TO_EDGE, program, config, DECOMPOSED, _dialects(config, verifier(), *kept))
    gm = program.graph_module
    for module in graph_modules(gm):
        module.recompile()
    verifier()(gm)
    return program_with_graph(program, gm, [verifier])


def _dialects(
    config: EdgeCompileConfig, edge: Any, exceptions: list[Any], preserved: list[Any]
) -> list[Dialect]:
    """The dialects that a program passes through, the last one first."""
    if not config._check_ir_validity:
        return []
    layouts = facts() if config._skip_dim_order else facts(Fact.DIM_ORDER)
    before_layouts = dataclasses.replace(config, _skip_dim_order=True)
    return [
        Dialect(edge, facts(Fact.EDGE) | layouts),
        Dialect(
            EXIREdgeDialectVerifier(before_layouts, False, exceptions, preserved), facts(Fact.EDGE)
        ),
        Dialect(
            EXIRATenDialectVerifier(config, False, exceptions, preserved),
            facts(Fact.ATEN, Fact.NO_METADATA_ASSERTIONS),
        ),
    ]


def as_methods(programs: Programs) -> dict[str, ExportedProgram]:
    """Programs by method name; a single program is the method "forward"."""
    methods = dict(programs) if isinstance(programs, dict) else {"forward": programs}
    if not methods:
        raise ExportError(
            ExportErrorType.INVALID_INPUT_TYPE, "programs: expected at least one method, got none"
        )
    for name, program in methods.items():
        if not isinstance(name, str):
            raise ExportError(
                ExportErrorType.INVALID_INPUT_TYPE,
                f"programs: expected names of methods as keys, got {name!r}",
            )
        if not isinstance(program, ExportedProgram):
            raise ExportError(
                ExportErrorType.INVALID_INPUT_TYPE,
                f"method '{name}': expected the ExportedProgram that "
                f"torch.export.export(model, args) returns, got a {type(program).__name__}",
            )
    return methods


def check_arguments(constant_methods: Any, compile_config: Any) -> None:
    """Refuse wrong arguments that would otherwise fail far from the call."""
    if not isinstance(compile_config, EdgeCompileConfig | None):
        raise TypeError(
            f"compile_config: expected EdgeCompileConfig(…), got a {type(compile_config).__name__}"
        )
    if isinstance(constant_methods, EdgeCompileConfig):
        raise AssertionError(
            "constant_methods: expected a dict, got an EdgeCompileConfig; pass it as "
            "compile_config=…"
        )
    if not isinstance(constant_methods, Mapping | None) or not all(
        isinstance(name, str) for name in constant_methods or ()
    ):
        raise TypeError(
            "constant_methods: expected a dict from names to values, such as "
            f"{{'max_len': 128}}, got {constant_methods!r}"
        )


def to_edge(
    programs: Programs,
    constant_methods: dict[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Convert one exported program, or one per method name, to the edge dialect."""
    from executorch_py.exir.program.managers import EdgeProgramManager

    check_arguments(constant_methods, compile_config)
    config = compile_config or EdgeCompileConfig()
    edge_programs: dict[str, ExportedProgram] = {}
    methods = as_methods(programs)
    for name, program in methods.items():
        decomposed = decompose_all(
            restore_linear_layers(program),
            config._core_aten_ops_exception_list,
            config.preserve_ops,
        )
        if config._check_ir_validity:
            RemoveNonCoreAtenOpGraphAssertsPass().apply(decomposed.graph_module)
            EXIRATenDialectVerifier(config)(decomposed.graph_module)
        edge_programs[name] = generate_edge_program(
            config, decomposed, preserve_ops=config.preserve_ops
        )
    manager = EdgeProgramManager(edge_programs, constant_methods, config)
    if generate_etrecord:
        manager._etrecord = start_record(methods, manager)
    return manager
