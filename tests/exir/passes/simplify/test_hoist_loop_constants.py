"""Constants in control-flow bodies: computed once at export, stored once, and still right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.testing import verify_program

SIZE = 160  # A weight of 100 KiB is too large to be stored twice.


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)


class Condition(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.a(x) + 1, lambda x: self.b(x) * 2, (x,))


class Loop(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        start = (torch.tensor(0), x)
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.a(x).tanh()), start)


class Map(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        return map_over(lambda row: self.a(row[None]) + torch.arange(SIZE) * 0.5, x)


class Scan(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: Any, row: Any) -> Any:
            total = self.a(carry) + row
            return total, total * 2

        return scan(step, x[:1].clone(), x)


class ConditionInLoop(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        def body(i: Any, x: Any) -> Any:
            y = torch.cond(x.sum() > 0, lambda x: self.a(x) - 1, lambda x: self.b(x) + 3, (x,))
            return i + 1, y.tanh()

        return while_loop(lambda i, x: i < 4, body, (torch.tensor(0), x))


class Tied(Layers):
    """The weight is used as it is beside the loop that transposes it."""

    def forward(self, x: torch.Tensor) -> Any:
        _, y = while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, self.a(x).tanh()), (torch.tensor(0), x)
        )
        return y @ self.a.weight


class BranchOfConstants(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: torch.ones(2, SIZE) * 3, (x,))


X = torch.linspace(-1, 1, 2 * SIZE).view(2, SIZE)


def called(program: Any) -> list[str]:
    """The operators that the program calls, in order, with repetition."""
    (plan,) = program.executorch_program.execution_plan
    calls = [i.instr_args for i in plan.chains[0].instructions]
    return [plan.operators[c.op_index].name for c in calls if hasattr(c, "op_index")]


# Number of weights in the file of each model.
WEIGHTS = {
    Condition: 2,
    Loop: 1,
    Map: 1,
    Scan: 1,
    ConditionInLoop: 2,
    Tied: 1,
    BranchOfConstants: 0,
}


@pytest.mark.parametrize("model", WEIGHTS)
def test_bodies_compute_what_they_did_and_weights_are_stored_once(model: type[Layers]) -> None:
    module = model().eval()
    for x in (X + 0.1, X - 0.1):
        with torch.no_grad():
            program = to_edge(torch.export.export(module, (x,))).to_executorch()
        verify_program(program, module, x)
        assert len(program.buffer) // (SIZE * SIZE * 4) == WEIGHTS[model]


@pytest.mark.parametrize("model", [Condition, Loop, Map, Scan, ConditionInLoop])
def test_no_weight_is_transposed_and_no_constant_cast_at_run_time(model: type[Layers]) -> None:
    with torch.no_grad():
        manager = to_edge(torch.export.export(model().eval(), (X,)))
    names = called(manager.to_executorch())
    assert not {"aten::permute_copy", "aten::arange", "dim_order_ops::_to_dim_order_copy"} & {
        *names
    }
    plain = called(manager.to_executorch(ExecutorchBackendConfig(fold_constants=False)))
    assert "aten::permute_copy" in plain


def test_a_tied_weight_is_transposed_once_before_the_loop() -> None:
    with torch.no_grad():
        manager = to_edge(torch.export.export(Tied().eval(), (X,)))
    names = called(manager.to_executorch())
    assert names.count("aten::permute_copy") == 1
    assert names.index("aten::permute_copy") < names.index("aten::lt")


def test_the_edge_program_is_left_as_it_was() -> None:
    with torch.no_grad():
        manager = to_edge(torch.export.export(ConditionInLoop().eval(), (X,)))
    before = str(manager.exported_program())
    first = manager.to_executorch().buffer
    assert manager.to_executorch().buffer == first
    assert str(manager.exported_program()) == before
