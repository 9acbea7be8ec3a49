"""Blocks of GGUF's tensors, and their values.

    Q4_0  f16 d; 16 bytes              x = d · (q - 8); term i in the low half of byte i, term
    Q4_1  f16 d, m; 16 bytes           x = d · q + m      i + 16 in the high half
    Q5_0  f16 d; 4 bytes of fifth bits, bit i of term i; 16 bytes as Q4_0     x = d · (q - 16)
    Q5_1  f16 d, m; 4 bytes of fifth bits; 16 bytes as Q4_0                   x = d · q + m
    Q8_0  f16 d; 32 int8               x = d · q
    Q4_K  f16 d, dmin; 12 bytes of eight 6-bit scales and mins; 128 bytes, each 32 of them the low
          halves of 32 terms and the high halves of the next 32       x = d · scale · q - dmin · min
    Q5_K  f16 d, dmin; scales and mins as Q4_K; 32 bytes of fifth bits, bit i of byte j of term
          32 i + j; 128 bytes as Q4_K                   x = d · scale · q - dmin · min
    Q6_K  128 bytes of low 4 bits, 64 of high 2 bits, 16 int8 scales, f16 d
                                                                      x = d · scale · (q - 32)

Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 have 32 terms, the others 256. A product of d and a scale is
rounded to f32 before it multiplies a code, as in llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Codes:
    """Groups of equal size in blocks: x = scale · number + minimum."""

    numbers: torch.Tensor  # i8 [blocks, groups, terms]
    scales: torch.Tensor  # f16 or f32 [blocks, groups]
    minimums: torch.Tensor | None  # of the same kind

    def values(self) -> torch.Tensor:
        """The numbers f32 [blocks, groups, terms]."""
        found = self.numbers.to(torch.float32)
        found *= self.scales.to(torch.float32).unsqueeze(2)
        if self.minimums is not None:
            found += self.minimums.to(torch.float32).unsqueeze(2)
        return found


@dataclass(frozen=True)
class Block:
    """A type of tensors: `terms` numbers in `n_bytes` bytes."""

    name: str
    terms: int
    n_bytes: int
    dtype: torch.dtype  # of its values
    codes: Callable[[torch.Tensor], Codes] | None = None  # of u8 [blocks, n_bytes]; None: numbers


def values_of(block: Block, data: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor of these blocks; those of plain numbers share the data's memory."""
    if data.numel() == 0:
        return torch.empty(shape, dtype=block.dtype)
    if block.codes is not None:
        return block.codes(data.reshape(-1, block.n_bytes)).values().reshape(shape)
    if data.data_ptr() % block.dtype.itemsize != 0:
        data = data.clone()
    return data.reshape(-1).view(block.dtype).reshape(shape)


def _f16(data: torch.Tensor, at: int) -> torch.Tensor:
    """The f16 at a byte of each block, [blocks, 1]."""
    return data[:, at : at + 2].contiguous().view(torch.float16)


def _codes_of_4_bits(data: torch.Tensor, at: int) -> torch.Tensor:
    """Codes 0 … 15 of 16 bytes of each block: u8 [blocks, 1, 32]."""
    both = data[:, at : at + 16]
    return torch.cat([both & 15, both >> 4], 1).unsqueeze(1)


def _codes_of_5_bits(data: torch.Tensor, at: int) -> torch.Tensor:
    """Codes 0 … 31 of the fifth bits and 16 bytes of each block: u8 [blocks, 1, 32]."""
    bits = data[:, at : at + 4].unsqueeze(2) >> torch.arange(8, dtype=torch.uint8) & 1
    return _codes_of_4_bits(data, at + 4) | bits.reshape(-1, 1, 32) << 4


def _numbers(codes: torch.Tensor, zero: int = 0) -> torch.Tensor:
    return codes.to(torch.int8) - zero


def _q4_0(data: torch.Tensor) -> Codes:
    return Codes(_numbers(_codes_of_4_bits(data, 2), 8), _f16(data, 0), None)


def _q4_1(data: torch.Tensor) -> Codes:
    return Codes(_numbers(_codes_of_4_bits(data, 4)), _f16(data, 0), _f16(data, 2))


