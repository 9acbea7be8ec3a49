"""Small programs to compare two partitioners: one operator each, at a limit or within it.

Tests use this module, as does xnnpack_upstream_delegation.py in upstream's environment; it imports
torch and torchao only. Each case is rebuilt on every call, from a fixed seed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional as F
from torch.utils._pytree import tree_map


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


@dataclass(frozen=True)
class Case:
    """A program: a module or its factory, shapes of inputs, and a kind of quantization."""

    model: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((2, 3, 8, 8),)
    dtype: torch.dtype = torch.float32
    dynamic: Any = None
    quantized: str = ""
    channels_last: bool = False

    def made(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """The module and inputs for it."""
        torch.manual_seed(0)
        made = self.model
        module = made() if isinstance(made, type) or made.__name__ == "make" else Of(made)
        module = module.eval()
        inputs = tuple(torch.rand(shape).to(self.dtype) for shape in self.shapes)
        if self.channels_last:
            inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
        if self.dtype.is_floating_point and self.dtype is not torch.float32:
            module = module.to(self.dtype)
        if self.quantized:
            module = _quantized(module, inputs, self.quantized)
        return module, inputs


class Group(nn.Module):
    """A module of several cases, each with its own inputs, which makes exporting them cheap."""

    def __init__(self, modules: list[nn.Module], counts: list[int]) -> None:
        super().__init__()
        self.cases, self.counts = nn.ModuleList(modules), counts

    def forward(self, inputs: list[Tensor]) -> list[Any]:
        results, start = [], 0
        for module, count in zip(self.cases, self.counts, strict=True):
            results.append(module(*inputs[start : start + count]))
            start += count
        return results


def group(names: list[str]) -> tuple[nn.Module, tuple[list[Tensor]], ExportedProgram]:
    """The module of some cases, its inputs, and the exported program."""
    cases = [CASES[name] for name in names]
    made = [case.made() for case in cases]
    module = Group([m for m, _ in made], [len(inputs) for _, inputs in made])
    flat = [x for _, inputs in made for x in inputs]
    dynamic = [d for case in cases for d in (case.dynamic or [None] * len(case.shapes))]
    shapes = (dynamic,) if any(case.dynamic for case in cases) else None
    return module, (flat,), export(module, (flat,), dynamic_shapes=shapes)


def case_of(node: Any, names: list[str]) -> str:
    """The case of a node in a group, by its module or by the nodes around it."""
    owners = [name for name in names for _ in CASES[name].shapes]
    waiting, seen = [node], {node}
    while waiting:
        other = waiting.pop(0)
        for path, _ in other.meta.get("nn_module_stack", {}).values():
            parts = str(path).split(".")
            if parts[0] == "cases" and len(parts) > 1:
                return names[int(parts[1].split("@")[0])]
        found = re.fullmatch(r"inputs_(\d+)", other.name)
        if found is not None:
            return owners[int(found[1])]
        neighbours = [*other.all_input_nodes, *other.users]
        neighbours = [n for n in neighbours if n not in seen and "delegate" not in str(n.target)]
        seen.update(neighbours)
        waiting += neighbours
    raise AssertionError(f"{node} belongs to no case: {node.meta}")


def groups() -> dict[str, list[str]]:
    """Names of cases by the kind of program: static, dynamic or quantized."""
    found: dict[str, list[str]] = {"static": [], "dynamic": [], "quantized": []}
    for name, case in CASES.items():
        kind = "dynamic" if case.dynamic else "quantized" if case.quantized else "static"
        found[kind].append(name)
    return found


def of(factory: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Mark a factory of modules, as opposed to a function to wrap."""

    def make() -> nn.Module:
        return factory()

    return make


class InIntegers(nn.Module):
    """A module between quantize and dequantize operators that are written by hand."""

    def __init__(self, module: nn.Module, steps: tuple[tuple[float, int], ...]) -> None:
        super().__init__()
        self.module, self.steps = module, steps

    def forward(self, *args: Tensor) -> Any:
        rounded = [_rounded(x, *self.steps[i % 2]) for i, x in enumerate(args)]
        return tree_map(lambda x: _rounded(x, *self.steps[-1]), self.module(*rounded))


def _rounded(x: Tensor, scale: float, zero_point: int) -> Tensor:
    if not x.is_floating_point():
        return x
    numbers = (scale, zero_point, -128, 127, torch.int8)
    library = torch.ops.quantized_decomposed
    return library.dequantize_per_tensor(library.quantize_per_tensor(x, *numbers), *numbers)


