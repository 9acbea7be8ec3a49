"""Modules that are one XNNPACK delegate: operators and patterns, each with its inputs.

A row is a name, a module, and sets of inputs; with `dynamic` the sets may differ in those sizes.
`half` rows also run in float16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

Inputs = tuple[torch.Tensor, ...]


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


@dataclass(frozen=True)
class Case:
    name: str
    module: nn.Module
    inputs: tuple[Inputs, ...]
    dynamic: Any = None
    half: bool = True
    # The expected number of permutations in the payload.
    transposes: int | None = None


def data(*shape: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """Random numbers, seeded by the shape."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.rand(shape, generator=generator) * (high - low) + low


def image(*shape: int) -> torch.Tensor:
    """Random numbers, channels-last in memory."""
    return data(*shape).to(memory_format=torch.channels_last)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """A module with weights of a fixed seed."""
    torch.manual_seed(7)
    return make().eval()


def _batch(name: str) -> Any:
    """A new dynamic size."""
    return Dim(f"batch_of_{name}", min=1, max=6)


def one(name: str, target: Any, *inputs: torch.Tensor, **options: Any) -> Case:
    module = target if isinstance(target, nn.Module) else Call(target)
    return Case(name, module.eval(), (inputs,), **options)


_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("abs", "ceil", "cos", "exp", "floor", "neg")},
    **{name: getattr(torch, name) for name in ("sigmoid", "sin", "tanh", "relu")},
    **{name: getattr(F, name) for name in ("silu", "mish", "hardsigmoid", "hardswish", "relu6")},
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": F.elu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardtanh": F.hardtanh,
    "clamp": lambda x: torch.clamp(x, -0.5, 0.25),
    "clamp_below": lambda x: torch.clamp(x, min=0.5),
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "softmax": lambda x: F.softmax(x, -1),
    "softmax_of_channels": lambda x: F.softmax(x, 1),
    "softmax_of_rows": lambda x: F.softmax(x, 2),
    "log_softmax": lambda x: F.log_softmax(x * 20, -1),
    "log_softmax_of_channels": lambda x: F.log_softmax(x, 1),
    "glu": lambda x: F.glu(x, 1),
}
_POSITIVE = {name: getattr(torch, name) for name in ("log", "sqrt", "rsqrt", "reciprocal")}
_BINARY: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "maximum", "minimum")},
    "add_with_alpha": lambda x, y: torch.add(x, y, alpha=3),
    "rsub": lambda x, y: 2.0 - x * y,
    "numbers": lambda x, y: (x + 1) * 2.5 - y / 4,
    "clamped_sum": lambda x, y: F.relu(x + y),
    "clamped_product": lambda x, y: F.relu6(x * y),
}


def elementwise() -> list[Case]:
    rows = [one(name, fn, data(2, 6, 5, 4)) for name, fn in _UNARY.items()]
    rows += [one(name, fn, data(3, 7, low=0.1, high=3.0)) for name, fn in _POSITIVE.items()]
    for name, fn in _BINARY.items():
        rows.append(one(name, fn, data(2, 3, 4), data(2, 3, 4, low=0.5)))
        rows.append(one(f"{name}_broadcast", fn, data(2, 3, 4, 5), data(3, 1, 1, low=0.5)))
    batch = _batch("sum")
    rows += [
        Case(
            "dynamic_sum",
            Call(lambda x, y: F.relu(x + y) * 2),
            ((data(6, 3), data(6, 3)), (data(2, 3), data(2, 3)), (data(4, 3), data(4, 3))),
            ({0: batch}, {0: batch}),
        ),
        one(
            "sum_of_images", lambda x, y: x + y, image(1, 3, 4, 5), image(1, 3, 4, 5), transposes=0
        ),
        one("sum_of_two_orders", lambda x, y: x + y, image(1, 3, 4, 5), data(1, 3, 4, 5)),
        one(
            "log_softmax_of_extremes",
            lambda x: F.log_softmax(x, -1),
            torch.tensor([[3e4, -3e4, 0.0, -math.inf], [-200.0, -100.0, -math.inf, -100.0]]),
        ),
        one("number", lambda x, y: x * y, data(2, 3), torch.tensor(1.5)),
        one("returned_input", lambda x: (x, x * 2, x * 2 + 1), data(2, 3)),
        one("returned_twice", lambda x: (x + 1, x + 1), data(2, 3)),
    ]
    return rows


