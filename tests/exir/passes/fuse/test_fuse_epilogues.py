"""With own operators, element-wise steps become epilogues, with the same bits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from executorch_py.exir import ExecutorchBackendConfig, to_edge

# Weights stay as they are, so that operators keep the names that these tests are about.
OWN = ExecutorchBackendConfig(own_operators=True, prepack=False)


def instructions(program: Any) -> list[str]:
    """Operator names in order, own ones with a star."""
    plan = program.executorch_program.execution_plan[0]
    calls = [i.instr_args for i in plan.chains[0].instructions]
    names = [plan.operators[c.op_index].name for c in calls if hasattr(c, "op_index")]
    return [n.split("::")[1] + ("*" if n.startswith("executorch_py::") else "") for n in names]


def both(model: nn.Module, inputs: tuple[Any, ...], **kwargs: Any) -> list[str]:
    """Instructions of the fused program (own operators marked), whose outputs are compared."""
    with torch.no_grad():
        edge = to_edge(torch.export.export(model.eval(), inputs, **kwargs))
    plain, fused = edge.to_executorch(), edge.to_executorch(OWN)
    for ours, wanted in zip(fused.run(*inputs), plain.run(*inputs), strict=True):
        assert torch.equal(ours, wanted)
    assert fused.verify(model, *inputs).ok
    assert not any("executorch_py::" in op.name for op in operators(plain))
    return instructions(fused)


def operators(program: Any) -> Any:
    return program.executorch_program.execution_plan[0].operators


class Net(nn.Module):
    """Layers by name, and a function that calls them."""

    def __init__(self, body: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.body = body
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        result = self.body(self, *inputs)
        return result if isinstance(result, tuple) else (result,)


def image(*, channels_last: bool = False) -> torch.Tensor:
    x = torch.randn(1, 8, 13, 14, generator=torch.Generator().manual_seed(0))
    return x.to(memory_format=torch.channels_last) if channels_last else x


conv = functools.partial(nn.Conv2d, 8, 8, 3, padding=1)
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu of tanh": lambda x: F.gelu(x, approximate="tanh"),
    "leaky relu": lambda x: F.leaky_relu(x, 0.2),
    "tanh": torch.tanh,
    "arithmetic": lambda x: (x * 2.5 - 1) / 3,
}


@pytest.mark.parametrize("channels_last", [False, True])
def test_every_activation_joins_its_convolution(channels_last: bool) -> None:
    def body(net: Any, x: torch.Tensor) -> Any:
        for activation in ACTIVATIONS.values():
            x = activation(net.conv(x))
        return x

    model = Net(body, conv=conv())
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    found = both(model, (image(channels_last=channels_last),))
    assert found == ["convolution*"] * len(ACTIVATIONS)


def test_a_residual_sum_and_its_activation_join_the_later_convolution() -> None:
    body = lambda net, x: F.relu(net.b(F.relu(net.a(x))) + net.c(x))  # noqa: E731
    found = both(Net(body, a=conv(), b=conv(), c=conv()), (image(),))
    assert sorted(found) == ["convolution", "convolution*", "convolution*"]


def test_a_linear_layer_takes_steps_behind_a_reshape() -> None:
    def body(net: Any, x: torch.Tensor) -> Any:
        return x + net.b(F.gelu(net.a(x))), F.silu(net.c(x)) * net.a(x)

    layers = {"a": nn.Linear(12, 24), "b": nn.Linear(24, 12), "c": nn.Linear(12, 24, bias=False)}
    found = both(Net(body, **layers), (torch.randn(2, 5, 12),))
    assert sorted(found) == ["addmm", "addmm*", "addmm*", "mm*"]


def test_steps_that_follow_no_product_become_one_chain() -> None:
    body = lambda net, x, y: torch.tanh(torch.sigmoid(x) * y + x).exp() - y  # noqa: E731
    assert both(Net(body), (torch.randn(3, 4), torch.randn(3, 4))) == ["chain*"]


STAYS: dict[str, Callable[..., Any]] = {
    "a result that is used elsewhere": lambda net, x: (F.relu(y := net.conv(x)), y.mean()),
    "a step that is an output": lambda net, x: (y := F.relu(net.conv(x)), y.mean(), y),
    "a broadcast operand": lambda net, x: net.conv(x) * x[:, :, :1, :1],
    "another scale": lambda net, x: torch.add(net.conv(x), x, alpha=2),
    "bounds that are tensors": lambda net, x: torch.clamp(net.conv(x), x, x + 1),
    "another dtype": lambda net, x: net.conv(x).half().relu(),
}


@pytest.mark.parametrize("case", STAYS)
def test_what_is_not_exactly_a_chain_gives_the_same_bits(case: str) -> None:
    found = both(Net(STAYS[case], conv=conv()), (image(),))
    assert ("convolution*" in found) == (case == "a step that is an output")


def test_sizes_may_vary() -> None:
    dims = ({0: Dim("n", max=4), 2: Dim("h", min=8, max=20)},)
    body = lambda net, x: F.hardswish(net.conv(x)) * torch.sigmoid(x) + x  # noqa: E731
    model = Net(body, conv=conv())
    found = both(model, (image().expand(2, 8, 13, 14).clone(),), dynamic_shapes={"inputs": dims})
    assert found[-1].endswith("*") and len(found) < 8


def test_sizes_may_depend_on_values() -> None:
    class Picked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
            rows = self.layer(x[chosen.nonzero().squeeze(1)])
            return torch.relu(rows.reshape(-1)) + 1

    model, inputs = Picked().eval(), (torch.randn(6, 4), torch.tensor([1, 0, 1, 1, 0, 0]))
    program = to_edge(torch.export.export(model, inputs)).to_executorch(
        ExecutorchBackendConfig(own_operators=True)
    )
    assert program.verify(model, *inputs).ok


def test_a_chain_in_a_loop_and_in_place_state_keep_their_values() -> None:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(6, 6)
            self.register_buffer("seen", torch.zeros(5, 1, 6))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.rnn(x)[0]
            self.seen.add_(y.relu() * 2)
            return torch.tanh(self.seen * y), y

    assert "chain*" in both(Cell(), (torch.randn(5, 1, 6),))
