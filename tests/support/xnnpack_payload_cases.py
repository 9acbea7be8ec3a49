"""Models that cover upstream's payloads: every node kind, element type and quantized form.

One model has many operators, because exporting takes most of the time. Upstream's process and the
tests use this module, which knows neither runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    dtype: torch.dtype = torch.float32
    quantize: str = ""  # "tensor", "channel": static; "dynamic"; "int4 group", "int4 channel"
    dynamic: dict[int, int] = field(default_factory=dict)  # input 0's dimension → most
    smaller: Callable[[], Inputs] | None = None  # a second set of inputs of other sizes

    def all_inputs(self) -> list[Inputs]:
        torch.manual_seed(len(self.name))
        sets = [self.inputs()] + ([self.smaller()] if self.smaller else [])
        return [tuple(self._cast(x) for x in inputs) for inputs in sets]

    def _cast(self, x: Tensor) -> Tensor:
        return x.to(self.dtype) if x.is_floating_point() else x

    def module(self) -> nn.Module:
        torch.manual_seed(1)
        return self.model().eval().to(self.dtype)


class Several(nn.Module):
    """A module that returns the results of several functions of the same inputs."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Tensor) -> tuple[Any, ...]:
        results: list[Any] = []
        for function in self.functions:
            result = function(*inputs)
            results += list(result) if isinstance(result, tuple) else [result]
        return tuple(results)


def some(*shape: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(*shape),)


def pair(a: tuple[int, ...], b: tuple[int, ...]) -> Callable[[], Inputs]:
    return lambda: (torch.randn(*a), torch.randn(*b))


UNARY: list[Callable[..., Any]] = [
    torch.sigmoid,
    torch.tanh,
    torch.exp,
    torch.abs,
    torch.neg,
    torch.floor,
    torch.ceil,
    torch.sin,
    torch.cos,
    f.hardswish,
    f.relu,
    f.leaky_relu,
    lambda x: torch.log(x.abs() + 1),
    lambda x: torch.sqrt(x.abs()),
    lambda x: torch.rsqrt(x.abs() + 1),
    lambda x: torch.pow(x, 2),
    lambda x: torch.clamp(x, -0.5, 0.7),
    lambda x: f.hardtanh(x, -0.25, 0.5),
    lambda x: torch.softmax(x, -1),
    lambda x: x.clone(),
]
BINARY: list[Callable[..., Any]] = [
    torch.add,
    torch.sub,
    torch.mul,
    lambda a, b: torch.div(a, b.abs() + 1),
    torch.maximum,
    torch.minimum,
    lambda a, b: a * 2.5 + 1,
    lambda a, b: f.relu(a + b),
    lambda a, b: f.hardtanh(a * b, -0.5, 0.5),
]
MOVES: list[Callable[..., Any]] = [
    lambda a, b: torch.cat([a, b], 1),
    lambda a, b: torch.cat([a, b, a], 2),
    lambda a, b: torch.cat([a, b, a, b], -1),
    lambda a, b: torch.cat([a, b, a, b, a], 0),
    lambda a, b: torch.cat([a, b, a, b, a, b, a], 1),
    lambda a, b: a.permute(0, 3, 1, 2),
    lambda a, b: a.reshape(2, -1),
    lambda a, b: a[:, 1:3, :, 2:4],
    lambda a, b: f.pad(a, (1, 2, 3, 0), value=1.5),
    lambda a, b: a.unsqueeze(-1),
]
IMAGES: list[Callable[..., Any]] = [
    lambda x: f.max_pool2d(x, 3, 2, 1),
    lambda x: f.max_pool2d(x, 2, 2, ceil_mode=True),
    lambda x: f.avg_pool2d(x, 2, 2),
    lambda x: f.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
    lambda x: x.mean((2, 3), keepdim=True),
    lambda x: f.interpolate(x, size=(11, 13), mode="bilinear", align_corners=False),
    lambda x: f.interpolate(x, size=(4, 5), mode="bilinear", align_corners=True),
]


