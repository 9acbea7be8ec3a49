"""Modules for the XNNPACK delegate that PT2E quantized after export, or torchao before it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from backends.xnnpack_cases import data, seeded
from models.quantized import quantized
from torch import nn
from torch.nn import functional as F

from executorch_py.backends.xnnpack.serialize import Datatype


class Image(nn.Module):
    """Convolutions of all kinds, what lies between them quantized, moves of quantized elements."""

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


class Shared(nn.Module):
    """Three layers that read one value, quantized once."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(64, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [part(x) for part in self.parts]


@dataclass(frozen=True)
class Quantized:
    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[torch.Tensor, ...]
    # In parts of the largest result: a step of int8 falls on this or that side.
    tolerance: float
    conversions: int
    datatypes: frozenset[Datatype] = field(default_factory=frozenset)


def _pt2e(module: Callable[[], nn.Module], x: torch.Tensor, **settings: bool) -> Any:
    return lambda: quantized(seeded(module), (x,), **settings)


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
    Quantized(
        "int8_rows", lambda: _torchao(torch.int8, "PerAxis", 0), (_LINES,), 0.03, 2, _DYNAMIC
    ),
    Quantized(
        "int4_rows",
        lambda: _torchao(torch.int4, "PerAxis", 0),
        (_LINES,),
        0.03,
        2,
        frozenset({Datatype.QDINT8, Datatype.QBINT4}),
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
