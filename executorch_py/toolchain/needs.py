"""Needs of program files for a selective build: their operators and the element types of each.

Needs are read from the instructions of all methods, in files that the runtime has opened. A damaged
plan is an error here too. Knows no kernel.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from executorch_py.runtime.file_layout import KIND_TENSOR, PROGRAM_PLANS, TENSOR_DTYPE, Table
from executorch_py.runtime.program import open_program

_PLAN_VALUES, _PLAN_CHAINS, _PLAN_OPERATORS, _PLAN_DELEGATES = 2, 5, 6, 7
_CHAIN_INSTRUCTIONS, _KERNEL_CALL = 2, 1
_TENSOR_LISTS = (10, 11)


@dataclass
class Needs:
    """Operators of a program file with their element types (ScalarType numbers), and backends."""

    path: str
    operators: dict[str, set[int]] = field(default_factory=dict)
    backends: set[str] = field(default_factory=set)


def read_needs(path: str) -> Needs:
    """Needs of one program file."""
    program = open_program(path)
    data = bytes(program.buffer().data)
    needs = Needs(path)
    try:
        root = Table(data, struct.unpack_from("<I", data, 0)[0])
        for plan in root.tables(PROGRAM_PLANS):
            _add_plan(needs, plan)
    except (struct.error, IndexError, AttributeError) as error:
        raise ValueError(f"{path}: a method's plan is damaged ({error})") from None
    return needs


def _add_plan(needs: Needs, plan: Table) -> None:
    needs.backends |= {delegate.text(0) for delegate in plan.tables(_PLAN_DELEGATES)}
    names = []
    for operator in plan.tables(_PLAN_OPERATORS):
        overload = operator.text(1)
        names.append(operator.text(0) + (f".{overload}" if overload else ""))
    values = plan.tables(_PLAN_VALUES)
    for chain in plan.tables(_PLAN_CHAINS):
        for instruction in chain.tables(_CHAIN_INSTRUCTIONS):
            call = instruction.table(1)
            if instruction.scalar(0, "B") != _KERNEL_CALL or call is None:
                continue
            types = needs.operators.setdefault(names[call.scalar(0, "i")], set())
            for value in call.scalars(1, "i"):
                types |= _types_of(values, value)


def _types_of(values: list[Table], index: int) -> set[int]:
    if index < 0:
        return set()
    kind, value = values[index].scalar(0, "B"), values[index].table(1)
    if value is None:
        return set()
    if kind == KIND_TENSOR:
        return {value.scalar(TENSOR_DTYPE, "B")}
    if kind in _TENSOR_LISTS:
        members = value.scalars(0, "i")
        return set().union(*(_types_of(values, member) for member in members))
    return set()
