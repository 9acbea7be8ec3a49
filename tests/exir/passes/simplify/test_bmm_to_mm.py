"""Batches of products with one matrix become one product, with the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tolerance import EXACT, assert_near
from torch import nn
from torch.export import Dim, export

from executorch_py.exir import ExecutorchBackendConfig, ExecutorchProgramManager, to_edge


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x, self.weight.expand(x.shape[0], 32, 48))


class Stack(nn.Module):
    """The weight as the one entry of a batch, spread over several dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 32, 48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight.unsqueeze(0).expand(x.shape[0], 3, 32, 48)
        return torch.matmul(x.unsqueeze(1).expand(x.shape[0], 3, 5, 32), weight) + 1


def lowered(model: nn.Module, x: torch.Tensor, shapes: Any, **settings: Any) -> Any:
    exported = export(model.eval(), (x,), dynamic_shapes=shapes)
    return to_edge(exported).to_executorch(ExecutorchBackendConfig(**settings))


def operators(program: ExecutorchProgramManager) -> list[str]:
    plan = program.executorch_program.execution_plan[0]
    return [plan.operators[i.instr_args.op_index].name for i in plan.chains[0].instructions]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("model", [Sum, Stack])
def test_a_repeated_weight_is_used_once(model: type[nn.Module], dynamic: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 5, 32)
    shapes = ({0: Dim("n", min=2, max=9)},) if dynamic else None
    subject = model()
    program = lowered(subject, x, shapes)
    before = lowered(subject, x, shapes, remove_redundant=False)
    assert "aten::mm" in operators(program) and "aten::bmm" not in operators(program)
    assert "aten::bmm" in operators(before)
    assert_near(program.run(x), before.run(x), EXACT)
    assert program.verify(subject, x).ok


def test_matrices_of_their_own_stay_a_batch() -> None:
    class Own(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.bmm(x, x.transpose(1, 2))

    assert "aten::bmm" in operators(lowered(Own(), torch.randn(7, 5, 32), None))


def test_a_batch_whose_size_depends_on_values_stays_a_batch() -> None:
    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = x[x.sum((1, 2)) > 0]
            return nn.functional.scaled_dot_product_attention(rows, rows, rows)

    x = torch.randn(6, 3, 4)
    program = lowered(Chosen(), x, None)
    assert "aten::bmm" in operators(program)
    assert program.verify(Chosen(), x).ok
