"""Parts of the cases of bench_operators: names of dtypes, and repeatable tensors of a
million elements. Knows neither operators nor clocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

SIDE = 1024  # a square of SIDE × SIDE has a million elements

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}

# Name, out overload, arguments; keyword arguments come last, as a dictionary.
Case = tuple[str, str, tuple[Any, ...]]


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def data(*shape: int, dtype: str = "f32") -> torch.Tensor:
    """Repeatable values in (0.05, 0.95), integers in 1 … 9."""
    generator = torch.Generator().manual_seed(len(shape))
    kind = DTYPES[dtype]
    if kind.is_complex:
        parts = (torch.rand(*shape, 2, generator=generator) - 0.5).double()
        return torch.view_as_complex(parts).to(kind)
    values = torch.rand(*shape, generator=generator) * 0.9 + 0.05
    if kind == torch.bool:
        return values > 0.5
    return values.to(kind) if kind.is_floating_point else (values * 10).to(kind).clamp(1, 9)


def square(dtype: str = "f32") -> torch.Tensor:
    return data(SIDE, SIDE, dtype=dtype)


def each(names: Iterable[str], dtypes: str) -> Iterable[tuple[str, str]]:
    """Every name with every dtype."""
    return ((name, dtype) for name in names for dtype in words(dtypes))