def _q5_0(data: torch.Tensor) -> Codes:
    return Codes(_numbers(_codes_of_5_bits(data, 2), 16), _f16(data, 0), None)


def _q5_1(data: torch.Tensor) -> Codes:
    return Codes(_numbers(_codes_of_5_bits(data, 4)), _f16(data, 0), _f16(data, 2))


def _q8_0(data: torch.Tensor) -> Codes:
    return Codes(data[:, 2:].view(torch.int8).unsqueeze(1), _f16(data, 0), None)


def _numbers_of_6_bits(packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight scales and eight minimums of [blocks, 12], f32: the first four have their bits in
    bytes 0 … 3 and 4 … 7; those of the others are spread over the last four and the tops of the
    first eight."""
    first, second, last = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = torch.cat([first & 63, (last & 15) | (first >> 6 << 4)], 1)
    mins = torch.cat([second & 63, (last >> 4) | (second >> 6 << 4)], 1)
    return scales.to(torch.float32), mins.to(torch.float32)


def _codes_of_k(data: torch.Tensor) -> torch.Tensor:
    """Codes 0 … 15 of 128 bytes of each block: u8 [blocks, 8, 32]."""
    both = data.reshape(-1, 4, 1, 32)
    return torch.cat([both & 15, both >> 4], 2).reshape(-1, 8, 32)


def _with_minimums(data: torch.Tensor, codes: torch.Tensor) -> Codes:
    """Codes of blocks that begin with d, dmin and packed scales and minimums."""
    scales, mins = _numbers_of_6_bits(data[:, 4:16])
    d, dmin = _f16(data, 0).to(torch.float32), _f16(data, 2).to(torch.float32)
    return Codes(_numbers(codes), d * scales, -(dmin * mins))


def _q4_k(data: torch.Tensor) -> Codes:
    return _with_minimums(data, _codes_of_k(data[:, 16:]))


def _q5_k(data: torch.Tensor) -> Codes:
    tops = data[:, 16:48].unsqueeze(1) >> torch.arange(8, dtype=torch.uint8).unsqueeze(1) & 1
    return _with_minimums(data, _codes_of_k(data[:, 48:]) | tops << 4)


def _q6_k(data: torch.Tensor) -> Codes:
    low, high = data[:, :128].reshape(-1, 2, 2, 32), data[:, 128:192].reshape(-1, 2, 32)
    low = torch.cat([low & 15, low >> 4], 2)  # [blocks, halves, quarters, 32]
    tops = torch.stack([(high >> shift) & 3 for shift in (0, 2, 4, 6)], 2)
    scales = data[:, 192:208].contiguous().view(torch.int8).to(torch.float32)
    codes = _numbers((low | tops << 4).reshape(-1, 16, 16), 32)
    return Codes(codes, scales * _f16(data, 208).to(torch.float32), None)


def _block(name: str, terms: int, n_bytes: int, codes: Callable[[torch.Tensor], Codes]) -> Block:
    return Block(name, terms, n_bytes, torch.float32, codes)


def _plain(name: str, dtype: torch.dtype) -> Block:
    return Block(name, 1, dtype.itemsize, dtype)


# Types of tensors by their numbers in a file.
BLOCKS = {
    0: _plain("F32", torch.float32),
    1: _plain("F16", torch.float16),
    2: _block("Q4_0", 32, 18, _q4_0),
    3: _block("Q4_1", 32, 20, _q4_1),
    6: _block("Q5_0", 32, 22, _q5_0),
    7: _block("Q5_1", 32, 24, _q5_1),
    8: _block("Q8_0", 32, 34, _q8_0),
    12: _block("Q4_K", 256, 144, _q4_k),
    13: _block("Q5_K", 256, 176, _q5_k),
    14: _block("Q6_K", 256, 210, _q6_k),
    24: _plain("I8", torch.int8),
    25: _plain("I16", torch.int16),
    26: _plain("I32", torch.int32),
    27: _plain("I64", torch.int64),
    28: _plain("F64", torch.float64),
    30: _plain("BF16", torch.bfloat16),
}
