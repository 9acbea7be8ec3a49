"""Equal calls are merged; calls that only look equal are not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn

from executorch_py.exir import to_edge
from executorch_py.exir.ir.graph import all_graph_modules
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.passes import CSEPass
from executorch_py.testing import verify_program


class Repeats(nn.Module):
    def forward(self, x: torch.Tensor, p: torch.Tensor) -> Any:
        sine = torch.cond(p, lambda x: x.sin() + x.sin(), lambda x: x.cos(), (x,))
        values = torch.topk(x, 2)[0] + torch.topk(x, 2)[0]
        return (x.exp() + 1) * (x.exp() + 1) + sine, values, x + 1, x + 1


class LooksEqual(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x.pow(2.0) + x.pow(3.0), x.sum(0) + x.sum(1), x.to(torch.int32), x.to(torch.int64)


class Sampled(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x + torch.rand(3) + torch.rand(3)


class Picks(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x[x > 0].sum() + x[x > 0].mean()


def calls(manager: Any) -> Counter[str]:
    modules = all_graph_modules(manager.exported_program().graph_module)
    return Counter(op_key(n.target) for gm in modules for n in gm.graph.nodes if op_key(n.target))


def lowered(model: nn.Module, *inputs: torch.Tensor) -> tuple[Any, Any]:
    before = to_edge(torch.export.export(model, inputs))
    return before, before.transform([CSEPass()])


def test_what_is_computed_twice_is_computed_once() -> None:
    model, x = Repeats(), torch.linspace(0, 1, 5)
    for p in (torch.tensor(True), torch.tensor(False)):
        before, after = lowered(model, x, p)
        there = calls(after)
        assert calls(before)["aten::exp"] == 2
        assert [there[f"aten::{name}"] for name in ("exp", "sin", "cos", "topk")] == [1, 1, 1, 1]
        verify_program(after.to_executorch(), model, x, p)


def test_calls_that_differ_in_an_argument_stay() -> None:
    model, x = LooksEqual(), torch.linspace(0, 4, 9).view(3, 3)
    before, after = lowered(model, x)
    assert calls(before) == calls(after)
    verify_program(after.to_executorch(), model, x)


def test_random_numbers_are_drawn_as_often_as_before() -> None:
    _, after = lowered(Sampled(), torch.zeros(3))
    assert calls(after)["aten::rand"] == 2


def test_results_sized_by_values_stay_and_are_right() -> None:
    model, x = Picks(), torch.linspace(-1, 4, 9)
    _, after = lowered(model, x)
    assert calls(after)["aten::index.Tensor"] == 2
    verify_program(after.to_executorch(), model, x)


def test_the_pass_tells_whether_it_changed_anything() -> None:
    before, after = lowered(Repeats(), torch.linspace(0, 1, 5), torch.tensor(True))
    assert not CSEPass()(after.exported_program().graph_module).modified
    assert before.exported_program().graph_module is not after.exported_program().graph_module
