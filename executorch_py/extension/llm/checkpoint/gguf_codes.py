"""Codes of GGUF's quantized blocks: integers, a scale and perhaps a minimum of each block.

Weights of these types can be packed as they are (PackedRows.from_gguf); those of other types must
be dequantized and quantized again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from executorch_py.extension.llm.checkpoint.gguf import Packed
from executorch_py.extension.llm.checkpoint.gguf_blocks import codes_of_4_bits, f16_at

# Terms of a block of each type below.
GROUP = 32


@dataclass(frozen=True)
class Codes:
    """Blocks of 32 terms: x = scale · number + minimum."""

    numbers: torch.Tensor  # i8 [blocks, 32]
    scales: torch.Tensor  # f16 [blocks, 1]
    minimums: torch.Tensor | None


@dataclass(frozen=True)
class _Kind:
    bits: int
    has_minimums: bool
    codes: Callable[[torch.Tensor], Codes]  # of u8 [blocks, bytes]


def _q4_0(data: torch.Tensor) -> Codes:
    return Codes(codes_of_4_bits(data, 2).to(torch.int8) - 8, f16_at(data, 0), None)


def _q4_1(data: torch.Tensor) -> Codes:
    return Codes(codes_of_4_bits(data, 4).to(torch.int8), f16_at(data, 0), f16_at(data, 2))


def _q8_0(data: torch.Tensor) -> Codes:
    return Codes(data[:, 2:].view(torch.int8), f16_at(data, 0), None)


_KINDS = {
    "Q4_0": _Kind(4, False, _q4_0),
    "Q4_1": _Kind(4, True, _q4_1),
    "Q8_0": _Kind(8, False, _q8_0),
}


def has_codes(packed: Packed) -> bool:
    """Whether a tensor is a matrix of a type whose codes can be packed."""
    return packed.block.name in _KINDS and len(packed.shape) == 2


def kind_of(packed: Packed) -> _Kind:
    """Bits and parts of a tensor's codes; ValueError for a tensor that has none."""
    if not has_codes(packed):
        raise ValueError(
            f"expected a matrix of type {', '.join(_KINDS)}, got {packed.block.name} of shape "
            f"{list(packed.shape)}"
        )
    return _KINDS[packed.block.name]


def codes_of_rows(packed: Packed, first: int, last: int) -> Codes:
    """The blocks of rows `first` up to `last` of a matrix, row after row."""
    n_bytes = packed.shape[1] // GROUP * packed.block.n_bytes
    data = packed.data[first * n_bytes : last * n_bytes]
    return kind_of(packed).codes(data.reshape(-1, packed.block.n_bytes))