def layers() -> list[Case]:
    batch = _batch("linear")
    linear = seeded(lambda: nn.Linear(8, 5))
    mm = torch.linspace(-1, 1, 40).reshape(8, 5)
    rows = [
        one("linear", linear, data(3, 8)),
        one("linear_without_bias", seeded(lambda: nn.Linear(8, 5, bias=False)), data(2, 3, 8)),
        one("linear_relu", seeded(lambda: nn.Sequential(nn.Linear(8, 5), nn.ReLU())), data(3, 8)),
        Case(
            "linear_dynamic", linear, ((data(6, 8),), (data(1, 8),), (data(3, 8),)), ({0: batch},)
        ),
        one(
            "linear_of_computed_weights",
            lambda x, w, b: F.linear(x, w, b),
            data(3, 8),
            data(5, 8),
            data(5),
            half=False,
        ),
        one("mm", Weight(mm, torch.mm), data(3, 8)),
        one("addmm", Weight(mm, lambda x, w: torch.addmm(w[0], x, w)), data(3, 8)),
        one(
            "addmm_scaled",
            Weight(mm, lambda x, w: torch.addmm(w[:3], x, w, beta=2, alpha=3)),
            data(3, 8),
        ),
        one("bmm", torch.bmm, data(2, 3, 4), data(2, 4, 5)),
        one("matmul_of_batches", torch.matmul, data(2, 3, 4, 5), data(2, 3, 5, 6)),
        one(
            "matmul_transposed",
            lambda x, y: x @ y.transpose(-1, -2),
            data(2, 3, 4, 5),
            data(2, 3, 6, 5),
        ),
        one("layer_norm", seeded(lambda: _affine(nn.LayerNorm(16))), data(2, 3, 16)),
        one("layer_norm_of_two", seeded(lambda: _affine(nn.LayerNorm([4, 8]))), data(3, 4, 8)),
        one("layer_norm_plain", lambda x: F.layer_norm(x, (16,)), data(5, 16)),
        one("group_norm", seeded(lambda: _affine(nn.GroupNorm(2, 6))), data(2, 6, 4, 5)),
        one("instance_norm", seeded(lambda: nn.GroupNorm(6, 6)), data(2, 6, 4, 5)),
        one("batch_norm", seeded(lambda: _norm(nn.BatchNorm2d(6))), data(2, 6, 4, 5)),
        one("batch_norm_1d", seeded(lambda: _norm(nn.BatchNorm1d(6))), data(2, 6, 7)),
        one("rms_norm", seeded(lambda: nn.RMSNorm(16)), data(2, 3, 16), half=False),
    ]
    rows += _attention_rows()
    return rows


