"""The names of executorch_py.exir.control_flow, in eager mode, exported, and run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim, export

from executorch_py.exir import to_edge
from executorch_py.exir.control_flow import cond, map, shape, while_loop
from executorch_py.exir.error import ExportError


class Formula(torch.nn.Module):
    def __init__(self, formula: Any) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.formula(*inputs)


def double_until(x: torch.Tensor) -> Any:
    def small(step: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        return step < 4

    def double(step: torch.Tensor, total: torch.Tensor) -> Any:
        return step + 1, total * 2

    return while_loop(small, double, (torch.tensor(0), x))[1]


FORMULAS = [
    lambda x: cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,)),
    lambda x: map(lambda row: row * 3, x),
    double_until,
    lambda x: x.sum() + shape(x)[0],
]


@pytest.mark.parametrize("formula", FORMULAS, ids=["cond", "map", "while_loop", "shape"])
def test_the_program_computes_what_eager_mode_does(formula: Any) -> None:
    model, x = Formula(formula), torch.arange(6.0).reshape(3, 2)
    program = to_edge(export(model, (x,))).to_executorch()
    for value in (x, -x):
        torch.testing.assert_close(program.run(value), model(value))


def test_shape_follows_a_dynamic_dimension() -> None:
    model = Formula(lambda x: x.sum() + shape(x)[0])
    x = torch.ones(3, 2)
    exported = export(model, (x,), dynamic_shapes=(({0: Dim("n", min=1, max=8)},),))
    to_edge(exported).to_executorch().verify(model, x)


def test_a_loop_carries_tensors_only() -> None:
    with pytest.raises(ExportError, match=r"carries tensors only; got \['int', 'Tensor'\]"):
        while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), (0, torch.ones(1)))
