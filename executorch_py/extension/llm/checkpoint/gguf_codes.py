"""Codes of GGUF's quantized matrices in the form in which weights are packed.

Codes of 4 bits stay such; those of 5, 6 and 8 bits take 8. Scales and minimums of Q4_0, Q4_1, Q5_0,
Q5_1 and Q8_0 are kept as they are, so that these weights have exactly their values. Those of Q4_K,
Q5_K and Q6_K are products of an f16 number and one of 6 or 8 bits: they are rounded to f16, whose
error of 2**-12 is far below the rounding of the rows that they multiply, or stay f32 where f16
would lose more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from executorch_py.extension.llm.checkpoint.gguf import Packed
from executorch_py.extension.llm.checkpoint.gguf_blocks import Codes

# Blocks whose numbers are read at once: those in f32 stay in a core's cache.
_BLOCKS = 1 << 12


@dataclass(frozen=True)
class _Kind:
    bits: int
    group: int
    has_minimums: bool


_KINDS = {
    "Q4_0": _Kind(4, 32, False),
    "Q4_1": _Kind(4, 32, True),
    "Q5_0": _Kind(8, 32, False),
    "Q5_1": _Kind(8, 32, True),
    "Q8_0": _Kind(8, 32, False),
    "Q4_K": _Kind(4, 32, True),
    "Q5_K": _Kind(8, 32, True),
    "Q6_K": _Kind(8, 16, False),
}


def has_codes(packed: Packed) -> bool:
    """Whether a tensor is a matrix of a quantized type."""
    return packed.block.name in _KINDS and len(packed.shape) == 2


def kind_of(packed: Packed) -> _Kind:
    """Bits and groups of a tensor's codes; ValueError for a tensor that has none."""
    if not has_codes(packed):
        raise ValueError(
            f"expected a matrix of type {', '.join(_KINDS)}, got {packed.block.name} of shape "
            f"{list(packed.shape)}"
        )
    return _KINDS[packed.block.name]


def codes_of_rows(packed: Packed, first: int, last: int) -> Codes:
    """The codes of rows `first` up to `last` of a matrix, a group after the other."""
    n_bytes = packed.shape[1] // packed.block.terms * packed.block.n_bytes
    data = packed.data[first * n_bytes : last * n_bytes]
    assert packed.block.codes is not None
    return packed.block.codes(data.reshape(-1, packed.block.n_bytes))


def scale_type(packed: Packed) -> torch.dtype:
    """f16 for scales and minimums that it holds with an error of 2**-12 at most, else f32."""
    limits = torch.finfo(torch.float16)
    for numbers in _scales_and_minimums(packed):
        if numbers.dtype == torch.float16:
            return torch.float16
        sizes = numbers.abs()
        is_lost = (sizes > limits.max) | ((sizes < limits.smallest_normal) & (sizes != 0))
        if bool(is_lost.any()):
            return torch.float32
    return torch.float16


def _scales_and_minimums(packed: Packed) -> Iterator[torch.Tensor]:
    blocks = packed.data.reshape(-1, packed.block.n_bytes)
    assert packed.block.codes is not None
    for some in blocks.split(_BLOCKS):
        codes = packed.block.codes(some)
        yield from (x for x in (codes.scales, codes.minimums) if x is not None)
