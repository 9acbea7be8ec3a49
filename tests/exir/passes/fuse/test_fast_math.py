"""With math="fast", convolutions that gain become Winograd convolutions; others stay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from executorch_py.exir import ExecutorchBackendConfig, to_edge

WINOGRAD = "executorch_py::winograd_convolution"
FAST = ExecutorchBackendConfig(own_operators=True, math="fast")


def image(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def lowered(model: nn.Module, x: torch.Tensor, dynamic_shapes: Any = None) -> Any:
    with torch.no_grad():
        exported = torch.export.export(model.eval(), (x,), dynamic_shapes=dynamic_shapes)
    return to_edge(exported).to_executorch(FAST)


def operators(program: Any) -> list[str]:
    plan = program.executorch_program.execution_plan[0]
    return [plan.operators[i.instr_args.op_index].name for i in plan.chains[0].instructions]


class Block(nn.Module):
    """Two convolutions with norms, a residual sum, and an activation after each."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.second(y) + x)


def test_convolutions_keep_their_epilogues() -> None:
    model, x = Block(), image(1, 32, 17, 19)
    program = lowered(model, x)
    assert operators(program) == [WINOGRAD] * 2
    assert program.verify(model, x).ok


def test_a_convolution_without_epilogue_is_replaced() -> None:
    model, x = nn.Conv2d(24, 40, 3, padding=(2, 0)), image(2, 24, 9, 12)
    program = lowered(model, x)
    assert operators(program) == [WINOGRAD]
    assert program.verify(model, x).ok


def test_regions_are_channels_last() -> None:
    model, x = nn.Sequential(*(Block() for _ in range(11))), image(1, 32, 16, 16)
    program = lowered(model, x)
    copy = "dim_order_ops::_to_dim_order_copy"
    assert operators(program) == [copy, *[WINOGRAD] * 22, copy]
    assert program.verify(model, x).ok


def test_a_dynamic_batch_is_allowed() -> None:
    model, x = Block(), image(3, 32, 14, 14)
    program = lowered(model, x, ({0: Dim("batch", min=1, max=5)},))
    assert operators(program) == [WINOGRAD] * 2
    assert program.verify(model, x).ok


class Computed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = x[:, :, :3, :3].expand(32, 32, 3, 3) * 0.1
        return nn.functional.conv2d(x, weight, padding=1)


STAYS: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "stride": (nn.Conv2d(32, 32, 3, stride=2, padding=1), image(1, 32, 16, 16)),
    "dilation": (nn.Conv2d(32, 32, 3, dilation=2, padding=1), image(1, 32, 16, 16)),
    "groups": (nn.Conv2d(32, 32, 3, groups=2, padding=1), image(1, 32, 16, 16)),
    "depthwise": (nn.Conv2d(32, 32, 3, groups=32, padding=1), image(1, 32, 16, 16)),
    "transposed": (nn.ConvTranspose2d(32, 32, 3, padding=1), image(1, 32, 16, 16)),
    "other taps": (nn.Conv2d(32, 32, 5, padding=1), image(1, 32, 16, 16)),
    "one dimension": (nn.Conv1d(32, 32, 3, padding=1), image(1, 32, 16)),
    "much padding": (nn.Conv2d(32, 32, 3, padding=3), image(1, 32, 16, 16)),
    "few channels": (nn.Conv2d(3, 64, 3, padding=1), image(1, 3, 16, 16)),
    "few pixels": (nn.Conv2d(64, 64, 3, padding=1), image(1, 64, 3, 3)),
    "computed weights": (Computed(), image(1, 32, 16, 16)),
    "half precision": (nn.Conv2d(32, 32, 3, padding=1).half(), image(1, 32, 16, 16).half()),
}


@pytest.mark.parametrize("case", STAYS)
def test_other_convolutions_stay(case: str) -> None:
    model, x = STAYS[case]
    assert WINOGRAD not in operators(lowered(model, x))


def test_dynamic_height_and_width_stay() -> None:
    size = Dim("size", min=8, max=32)
    program = lowered(Block(), image(1, 32, 16, 16), ({2: size, 3: size},))
    assert WINOGRAD not in operators(program)


@pytest.mark.parametrize(
    ("channels", "size", "tile"), [(32, 112, 6), (32, 28, 4), (256, 14, 4), (512, 7, 2)]
)
def test_tiles_are_large_where_weights_are_few(channels: int, size: int, tile: int) -> None:
    model, x = nn.Conv2d(channels, channels, 3, padding=1), image(1, channels, size, size)
    plan = lowered(model, x).executorch_program.execution_plan[0]
    (call,) = (i.instr_args for i in plan.chains[0].instructions)
    assert plan.values[call.args[9]].val.int_val == tile


def test_math_is_exact_by_default() -> None:
    with torch.no_grad():
        edge = to_edge(torch.export.export(Block().eval(), (image(1, 32, 16, 16),)))
    exact = edge.to_executorch(ExecutorchBackendConfig(own_operators=True))
    named = edge.to_executorch(ExecutorchBackendConfig(own_operators=True, math="exact"))
    assert WINOGRAD not in operators(exact)
    assert bytes(exact.buffer) == bytes(named.buffer)
