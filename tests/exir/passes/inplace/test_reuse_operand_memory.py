"""Results that reuse the memory of dying operands: right on our kernels, in fewer bytes.

The same table runs on upstream's kernels in the interop catalogue (`overwritten_operands`).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from interop.catalogue import CASES
from interop.structures import Overwriting
from support.tolerance import F16_FUNCTIONS, F32, assert_near
from torch import nn
from torch.utils import _pytree as pytree

from executorch_py.exir import to_edge
from executorch_py.exir.ir.inplace_rules import ELEMENT_BY_ELEMENT, ROW_BY_ROW
from executorch_py.exir.ir.op_traits import is_out_variant, op_key
from executorch_py.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
from executorch_py.exir.passes.memory_planning_pass import MemoryPlanningPass
from executorch_py.exir.program.config import ExecutorchBackendConfig


def exported(model: nn.Module, inputs: Any, **options: Any) -> Any:
    with torch.no_grad():
        edge = to_edge(torch.export.export(model, inputs))
        return edge.to_executorch(ExecutorchBackendConfig(**options))


def overwriting(program: Any) -> list[str]:
    """Operators whose result is in the memory of another tensor."""
    return [
        op_key(node.target)
        for node in program.exported_program().graph.nodes
        if is_out_variant(node.target) and getattr(node.meta["spec"], "storage_base", None)
    ]


def arena(program: Any) -> int:
    return int(program.executorch_program.execution_plan[0].non_const_buffer_sizes[1])


@pytest.mark.parametrize("half", [False, True], ids=["f32", "f16"])
def test_every_operator_that_may_write_over_an_operand_gives_eagers_numbers(half: bool) -> None:
    model, (x, i, b) = Overwriting(), CASES["overwritten_operands"].all_inputs()[0]
    inputs = (x.half() if half else x, i, b)
    program = exported(model, inputs)
    used = {name.partition(".")[0] for name in overwriting(program)}
    # The operator `chain` has its tests beside the pass that makes it.
    aten = {name for name in ELEMENT_BY_ELEMENT | ROW_BY_ROW if name.startswith("aten::")}
    assert used == aten
    expected = pytree.tree_leaves(model(*inputs))
    for ours, eager in zip(pytree.tree_leaves(program.run(*inputs)), expected, strict=True):
        tolerance = F16_FUNCTIONS if half else F32
        assert_near(torch.as_tensor(ours), eager, tolerance, equal_nan=True)


def chain(x: torch.Tensor) -> torch.Tensor:
    return ((x.sin() * 2).exp() + 1).softmax(-1).view(-1).tanh()


class Formula(nn.Module):
    def __init__(self, formula: Any) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.formula(*inputs)


def test_a_chain_of_operators_works_in_one_tensor() -> None:
    x = torch.randn(8, 64)
    program = exported(Formula(chain), (x,))
    # The memory of an input is not reused: callers may run again without setting it.
    assert arena(program) == 2 * x.numel() * 4
    torch.testing.assert_close(torch.as_tensor(program.run(x)), chain(x))
    names = overwriting(program)
    assert [n.partition(".")[0][6:] for n in names] == ["mul", "exp", "add", "_softmax", "tanh"]


KEPT = {
    "read later": lambda x: (y := x.sin(), y.exp() + y)[1],
    "returned": lambda x: (y := x.sin(), y.exp()),
    "an input": lambda x: x.exp(),
    "a broadcast operand": lambda x: x.sum(0, keepdim=True) + x,
    "a part of a larger tensor": lambda x: x.sin()[1:3].exp(),
    "of another type": lambda x: x.sin() > x,
    "read all over": lambda x: x.sin().cumsum(0),
}


@pytest.mark.parametrize("name", KEPT)
def test_operands_that_are_needed_are_not_overwritten(name: str) -> None:
    x = torch.randn(4, 8)
    program = exported(Formula(KEPT[name]), (x,))
    assert [n for n in overwriting(program) if "exp" in n or "cumsum" in n or "gt" in n] == []
    expected = pytree.tree_leaves(KEPT[name](x))
    for ours, eager in zip(pytree.tree_leaves(program.run(x)), expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), eager)


def test_other_planners_and_the_switch_keep_operands_apart() -> None:
    x = torch.randn(8, 64)
    planner = MemoryPlanningPass(MemoryPlanningAlgorithmSuite([greedy]))
    assert overwriting(exported(Formula(chain), (x,), memory_planning_pass=planner)) == []
    assert overwriting(exported(Formula(chain), (x,), overwrite_operands=False)) == []