# Scales and zero points of inputs and results.
_STEPS = {
    "qs8": ((1 / 64, 3),) * 3,
    "qs8_unequal": ((1 / 64, 3), (1 / 80, -9), (1 / 60, -20)),
}


def _quantized(module: nn.Module, inputs: tuple[Tensor, ...], how: str, dynamic: Any = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.testing.pt2e._xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )

        if how in _STEPS:
            return InIntegers(module, _STEPS[how])
        if how in ("8da4w", "8da8w"):
            from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
            from torchao.quantization.granularity import PerAxis, PerGroup

            weights = PerGroup(32) if how == "8da4w" else PerAxis(0)
            dtype = torch.int4 if how == "8da4w" else torch.int8
            config = Int8DynamicActivationIntxWeightConfig(
                weight_dtype=dtype, weight_granularity=weights
            )
            quantize_(module, config)
            return module
        settings = {
            "per_tensor": {},
            "per_channel": {"is_per_channel": True},
            "dynamic": {"is_per_channel": True, "is_dynamic": True},
        }[how]
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**settings))
        exported = export(module, inputs, dynamic_shapes=dynamic)
        prepared = prepare_pt2e(exported.module(), quantizer)
        prepared(*inputs)
        return convert_pt2e(prepared)


class Gated(nn.Module):
    """Two linear layers with one input."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) * torch.sigmoid(self.b(x))


class GivenWeights(nn.Module):
    """A linear layer whose weights are an input."""

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(x, weight)


class BatchNormAlone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(torch.sigmoid(x))


class Addmm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias, self.weight = nn.Parameter(torch.rand(5)), nn.Parameter(torch.rand(8, 5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight) + torch.mm(x, self.weight)


def _conv(*args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    return of(lambda: nn.Conv2d(*args, **kwargs))


def _block() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.Hardtanh(-1.0, 2.0),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


_BATCH = Dim("batch", min=1, max=8)
_ROWS = Dim("rows", min=2, max=16)
ONE = ((3, 8),)
TWO = ((2, 3, 8, 8), (2, 3, 8, 8))
_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "elu": F.elu,
    "exp": torch.exp,
    "floor": torch.floor,
    "gelu": F.gelu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "log": torch.log,
    "neg": torch.neg,
    "relu": torch.relu,
    "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tanh": torch.tanh,
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mul": torch.mul,
    "sub": torch.sub,
}
_PLAIN: dict[str, Case] = {
    **{name: Case(function) for name, function in _UNARY.items()},
    **{name: Case(function, TWO) for name, function in _BINARY.items()},
    "add_bf16": Case(torch.add, TWO, torch.bfloat16),
    "add_f64": Case(torch.add, TWO, torch.float64),
    "add_int": Case(torch.add, TWO, torch.int32),
    "add_broadcast": Case(torch.add, ((2, 3, 8, 8), (8,))),
    "add_alpha": Case(lambda x, y: torch.add(x, y, alpha=2), TWO),
    "add_scalar": Case(lambda x: x + 1.5),
    "mul_scalar": Case(lambda x: x * 0.5),
    "empty": Case(torch.add, ((0, 3), (0, 3))),
    "rank_7": Case(torch.add, ((1, 1, 1, 1, 1, 2, 3), (1, 1, 1, 1, 1, 2, 3))),
    "rank_0": Case(torch.add, ((), ())),
    "batch_dynamic": Case(torch.relu, dynamic=({0: _BATCH},)),
    "pow_2": Case(lambda x: x**2),
    "pow_3": Case(lambda x: x**3),
    "clamp": Case(lambda x: x.clamp(0.2, 0.5)),
    "clamp_min": Case(lambda x: x.clamp(min=0.2)),
    "hardtanh": Case(F.hardtanh),
    "softmax_last": Case(lambda x: F.softmax(x, -1)),
    "softmax_first": Case(lambda x: F.softmax(x, 1)),
    "log_softmax": Case(lambda x: F.log_softmax(x, -1)),
    "max_pool": Case(lambda x: F.max_pool2d(x, 2)),
    "max_pool_ceil": Case(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)),
    "max_pool_stride": Case(lambda x: F.max_pool2d(x, 2, 3)),
    "max_pool_dilated": Case(lambda x: F.max_pool2d(x, 2, dilation=2)),
    "max_pool_indices": Case(lambda x: F.max_pool2d(x, 2, return_indices=True)),
    "max_pool_one": Case(lambda x: F.max_pool2d(x, 1)),
    "avg_pool": Case(lambda x: F.avg_pool2d(x, 2)),
    "avg_pool_ceil": Case(lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True)),
    "avg_pool_padded": Case(lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "avg_pool_padding_left_out": Case(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    "avg_pool_divisor": Case(lambda x: F.avg_pool2d(x, 3, divisor_override=2)),
    "mean_hw": Case(lambda x: x.mean((2, 3), keepdim=True)),
    "mean_hw_dropped": Case(lambda x: x.mean((2, 3))),
    "mean_last": Case(lambda x: x.mean(-1, keepdim=True)),
    "mean_rows": Case(lambda x: x.mean(0), ONE),
    "max_dim": Case(lambda x: x.max(2, keepdim=True)),
    "max_dim_dropped": Case(lambda x: x.max(2)),
    "max_dim_channels": Case(lambda x: x.max(1, keepdim=True)),
    "amax": Case(lambda x: x.amax(2, keepdim=True)),
    "cat": Case(lambda x, y: torch.cat([x, y], 1), TWO),
    "cat_7": Case(lambda x, y: torch.cat([x, y, x, y, x, y, x], -1), TWO),
    "permute": Case(lambda x: x.permute(0, 2, 3, 1) + 1.0),
    "transpose": Case(lambda x: torch.exp(x).transpose(0, 1), ONE),
    "view": Case(lambda x: torch.exp(x).view(2, -1) * 2.0),
    "view_dynamic": Case(lambda x: torch.exp(x).view(x.shape[0], -1), dynamic=({0: _BATCH},)),
    "unsqueeze": Case(lambda x: torch.exp(x).unsqueeze(-1)),
    "unsqueeze_inner": Case(lambda x: torch.exp(x).unsqueeze(1)),
    "squeeze": Case(lambda x: torch.exp(x).squeeze(-1), ((3, 8, 1),)),
    "expand": Case(lambda x: torch.exp(x).expand(5, 3, 8), ONE),
    "slice": Case(lambda x: torch.exp(x)[:, 1:2]),
    "slice_step": Case(lambda x: torch.exp(x)[:, :, ::2]),
    "select": Case(lambda x: torch.exp(x)[:, 0]),
    "split": Case(lambda x: torch.exp(x).chunk(2, -1)),
    "pad": Case(lambda x: F.pad(x, (1, 2, 0, 1))),
    "pad_negative": Case(lambda x: F.pad(x, (-1, 2))),
    "upsample_bilinear": Case(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
    "upsample_aligned": Case(
        lambda x: F.interpolate(x, (9, 9), mode="bilinear", align_corners=True)
    ),
    "upsample_nearest": Case(lambda x: F.interpolate(x, scale_factor=2.0)),
    "conv": Case(_conv(3, 8, 3)),
    "conv_f16": Case(_conv(3, 8, 3), dtype=torch.float16),
    "conv_channels_last": Case(_conv(3, 8, 3), channels_last=True),
    "conv_relu": Case(of(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()))),
    "conv_depthwise": Case(_conv(3, 6, 3, groups=3, stride=2, padding=1)),
    "conv_dilated": Case(_conv(3, 8, 3, dilation=2, bias=False)),
    "conv_1d": Case(of(lambda: nn.Conv1d(3, 8, 3)), ((2, 3, 16),)),
    "conv_3d": Case(of(lambda: nn.Conv3d(3, 4, 3)), ((1, 3, 5, 5, 5),)),
    "conv_transposed": Case(of(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2))),
    "conv_transposed_padded": Case(
        of(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1))
    ),
    "conv_transposed_groups": Case(
        of(lambda: nn.ConvTranspose2d(4, 8, 3, groups=2)), ((1, 4, 6, 6),)
    ),
    "conv_transposed_dilated": Case(of(lambda: nn.ConvTranspose2d(3, 4, 3, dilation=2))),
    "conv_given_weights": Case(lambda x, w: F.conv2d(x, w), ((1, 3, 8, 8), (4, 3, 3, 3))),
    "conv_block": Case(of(_block)),
    "batch_norm_alone": Case(BatchNormAlone),
    "prelu": Case(of(lambda: nn.PReLU(3))),
    "linear": Case(of(lambda: nn.Linear(8, 4)), ONE),
    "linear_f16": Case(of(lambda: nn.Linear(8, 4)), ONE, torch.float16),
    "linear_bf16": Case(of(lambda: nn.Linear(8, 4)), ONE, torch.bfloat16),
    "linear_3d": Case(of(lambda: nn.Linear(8, 4, bias=False)), ((2, 3, 8),)),
    "linear_dynamic": Case(of(lambda: nn.Linear(8, 4)), ONE, dynamic=({0: _ROWS},)),
    "linear_given_weights": Case(GivenWeights, ((3, 8), (4, 8))),
    "addmm": Case(Addmm, ONE),
    "bmm": Case(torch.bmm, ((2, 3, 4), (2, 4, 5))),
    "matmul_4d": Case(torch.matmul, ((2, 2, 3, 4), (2, 2, 4, 5))),
    "mm_activations": Case(torch.mm, ((3, 4), (4, 5))),
    "layer_norm": Case(of(lambda: nn.LayerNorm(8)), ONE),
    "group_norm": Case(of(lambda: nn.GroupNorm(2, 4)), ((2, 4, 6, 6),)),
    "rms_norm": Case(of(lambda: nn.RMSNorm(8)), ONE),
    "sdpa": Case(F.scaled_dot_product_attention, ((1, 2, 5, 8),) * 3),
    "embedding": Case(
        of(lambda: nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 4))), ((3,),), torch.int64
    ),
    "where": Case(lambda x: torch.where(x > 0.5, x, x * 2)),
    "sum": Case(lambda x: x.sum(-1)),
    "cumsum": Case(lambda x: x.cumsum(-1)),
    "linear_per_tensor": Case(of(lambda: nn.Linear(32, 4)), ((3, 32),), quantized="per_tensor"),
    "linear_per_channel": Case(of(lambda: nn.Linear(32, 4)), ((3, 32),), quantized="per_channel"),
    "linear_dynamic_int8": Case(of(lambda: nn.Linear(32, 4)), ((3, 32),), quantized="dynamic"),
    "linear_8da4w": Case(of(lambda: nn.Linear(64, 4)), ((3, 64),), quantized="8da4w"),
    "linear_8da8w": Case(of(lambda: nn.Linear(64, 4)), ((3, 64),), quantized="8da8w"),
    "gated_dynamic_int8": Case(Gated, ((3, 32),), quantized="dynamic"),
    "gated_per_channel": Case(Gated, ((3, 32),), quantized="per_channel"),
    "conv_block_per_channel": Case(of(_block), quantized="per_channel"),
    "conv_block_per_tensor": Case(of(_block), quantized="per_tensor"),
    "conv_dynamic_int8": Case(_conv(3, 8, 3), quantized="dynamic"),
    "add_relu_quantized": Case(lambda x, y: torch.relu(x + y), TWO, quantized="per_tensor"),
    "mul_quantized": Case(lambda x, y: x * y, TWO, quantized="per_tensor"),
    "cat_quantized": Case(lambda x, y: torch.cat([x + y, x * y], 1), TWO, quantized="per_tensor"),
    "max_pool_quantized": Case(lambda x: F.max_pool2d(x + x, 2), quantized="per_tensor"),
    "softmax_quantized": Case(lambda x: F.softmax(x + x, -1), quantized="per_tensor"),
}

# All float32 operators are also tested in float16 and between conversions.
_WITHOUT_WEIGHTS = [
    name
    for name, case in _PLAIN.items()
    if case.dtype is torch.float32 and not (case.quantized or case.dynamic or case.channels_last)
    if not isinstance(case.model, type) and case.model.__name__ != "make"
]
_UNEQUAL = ("add", "cat", "max_pool", "mean_hw", "mul", "permute", "slice", "sub", "view")
CASES: dict[str, Case] = {
    **_PLAIN,
    **{
        f"{name}_f16": replace(case, dtype=torch.float16)
        for name, case in _PLAIN.items()
        if case.dtype is torch.float32 and not (case.quantized or case.dynamic)
        if f"{name}_f16" not in _PLAIN
    },
    **{f"{name}_qs8": replace(_PLAIN[name], quantized="qs8") for name in _WITHOUT_WEIGHTS},
    **{f"{name}_qs8_unequal": replace(_PLAIN[name], quantized="qs8_unequal") for name in _UNEQUAL},
}