class Weight(nn.Module):
    """A function of the input and a constant."""

    def __init__(self, weight: torch.Tensor, function: Callable[..., Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.weight)


def _affine(module: Any) -> nn.Module:
    with torch.no_grad():
        module.weight.copy_(data(*module.weight.shape))
        module.bias.copy_(data(*module.bias.shape))
    return module


def _norm(module: Any) -> nn.Module:
    module.running_mean.copy_(data(*module.running_mean.shape))
    module.running_var.copy_(data(*module.running_var.shape, low=0.5))
    return _affine(module)


def _attention_rows() -> list[Case]:
    q, k, v = data(2, 4, 5, 8), data(2, 4, 6, 8), data(2, 4, 6, 7)
    sdpa = F.scaled_dot_product_attention
    mask = torch.where(data(5, 6) > 0, 0.0, float("-inf")).index_fill(1, torch.tensor([0]), 0.0)
    return [
        one("attention", lambda q, k, v: sdpa(q, k, v), q, k, v),
        one("attention_scaled", lambda q, k, v: sdpa(q, k, v, scale=0.3), q, k, v),
        one("attention_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), q, q + 1, q - 1),
        one(
            "attention_masked", Weight(mask, lambda x, m: sdpa(x, k, v, attn_mask=m)), q, half=False
        ),
        # A row without seen keys gives zeros if masked by -inf, an average if by numbers.
        one(
            "attention_that_sees_nothing",
            Weight(hiding(mask, -math.inf), lambda x, m: sdpa(x, k, v, attn_mask=m)),
            q,
            half=False,
        ),
        one(
            "attention_of_a_computed_mask",
            lambda x, m: sdpa(x, k.to(x.dtype), v.to(x.dtype), attn_mask=m) * 2,
            q,
            hiding(mask, -math.inf),
        ),
        one(
            "attention_of_a_finite_mask",
            lambda x, m: sdpa(x, k, v, attn_mask=m),
            q,
            hiding(mask, torch.finfo(torch.float32).min).clamp(min=torch.finfo(torch.float32).min),
            half=False,
        ),
        one(
            "attention_of_groups",
            lambda q, k, v: sdpa(q, k[:, :2], v[:, :2], enable_gqa=True),
            q,
            k,
            v,
        ),
        one("self_attention", seeded(lambda: SelfAttention(64, 4)), data(2, 5, 64)),
    ]


def hiding(mask: torch.Tensor, number: float) -> torch.Tensor:
    """The mask with a fully masked row."""
    return mask.index_fill(0, torch.tensor([2]), number)


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


def convolutions() -> list[Case]:
    x = data(2, 6, 9, 8)
    specs: dict[str, dict[str, Any]] = {
        "conv": {},
        "conv_strided": {"stride": 2, "padding": 1},
        "conv_dilated": {"dilation": 2, "padding": (2, 1)},
        "conv_grouped": {"groups": 2},
        "conv_depthwise": {"groups": 6, "padding": 1},
        "conv_without_bias": {"bias": False},
    }
    rows = [
        one(name, seeded(partial(nn.Conv2d, 6, 12, 3, **options)), x, transposes=2)
        for name, options in specs.items()
    ]
    up: dict[str, dict[str, Any]] = {
        "conv_transposed": {"stride": 2, "padding": 1, "output_padding": 1},
        "conv_transposed_grouped": {"groups": 2},
    }
    rows += [
        one(name, seeded(partial(nn.ConvTranspose2d, 6, 4, 3, **options)), x)
        for name, options in up.items()
    ]
    norm = seeded(lambda: nn.Sequential(nn.Conv2d(6, 4, 3), _norm(nn.BatchNorm2d(4)), nn.ReLU6()))
    up_norm = seeded(
        lambda: nn.Sequential(nn.ConvTranspose2d(6, 4, 3, groups=2), _norm(nn.BatchNorm2d(4)))
    )
    height = Dim("height", min=4, max=9)
    rows += [
        one("conv_norm_relu", norm, x),
        one("conv_transposed_norm", up_norm, x),
        one("conv_of_one_channel", seeded(lambda: nn.Conv2d(1, 4, 3)), data(1, 1, 6, 5)),
        one(
            "conv_channels_last",
            seeded(lambda: nn.Conv2d(6, 4, 3)),
            image(1, 6, 5, 5),
            transposes=0,
        ),
        one(
            "conv1d",
            seeded(
                lambda: nn.Sequential(
                    nn.Conv1d(6, 8, 3, stride=2), nn.ReLU(), nn.Conv1d(8, 4, 3, padding=1)
                )
            ),
            data(2, 6, 12),
            transposes=2,
        ),
        one("conv1d_depthwise", seeded(lambda: nn.Conv1d(6, 6, 3, groups=6)), data(2, 6, 12)),
        Case(
            "conv_dynamic", norm, ((x,), (data(2, 6, 4, 8),), (data(2, 6, 7, 8),)), ({2: height},)
        ),
        one("prelu", seeded(lambda: nn.Sequential(nn.Conv2d(6, 4, 3), nn.PReLU(4, 0.3))), x),
        one("prelu_of_one", seeded(lambda: nn.PReLU()), x),
    ]
    return rows


def _extremes(x: torch.Tensor) -> list[Case]:
    steps = (
        data(3, 7, 5) * 2
    ).round()  # several elements are the largest; the result is the index of the first
    return [
        one("amax", lambda x: x.amax((2, 3), keepdim=True), x),
        one("amax_of_rows", lambda x: x.amax(2), x),
        one("amax_of_last", lambda x: x.amax(-1, keepdim=True), data(3, 7, 5)),
        one("amax_of_vector", lambda x: x.amax(-1, keepdim=True), data(40)),
        one("amax_of_first", lambda x: x.amax((0, 1)), data(3, 7, 5)),
        one("amax_of_dims_apart", lambda x: x.amax((0, 2)), x),
        one("amax_of_one_element", lambda x: x.amax(1) * 2, data(3, 1, 5)),
        one("amin_of_image", lambda x: x.amin((2, 3)), x),
        one("max_with_index", lambda x: torch.max(x, 2, keepdim=True), x),
        one("max_with_index_of_last", lambda x: torch.max(x, -1), steps),
        one("min_with_index_of_rows", lambda x: torch.min(x, 1), steps),
        one("max_without_index", lambda x: torch.max(x, 1)[0], steps),
    ]


def pools() -> list[Case]:
    x = data(2, 4, 9, 8)
    return [
        one("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), x),
        one("max_pool_ceil", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), x),
        one("max_pool_dilated", lambda x: F.max_pool2d(x, 2, 1, dilation=2), x),
        one("avg_pool", lambda x: F.avg_pool2d(x, 2), x),
        one("avg_pool_padded", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), x),
        one("avg_pool_of_all", lambda x: F.avg_pool2d(x, (9, 8)), x),
        one("adaptive_pool", lambda x: F.adaptive_avg_pool2d(x, 1), x),
        one("mean_of_image", lambda x: x.mean((2, 3), keepdim=True), x),
        one("mean_of_image_flat", lambda x: x.mean((2, 3)), x),
        one("mean_of_last", lambda x: x.mean(-1), x),
        one("mean_of_rows", lambda x: x.mean(1), data(2, 5, 6)),
        one("mean_of_pixels_last", lambda x: x.mean((1, 2)), x),
        one("mean_of_layer", lambda x: x.mean((1, 2, 3), keepdim=True), x),
        one("sum_of_last", lambda x: x.sum(-1), x, half=False),
        one("sum_of_rows", lambda x: x.sum(1, keepdim=True), data(2, 5, 6), half=False),
        one("mean_of_dims_apart", lambda x: x.mean((0, 3)), x),
        one("mean_of_channels_apart", lambda x: x.mean((0, 2, 3), keepdim=True), x),
        one("sum_of_dims_apart", lambda x: x.sum((0, 2)), x, half=False),
        *_extremes(x),
        one("resize", lambda x: F.interpolate(x, (12, 14), mode="bilinear"), x),
        one(
            "resize_aligned",
            lambda x: F.interpolate(x, (12, 14), mode="bilinear", align_corners=True),
            x,
        ),
        one("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), x),
        one("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), data(2, 3, 4, 6)),
    ]


class AroundConvolution(nn.Module):
    """A function of a convolution and its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.conv, self.function = nn.Conv2d(6, 6, 1), function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self.conv, *args)


def moves() -> list[Case]:
    x = data(2, 6, 5, 4)

    def around(name: str, fn: Callable[..., Any], *inputs: torch.Tensor, transposes: int) -> Case:
        return one(name, seeded(lambda: AroundConvolution(fn)), *inputs, transposes=transposes)

    def dynamic(name: str, fn: Callable[..., Any]) -> Case:
        return Case(name, Call(fn), ((data(6, 4, 5),), (data(2, 4, 5),)), ({0: _batch(name)},))

    return [
        one("permute", lambda x: x.permute(0, 2, 3, 1) * 2, x),
        one("permute_twice", lambda x: (x.permute(0, 2, 3, 1) * 2).permute(0, 3, 1, 2), x),
        around("permute_after_conv", lambda conv, x: conv(x).permute(0, 2, 3, 1), x, transposes=1),
        around(
            "tokens_of_conv", lambda conv, x: conv(x).flatten(2).transpose(1, 2), x, transposes=1
        ),
        around(
            "image_of_tokens",
            lambda conv, x: conv(x.transpose(1, 2).reshape(2, 6, 5, 4)),
            data(2, 20, 6),
            transposes=1,
        ),
        one("view", lambda x: x.view(2, 3, 40) + 1, x),
        around("view_after_conv", lambda conv, x: conv(x).view(2, 120), x, transposes=2),
        dynamic("view_dynamic", lambda x: (x + 1).reshape(x.shape[0], 20)),
        dynamic("slice_dynamic", lambda x: x[:, 1:3] * 2),
        dynamic("unsqueeze_dynamic", lambda x: x.unsqueeze(1).squeeze(1) * 2),
        dynamic("cat_dynamic", lambda x: torch.cat([x, x * 2], 1)),
        dynamic("transpose_dynamic", lambda x: x.transpose(1, 2) + 1),
        dynamic("split_dynamic", lambda x: x.split(2, 1)[0] - x.split(2, 1)[1]),
        dynamic("norm_dynamic", lambda x: F.layer_norm(x, (5,))),
        dynamic("softmax_dynamic", lambda x: F.softmax(x, -1)),
        dynamic("log_softmax_dynamic", lambda x: F.log_softmax(x, 1)),
        dynamic("amax_dynamic", lambda x: x.amax(-1)),
        dynamic("amin_of_rows_dynamic", lambda x: x.amin(1)),
        dynamic("mean_of_rows_dynamic", lambda x: x.transpose(0, 2).mean(1)),
        dynamic("mean_dynamic", lambda x: x.mean((1, 2), keepdim=True)),
        Case(  # with a growing batch, and with an operator beside the mean
            "mean_of_images_dynamic",
            Call(lambda x: (x.neg().mean((2, 3)), x.neg() * 2)),
            ((data(2, 64, 3, 4),), (data(3, 64, 3, 4),), (data(6, 64, 3, 4),)),
            ({0: _batch("mean_of_images")},),
        ),
        one("select", lambda x: x[:, 2] + x[:, -1], x),
        one("chunks", lambda x: (lambda a, b, c: a * b - c)(*x.chunk(3, 1)), x),
        one("unbind", lambda x: (lambda a, b: a - b)(*x.unbind(0)), x),
        one("split_sizes", lambda x: [p * 2 for p in x.split([1, 3, 2], 1)], x),
        one("slice", lambda x: x[:, 1:4, :, :-1] * 2, x),
        one("slice_strided", lambda x: x[:, ::2, 1::3] * 2, x),
        one("slice_strided_at_end", lambda x: x[:, 1::2] + 1, data(2, 5, 3)),
        around("slice_after_conv", lambda conv, x: conv(x)[:, 1:4, 1:], x, transposes=2),
        one("cat_of_two", lambda x: torch.cat([x, x + 1], 1), x),
        around(
            "cat_of_images", lambda conv, x: torch.cat([conv(x), conv(x + 1)], 1), x, transposes=2
        ),
        one("cat_of_twelve", lambda x: torch.cat([x * i for i in range(12)], 1), x),
        one("stack", lambda x: torch.stack([x, x + 1], 1), data(2, 3, 4)),
        one("expand", lambda x: x.expand(2, 7, 3) * 2, data(2, 1, 3)),
        one("expand_and_add", lambda x, y: x.expand(2, 7, 3) + y, data(2, 1, 3), data(2, 7, 3)),
        one("repeat", lambda x: x.repeat(1, 7) + 1, data(2, 3)),
        one("pad", lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), x),
        around(
            "pad_before_conv", lambda conv, x: conv(F.pad(conv(x), (1, 2, 0, 1))), x, transposes=2
        ),
        one("roll", lambda x: torch.roll(x, (1, -2), (2, 3)), x),
        one("unsqueeze", lambda x: (x.unsqueeze(0) * 2).squeeze(0), data(2, 3)),
        one(
            "to_channels_last",
            lambda x: (x * 2).to(memory_format=torch.channels_last),
            x,
            transposes=1,
        ),
        one("clone", lambda x: x.clone() * 2, x),
    ]


CASES: list[Case] = [*elementwise(), *layers(), *convolutions(), *pools(), *moves()]
