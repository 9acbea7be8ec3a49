"""Regions of convolutions use channels-last images if that is faster.

Results have the same bits, except that a mean over pixels adds them in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.tolerance import EXACT, F32, assert_near
from torch import nn

from executorch_py.exir import ExecutorchBackendConfig, to_edge

COPY = "dim_order_ops::_to_dim_order_copy"


def block(*, inputs: int = 32, outputs: int = 32, **options: Any) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, **options), nn.ReLU6())


class Residual(nn.Module):
    def __init__(self, *, averages: bool = False, **options: Any) -> None:
        super().__init__()
        self.first = block(inputs=3)
        self.blocks = nn.ModuleList(block(**options) for _ in range(12))
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(32, 5)
        self.averages = averages

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.first(x))
        for layer in self.blocks:
            x = x + layer(x) * 0.5
        pooled = x.mean((2, 3)) if self.averages else x.amax((2, 3))
        return torch.as_tensor(self.head(pooled))


class Excited(nn.Module):
    """A convolution whose channels are scaled by a function of their means, as in MobileNetV3."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = block()
        self.gate = nn.Sequential(nn.Conv2d(32, 8, 1), nn.ReLU(), nn.Conv2d(8, 32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        return x * nn.functional.hardsigmoid(self.gate(x.mean((2, 3), keepdim=True)))


def image(size: int = 32) -> torch.Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))


def copies(program: Any) -> int:
    plan = program.executorch_program.execution_plan[0]
    names = [plan.operators[i.instr_args.op_index].name for i in plan.chains[0].instructions]
    return names.count(COPY)


def lowered(model: nn.Module, x: torch.Tensor, *, same_bits: bool = True) -> list[Any]:
    """The default program, and programs with own operators, without and with chosen layouts."""
    with torch.no_grad():
        edge = to_edge(torch.export.export(model.eval(), (x,)))
    own = [ExecutorchBackendConfig(own_operators=True, choose_layouts=c) for c in (False, True)]
    programs = [edge.to_executorch(config) for config in (None, *own)]
    wanted = programs[0].run(x)
    for program in programs[1:]:
        assert_near(program.run(x), wanted, EXACT if same_bits else F32)
    assert copies(programs[0]) == 0
    return programs


@pytest.mark.parametrize("options", [{}, {"groups": 32}], ids=["dense", "depthwise"])
def test_a_network_is_entered_and_left_by_one_copy(options: dict[str, Any]) -> None:
    model, x = Residual(**options), image()
    programs = lowered(model, x)
    assert [copies(program) for program in programs] == [0, 0, 2]
    assert programs[2].verify(model, x).ok
    sizes = [p.executorch_program.execution_plan[0].non_const_buffer_sizes for p in programs]
    assert sum(sizes[2]) <= 1.1 * sum(sizes[0])


def test_means_of_images_and_products_with_them_stay_in_the_region() -> None:
    x = image()
    model = Residual(averages=True)
    model.blocks = nn.ModuleList(Excited() for _ in range(4))
    programs = lowered(model, x, same_bits=False)
    assert [copies(program) for program in programs] == [0, 0, 1]
    assert programs[2].verify(model, x).ok


def stack(make: Callable[[], nn.Module], count: int = 6) -> nn.Module:
    first = block(inputs=3)
    return nn.Sequential(first, *(make() for _ in range(count)))


STAYS: dict[str, nn.Module] = {
    "few convolutions": stack(block, 2),
    "few channels": nn.Sequential(block(inputs=3, outputs=8), *(block(inputs=8, outputs=8),) * 6),
    "groups of several channels": stack(lambda: block(groups=4)),
    "much to copy": stack(lambda: nn.Sequential(block(), nn.Softmax(1))),
    "transposed": stack(lambda: nn.ConvTranspose2d(32, 32, 3, padding=1)),
}


@pytest.mark.parametrize("case", STAYS)
def test_layouts_stay_where_copies_would_cost_more(case: str) -> None:
    assert [copies(program) for program in lowered(STAYS[case], image(12))] == [0, 0, 0]


def test_channels_last_models_stay_as_they_are() -> None:
    model, x = Residual().to(memory_format=torch.channels_last), image()
    x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        edge = to_edge(torch.export.export(model.eval(), (x,)))
    own = [ExecutorchBackendConfig(own_operators=True, choose_layouts=c) for c in (False, True)]
    plain, chosen = (edge.to_executorch(config) for config in own)
    assert bytes(plain.buffer) == bytes(chosen.buffer)
