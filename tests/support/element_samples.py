"""Inputs for tests of copy operators: tensors of every element type, dense in any dim order.

Elements differ as far as the type allows, so that a wrong address changes the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

REAL = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool,
]  # fmt: skip
COMPLEX = [torch.complex64, torch.complex128]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
ALL = REAL + COMPLEX + UNSIGNED
ONE_PER_SIZE = [torch.int8, torch.float16, torch.float32, torch.float64, torch.complex128]


def sample(
    shape: Sequence[int], dtype: torch.dtype = torch.float32, order: Sequence[int] | None = None
) -> torch.Tensor:
    """The tensor 1, 2, 3, … in logical order (wrapped for narrow types), with a dim order."""
    n = math.prod(shape)
    flat = torch.arange(1, n + 1)
    if dtype == torch.bool:
        flat = (flat * 2654435761 >> 7) % 3 == 0
    elif dtype.is_complex:
        flat = torch.complex(flat.double(), -flat.double() - 0.5)
    elif dtype.itemsize == 1:
        flat = flat % 120
    elif dtype in (torch.float16, torch.bfloat16):
        flat = flat % 250
    t = flat.to(dtype).reshape(list(shape))
    return t if order is None else laid_out(t, order)


def laid_out(t: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The same values with dim order `order`, outermost dimension first."""
    back = [order.index(d) for d in range(t.dim())]
    return t.permute(list(order)).contiguous().permute(back)


def orders(rank: int) -> list[list[int]]:
    """Dim orders of a rank: contiguous, last two exchanged, reversed, channels last."""
    plain = list(range(rank))
    found = [plain]
    if rank >= 2:
        found += [[*plain[:-2], rank - 1, rank - 2], plain[::-1]]
    if rank >= 3:
        found.append([0, *plain[2:], 1])
    return [list(o) for o in dict.fromkeys(tuple(o) for o in found)]
