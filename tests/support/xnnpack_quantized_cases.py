"""Quantized modules for the XNNPACK delegate, by PT2E after export or by torchao before it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - the operators of PerToken
from torch.nn import functional as F

from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype
from support.quantized_models import quantized
from support.xnnpack_cases import data, seeded


class Image(nn.Module):
    """Convolutions of all kinds, with quantized values between them and moves of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, groups=8)
        self.last = nn.Conv2d(8, 8, 1)
        self.line = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x))
        y = F.hardtanh(self.deep(x), 0, 6)
        z = F.max_pool2d(self.last(y) + y, 2)
        z = torch.cat([z, z], 1)[:, :8]
        return self.line(F.adaptive_avg_pool2d(z, 1).flatten(1))


class Lines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.first(x)))


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.ConvTranspose2d(4, 6, 3, stride=2), nn.Conv1d(6, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.first(x)).flatten(2))


class Groups(nn.Module):
    """A convolution and a transposed convolution, both grouped or neither."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.last = nn.ConvTranspose2d(8, 6, 3, stride=2, groups=groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.first(x)))


class Shared(nn.Module):
    """Three layers with one input, quantized once."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(64, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [part(x) for part in self.parts]


class Padded(nn.Module):
    """A convolution on integers, whose input is transposed and padded on one side."""

    def __init__(self, order: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.order = order
        weight, self.stride = data(8, 3, 3, 3), 2
        self.register_buffer("scales", weight.abs().amax((1, 2, 3)) / 127)
        self.register_buffer("weight", (weight / self.scales.reshape(-1, 1, 1, 1)).to(torch.int8))
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        limits = (-127, 127, torch.int8)
        library = torch.ops.quantized_decomposed
        numbers = (self.weight, self.scales, self.zeros, 0, *limits)
        x = rounded(x, 1 / 50, 5)
        x = F.pad(x if self.order is None else x.permute(self.order), (0, 1, 0, 1))
        x = F.conv2d(x, library.dequantize_per_channel(*numbers), stride=self.stride)
        return rounded(x, 1 / 6, -20)


def rounded(x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    """Quantize and dequantize."""
    numbers = (scale, zero_point, -128, 127, torch.int8)
    library = torch.ops.quantized_decomposed
    made: torch.Tensor = library.dequantize_per_tensor(
        library.quantize_per_tensor(x, *numbers), *numbers
    )
    return made


class PerToken(nn.Module):
    """A linear layer on integers, with input scales by row and weight scales by row or group."""

    def __init__(self, group: int, max_integer: int) -> None:
        super().__init__()
        weight = data(8, 64)
        self.group, self.max_integer, self.bias = group, max_integer, nn.Parameter(data(8))
        groups = weight.reshape(8, -1, group)
        self.register_buffer("scales", groups.abs().amax(-1) / max_integer)
        rounded = (groups / self.scales.unsqueeze(-1)).round().to(torch.int8)
        self.register_buffer("weight", rounded.reshape(8, 64))
        self.register_buffer("zeros", torch.zeros(8, 64 // group, dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        library, int8, f32 = torch.ops.quantized_decomposed, torch.int8, torch.float32
        scale, zero = library.choose_qparams_per_token_asymmetric(x, int8)
        x = library.quantize_per_token(x, scale, zero, -128, 127, int8)
        x = library.dequantize_per_token(x, scale, zero, -128, 127, int8, f32)
        limits = (-self.max_integer - 1, self.max_integer, int8)
        if self.group < 64:
            numbers = (self.weight, self.scales, self.zeros, *limits, self.group, f32)
            weight = library.dequantize_per_channel_group(*numbers)
        else:
            scales, zeros = self.scales.reshape(-1), self.zeros.reshape(-1).long()
            weight = library.dequantize_per_channel(self.weight, scales, zeros, 0, *limits)
        return F.linear(x, weight, self.bias)


@dataclass(frozen=True)
class Quantized:
    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[torch.Tensor, ...]
    # Relative to the largest result; a value between two steps may round either way.
    tolerance: float
    conversions: int
    datatypes: frozenset[Datatype] = field(default_factory=frozenset)


def _pt2e(module: Callable[[], nn.Module], x: torch.Tensor, **settings: bool) -> Any:
    return lambda: quantized(seeded(module), (x,), **settings)


def _own(module: Callable[[], nn.Module], x: torch.Tensor, **settings: bool) -> nn.Module:
    """Quantized by XNNPACKQuantizer, which supports channels of transposed convolutions."""
    from executorch_py import quantizer as q

    config = q.get_symmetric_quantization_config(is_per_channel=True, **settings)
    exported = torch.export.export(seeded(module), (x,)).module()
    prepared = q.prepare_pt2e(exported, q.XNNPACKQuantizer().set_global(config))
    q.calibrate(prepared, [(x,), (x / 2,)])
    made: nn.Module = q.convert_pt2e(prepared)
    return made


def _torchao(dtype: torch.dtype, granularity: str, *args: int) -> nn.Module:
    logging.disable(logging.WARNING)
    try:
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
        from torchao.quantization import granularity as granularities
        from torchao.utils import unwrap_tensor_subclass
    finally:
        logging.disable(logging.NOTSET)
    module = seeded(Lines)
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=dtype, weight_granularity=getattr(granularities, granularity)(*args)
    )
    quantize_(module, config)
    unwrapped: nn.Module = unwrap_tensor_subclass(module)
    return unwrapped


_IMAGE, _LINES, _SMALL = data(1, 3, 12, 12), data(5, 64), data(1, 4, 5, 5)
_TENSOR = frozenset({Datatype.QINT8, Datatype.QINT32})
_CHANNEL = frozenset({Datatype.QINT8, Datatype.QCINT8, Datatype.QCINT32})
_DYNAMIC = frozenset({Datatype.QDINT8, Datatype.QCINT8})

QUANTIZED = [
    Quantized(
        "image_per_tensor", _pt2e(Image, _IMAGE, is_per_channel=False), (_IMAGE,), 0.02, 2, _TENSOR
    ),
    Quantized(
        "image_per_channel", _pt2e(Image, _IMAGE, is_per_channel=True), (_IMAGE,), 0.02, 2, _CHANNEL
    ),
    Quantized(
        "lines_per_tensor", _pt2e(Lines, _LINES, is_per_channel=False), (_LINES,), 0.02, 2, _TENSOR
    ),
    Quantized(
        "lines_per_channel", _pt2e(Lines, _LINES, is_per_channel=True), (_LINES,), 0.02, 2, _CHANNEL
    ),
    Quantized(
        "transposed_per_tensor",
        _pt2e(Transposed, _SMALL, is_per_channel=False),
        (_SMALL,),
        0.02,
        2,
        _TENSOR,
    ),
    Quantized(
        "transposed_per_channel", _pt2e(Transposed, _SMALL, is_per_channel=True), (_SMALL,), 0.02, 4
    ),
    Quantized(
        "dynamic_per_tensor",
        _pt2e(Lines, _LINES, is_per_channel=False, is_dynamic=True),
        (_LINES,),
        0.03,
        2,
        _DYNAMIC,
    ),
    Quantized(
        "dynamic_per_channel",
        _pt2e(Lines, _LINES, is_per_channel=True, is_dynamic=True),
        (_LINES,),
        0.03,
        2,
        _DYNAMIC,
    ),
    Quantized(
        "dynamic_shared",
        _pt2e(Shared, _LINES, is_per_channel=True, is_dynamic=True),
        (_LINES,),
        0.03,
        1,
        _DYNAMIC,
    ),
    *(
        Quantized(
            f"{name}_of_{groups}_groups",
            partial(_own, partial(Groups, groups), _SMALL, is_dynamic=name == "dynamic"),
            (_SMALL,),
            0.03,
            2,
            datatypes,
        )
        for groups in (1, 2)
        for name, datatypes in (("static", _CHANNEL), ("dynamic", _DYNAMIC))
    ),
    Quantized("padded", Padded, (_IMAGE,), 0.02, 2, _CHANNEL - {Datatype.QCINT32}),
    *(
        Quantized(
            f"per_token_{name}",
            partial(PerToken, group, max_integer),
            (data(2, 5, 64),),
            0.005,
            1,
            frozenset({Datatype.QDINT8, weights}),
        )
        for name, group, max_integer, weights in (
            ("int8_rows", 64, 127, Datatype.QCINT8),
            ("int4_rows", 64, 7, Datatype.QCINT4),
            ("int4_groups", 32, 7, Datatype.QBINT4),
        )
    ),
    Quantized(
        "int8_rows", lambda: _torchao(torch.int8, "PerAxis", 0), (_LINES,), 0.03, 2, _DYNAMIC
    ),
    Quantized(
        "int4_rows",
        lambda: _torchao(torch.int4, "PerAxis", 0),
        (_LINES,),
        0.03,
        2,
        frozenset({Datatype.QDINT8, Datatype.QCINT4}),
    ),
    Quantized(
        "int4_groups",
        lambda: _torchao(torch.int4, "PerGroup", 32),
        (_LINES,),
        0.03,
        2,
        frozenset({Datatype.QDINT8, Datatype.QBINT4}),
    ),
]
