"""Test cases for quantizers: layers and functions, all run within one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    """One function of a module's layers and of inputs of these shapes.

    `left` has operators that stay float in static quantization, with reasons.
    """

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    layers: Callable[[], dict[str, nn.Module]] = dict
    left: tuple[tuple[str, str], ...] = ()


def linear(*names: str, bias: bool = True) -> Callable[[], dict[str, nn.Module]]:
    return lambda: {name: nn.Linear(8, 8, bias=bias) for name in names}


def one(layer: Callable[..., nn.Module], *args: Any, **kwargs: Any) -> Any:
    return lambda: {"a": layer(*args, **kwargs)}


def shared(name: str) -> Callable[[], dict[str, nn.Module]]:
    def make() -> dict[str, nn.Module]:
        a, b = nn.Linear(8, 8), nn.Linear(8, 8)
        setattr(b, name, getattr(a, name))
        return {"a": a, "b": b}

    return make


ROW, IMAGE, LINE = (4, 8), (2, 4, 6, 6), (2, 4, 9)
FLOAT = "floats only"


def two_ways(s: Any, x: torch.Tensor) -> Tensors:
    y, z = s.a(x), s.b(x)
    return torch.cat([y, z], 1), torch.cat([z, y], 1)


def chain(s: Any, x: torch.Tensor) -> torch.Tensor:
    y = x + s.a(x)
    return F.relu(y + s.b(F.relu(y)))


def read_again(s: Any, x: torch.Tensor) -> Tensors:
    y = s.a(x)
    return y, s.b(y), F.relu(y)


def nested(s: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.cat([s.a(x), x], 1), torch.cat([s.b(x), s.a(x)], 1)], 1)


def attention(s: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = s.c(F.scaled_dot_product_attention(s.a(x), s.b(x), x))
    return result


CASES = (
    Case("without_bias", lambda s, x: s.a(x), (ROW,), linear("a", bias=False)),
    Case("rows_of_rows", lambda s, x: s.a(x), ((2, 4, 8),), linear("a")),
    Case("shared_bias", lambda s, x: s.b(F.relu(s.a(x)) * 3), (ROW,), shared("bias")),
    Case("shared_weight", lambda s, x: s.b(F.relu(s.a(x)) * 3), (ROW,), shared("weight")),
    Case("called_twice", lambda s, x: s.a(F.relu(s.a(x))), (ROW,), linear("a")),
    Case("addmm", lambda s, x: torch.addmm(s.a.bias, x, s.a.weight), (ROW,), linear("a")),
    Case("mm_turned", lambda s, x: F.relu(torch.mm(x, s.a.weight.t())), (ROW,), linear("a")),
    Case(
        "mm_computed",
        lambda s, x, y: torch.mm(x, y),
        (ROW, (8, 3)),
        left=(("mm", "its weights are quantized at run time"),),
    ),
    Case("conv1d", lambda s, x: F.relu(s.a(x)), (LINE,), one(nn.Conv1d, 4, 6, 3, padding=1)),
    Case("conv1d_groups", lambda s, x: s.a(x), (LINE,), one(nn.Conv1d, 4, 8, 3, groups=2)),
    Case("conv1d_deep", lambda s, x: s.a(x), (LINE,), one(nn.Conv1d, 4, 4, 3, groups=4)),
    Case("conv_same", lambda s, x: s.a(x), (IMAGE,), one(nn.Conv2d, 4, 4, 3, padding="same")),
    Case("up1d", lambda s, x: s.a(x), (LINE,), one(nn.ConvTranspose1d, 4, 6, 3, 2, groups=2)),
    Case("up", lambda s, x: F.relu(s.a(x)), (IMAGE,), one(nn.ConvTranspose2d, 4, 6, 3, 2, 0, 1)),
    Case("up_groups", lambda s, x: s.a(x), (IMAGE,), one(nn.ConvTranspose2d, 4, 6, 3, groups=2)),
    Case("up_deep", lambda s, x: s.a(x), (IMAGE,), one(nn.ConvTranspose2d, 4, 4, 2, 2, groups=4)),
    Case("cat_of_itself", lambda s, x: torch.cat([x, x], 1) + 1, (ROW,)),
    Case("cat_both_ways", two_ways, (ROW,), linear("a", "b")),
    Case("cat_of_cats", nested, (ROW,), linear("a", "b")),
    Case("sum_with_itself", lambda s, x: (lambda y: y + y)(s.a(x)), (ROW,), linear("a")),
    Case("input_by_itself", lambda s, x: x * x, (ROW,)),
    Case("residual_chain", chain, (ROW,), linear("a", "b")),
    Case("output_read_again", read_again, (ROW,), linear("a", "b")),
    Case("broadcast", lambda s, x, y: x - y, (ROW, (8,))),
    Case("constant_times", lambda s, x: s.a.bias * s.b(x), (ROW,), linear("a", "b")),
    Case("constant_plus", lambda s, x: s.a.bias + s.b(x), (ROW,), linear("a", "b")),
    Case("constant_minus", lambda s, x: s.a.bias - s.b(x), (ROW,), linear("a", "b")),
    Case(
        "product_of_two",
        lambda s, x, y: s.a(x) @ y,
        ((2, 4, 8), (2, 8, 3)),
        linear("a"),
        (("matmul", FLOAT),),
    ),
    Case(
        "attention",
        attention,
        ((2, 4, 8),),
        linear("a", "b", "c"),
        (("scaled_dot_product_attention", FLOAT),),
    ),
    Case("relu6", lambda s, x: F.relu6(s.a(x)), (IMAGE,), one(nn.Conv2d, 4, 4, 3)),
    Case("hardtanh", lambda s, x: F.hardtanh(s.a(x), -0.5, 0.2), (ROW,), linear("a")),
    Case("clamp", lambda s, x: s.a(x).clamp(-0.2, 0.5), (ROW,), linear("a")),
    Case("clamp_above", lambda s, x: s.a(x).clamp(max=0.2), (ROW,), linear("a")),
    *(
        Case(name, function, (ROW,), linear("a", "b"), ((name, FLOAT),))
        for name, function in (
            ("gelu", lambda s, x: s.b(F.gelu(s.a(x)))),
            ("silu", lambda s, x: s.b(F.silu(s.a(x)))),
            ("sigmoid", lambda s, x: s.b(s.a(x).sigmoid())),
            ("hardswish", lambda s, x: s.b(F.hardswish(s.a(x)))),
            ("leaky_relu", lambda s, x: s.b(F.leaky_relu(s.a(x)))),
        )
    ),
    Case("mean", lambda s, x: s.a(x).mean((2, 3)), (IMAGE,), one(nn.Conv2d, 4, 4, 3)),
    Case(
        "pool_to_one",
        lambda s, x: F.adaptive_avg_pool2d(s.a(x), 1),
        (IMAGE,),
        one(nn.Conv2d, 4, 4, 3),
    ),
    Case(
        "pool_to_four",
        lambda s, x: F.adaptive_avg_pool2d(s.a(x), 2),
        (IMAGE,),
        one(nn.Conv2d, 4, 4, 3),
        (("adaptive_avg_pool2d", r"its output_size is \[2, 2\]"),),
    ),
    Case("max_pool", lambda s, x: F.max_pool2d(s.a(x), 2), (IMAGE,), one(nn.Conv2d, 4, 4, 3)),
    Case("padded", lambda s, x: s.a(F.pad(x, (1, 2))), ((4, 5),), linear("a")),
    Case(
        "computed_weights",
        lambda s, x, w: F.conv2d(x, w),
        (IMAGE, (3, 4, 2, 2)),
        left=(("conv2d", "its weights are computed at run time"),),
    ),
    Case("halves", lambda s, x: (lambda p: p[0] + p[1])(s.a(x).chunk(2, -1)), (ROW,), linear("a")),
)


# Products, the only operators with dynamic quantization.
PRODUCTS = tuple(
    case
    for case in CASES
    if case.name
    in (
        "without_bias",
        "rows_of_rows",
        "shared_weight",
        "called_twice",
        "addmm",
        "mm_turned",
        "conv1d_deep",
        "conv_same",
        "up",
        "up_groups",
        "up_deep",
        "output_read_again",
        "relu6",
    )
)


class Layers(nn.Module):
    """The module of a case."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        for name, layer in case.layers().items():
            setattr(self, name, layer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.case.function(self, *inputs)


class All(nn.Module):
    """A model of all cases, each with its own inputs; it returns their results in order."""

    def __init__(self, cases: tuple[Case, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cases = nn.ModuleDict({case.name: Layers(case) for case in cases})

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        rest, results = list(inputs), []
        for layers in self.cases.values():
            count = len(layers.case.shapes)
            made = layers(*rest[:count])
            rest = rest[count:]
            results += [made] if isinstance(made, torch.Tensor) else list(made)
        return results


def inputs_of(cases: tuple[Case, ...], seed: int = 0) -> Tensors:
    torch.manual_seed(seed)
    return tuple(torch.randn(shape) for case in cases for shape in case.shapes)
