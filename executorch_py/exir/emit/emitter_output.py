"""emit_program: lowered methods in, the program's tables and its data out.

Methods are emitted in sorted order, then training getters, then constant methods in the order
given; constants and delegate payloads are shared by content over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram

from executorch_py.exir import schema
from executorch_py.exir.emit.emit_method import MethodPlan
from executorch_py.exir.emit.emitter import ProgramState
from executorch_py.exir.emit.getters import emit_getters, training_getters
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.schema import EXECUTORCH_SCHEMA_VERSION


@dataclass
class EmitterOutput:
    """The program before serialisation, and what links its instructions back to the graphs.

    The three maps are keyed by method, then by instruction index. `mutable_data` and the external
    constants are stored beside the program by the serialiser.
    """

    program: schema.Program
    debug_handle_map: dict[str, dict[int, int | list[int]]]
    method_to_delegate_debug_id_map: dict[str, dict[int, dict[str, Any]]]
    instruction_id_to_num_outs_map: dict[str, dict[int, int]]
    mutable_data: list[schema.Buffer] | None
    external_constant_buffer: list[Any]
    external_constant_map: dict[str, dict[str, int]] | None


def emit_program(
    methods: ExportedProgram | Mapping[str, ExportedProgram],
    emit_stacktrace: bool = False,
    prim_getters: Mapping[str, Any] | None = None,
    emit_mutable_buffer_names: bool = False,
) -> EmitterOutput:
    """Emit memory-planned methods and constant methods (`prim_getters`) as one program.

    The exported programs are read, not changed. A single program is the method "forward".
    """
    if isinstance(methods, ExportedProgram):
        methods = {"forward": methods}
    wrong = {
        name: type(ep).__name__
        for name, ep in methods.items()
        if not isinstance(ep, ExportedProgram)
    }
    if wrong:
        raise ExportError(
            ExportErrorType.INVALID_INPUT_TYPE,
            f"methods {list(wrong)}: expected an ExportedProgram each, got "
            f"{', '.join(wrong.values())}",
        )
    state = ProgramState()
    emitted = {
        name: MethodPlan(name, ep, state, emit_stacktrace, emit_mutable_buffer_names)
        for name, ep in sorted(methods.items())
    }
    plans = [method.plan for method in emitted.values()]
    plans += emit_getters(training_getters(methods), state.constants)
    plans += emit_getters(prim_getters or {}, state.constants)
    _refuse_repeated_names(plans)
    notes = {name: method.emitter for name, method in emitted.items()}
    states = state.constants.mutable_buffer
    return EmitterOutput(
        program=schema.Program(
            version=EXECUTORCH_SCHEMA_VERSION,
            execution_plan=plans,
            constant_buffer=state.constants.constant_buffer,
            backend_delegate_data=state.payloads.payloads,
            segments=[],
            constant_segment=schema.SubsegmentOffsets(0, []),
        ),
        debug_handle_map={name: em.debug_handle_map for name, em in notes.items()},
        method_to_delegate_debug_id_map={name: em.delegate_map for name, em in notes.items()},
        instruction_id_to_num_outs_map={
            name: em.instruction_id_to_num_outs_map for name, em in notes.items()
        },
        mutable_data=states if len(states) > 1 else None,
        external_constant_buffer=state.constants.external_buffer,
        external_constant_map=state.constants.external_map,
    )


def _refuse_repeated_names(plans: list[schema.ExecutionPlan]) -> None:
    seen: set[str] = set()
    for plan in plans:
        if plan.name in seen:
            raise ExportError(
                ExportErrorType.NOT_SUPPORTED,
                f"'{plan.name}' is both a method and a constant method; rename one of them",
            )
        seen.add(plan.name)