class Convolutions(nn.Module):
    def __init__(self, quantizable: bool = False) -> None:
        super().__init__()
        self.plain = nn.Conv2d(4, 8, 3, padding=1)
        self.grouped = nn.Conv2d(8, 6, 3, stride=2, groups=2, dilation=1, bias=quantizable)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.doubled = nn.Conv2d(8, 16, 3, padding=2, dilation=2, groups=8)
        self.transposed = nn.ConvTranspose2d(16, 4, 3, stride=2, padding=1, output_padding=1)
        self.wide = nn.Conv2d(4, 4, 1, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = f.relu(self.plain(x))
        y = f.hardtanh(self.depthwise(x), 0, 6)
        return self.grouped(x), self.wide(self.transposed(self.doubled(y)))


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.alone = nn.BatchNorm2d(6)
        self.slope = nn.PReLU(6)
        self.line = nn.Conv1d(6, 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.slope(self.alone(f.relu(self.norm(self.conv(x)))))
        return x, self.line(x.flatten(2))


class Linears(nn.Module):
    def __init__(self, inputs: int = 64, outputs: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, outputs)
        self.second = nn.Linear(outputs, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(f.relu(self.first(x)))


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 5))
        self.bias = nn.Parameter(torch.randn(5))

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.bmm(a, b),
            torch.addmm(self.bias, a[0], self.weight),
            torch.mm(a[1], self.weight),
        )


class ImageNet(nn.Module):
    """A network of convolutions, a residual sum, pooling, a mean and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.c = nn.Conv2d(8, 8, 1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = f.relu(self.a(x))
        y = f.hardtanh(self.b(x), 0, 6)
        x = self.c(y) + x
        x = f.max_pool2d(f.hardswish(x), 2)
        x = torch.cat([x, x * 2], 1)
        x = self.up(x[:, :8])
        x = torch.cat([x, f.relu(x)], 1)
        return self.head(x.mean((2, 3), keepdim=True).flatten(1))


IMAGE, PAIR = (2, 4, 9, 10), ((2, 3, 4, 5), (2, 3, 4, 5))

CASES = {
    case.name: case
    for case in [
        Case("unary", lambda: Several(*UNARY, f.gelu), some(3, 5, 7)),
        Case("unary_f16", lambda: Several(*UNARY), some(3, 5, 7), dtype=torch.float16),
        Case("binary", lambda: Several(*BINARY), pair((2, 3, 4), (3, 1))),
        Case("moves", lambda: Several(*MOVES), pair(*PAIR)),
        Case("moves_f16", lambda: Several(*MOVES), pair(*PAIR), dtype=torch.float16),
        Case("images", lambda: Several(*IMAGES), some(*IMAGE)),
        Case("images_f16", lambda: Several(*IMAGES), some(*IMAGE), dtype=torch.float16),
        Case("convolutions", Convolutions, some(*IMAGE)),
        Case("convolutions_f16", Convolutions, some(*IMAGE), dtype=torch.float16),
        Case("normalised", Normalised, some(1, 3, 8, 9)),
        Case("linears_f16", Linears, some(2, 3, 64), dtype=torch.float16),
        Case("linears_bf16", Linears, some(3, 64), dtype=torch.bfloat16),
        Case("linears_dynamic", Linears, some(5, 64), dynamic={0: 7}, smaller=some(1, 64)),
        Case("products", Products, pair((3, 4, 6), (3, 6, 5))),
        Case("products_f16", Products, pair((3, 4, 6), (3, 6, 5)), dtype=torch.float16),
        Case("static_tensor", ImageNet, some(1, 3, 12, 12), quantize="tensor"),
        Case("static_channel", ImageNet, some(1, 3, 12, 12), quantize="channel"),
        Case(
            "dynamic_linears",
            Linears,
            some(4, 64),
            quantize="dynamic",
            dynamic={0: 8},
            smaller=some(1, 64),
        ),
        Case("group_linears", Linears, some(3, 64), quantize="int4 group"),
        Case("row_linears", Linears, some(3, 64), quantize="int4 channel"),
    ]
}
