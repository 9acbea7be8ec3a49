"""Linear layers and embeddings with weights in few bits, in operators that every runtime has.

A linear layer dequantizes its weight; with `dynamic`, rows of the input become int8 first, each
with its own scale and zero point. XNNPACK computes the whole in integers (8da4w), other runtimes as
they can. Scales are bfloat16 numbers, as XNNPACK stores them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from executorch_py.exir.dialects.quantized_ops import quantized_tokens, register_quantized_ops
from executorch_py.extension.llm.export.quantized_linear import group_scales, one_thread

_SEARCH_STEPS = 8  # more change few scales
_BLOCK = 1 << 17  # numbers of a block


@dataclass(frozen=True)
class WeightKind:
    """Codes of a weight: bits, columns that share a scale (0: a row), and how scales are found."""

    bits: int
    group: int
    search: bool = False  # for the least squared error; else from the largest magnitude

    @property
    def limit(self) -> int:
        """Codes are from -limit to limit - 1."""
        return 1 << (self.bits - 1)


def quantize_rows(weight: torch.Tensor, kind: WeightKind) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes int8 [rows, columns] and scales f32 [rows, groups] of a matrix.

    Rows are quantized in blocks, whose numbers in f32 stay in a core's cache.
    """
    n, k = weight.shape
    group = kind.group or k
    codes = torch.empty((n, k), dtype=torch.int8)
    scales = torch.empty((n, k // group))
    step = max(1, _BLOCK // k)
    with one_thread():
        for first in range(0, n, step):
            rows = slice(first, first + step)
            groups = weight[rows].to(torch.float32).unflatten(1, (-1, group))
            scales[rows] = _scales(groups, kind)
            codes[rows] = _codes(groups, scales[rows], kind.limit).flatten(1)
    return codes, scales


def _scales(groups: torch.Tensor, kind: WeightKind) -> torch.Tensor:
    """Scales [rows, groups] of [rows, groups, columns]: bfloat16 numbers in f32, never 0."""
    scales = group_scales(groups, kind.bits).to(torch.float32)
    if not kind.search:
        return scales
    best, least = scales, torch.full_like(scales, torch.inf)
    for _ in range(_SEARCH_STEPS):
        # The codes of a scale, their error without the squared weights, the scale that fits them.
        codes = _codes(groups, scales, kind.limit)
        products = torch.linalg.vecdot(codes, groups)
        squares = torch.linalg.vecdot(codes, codes)
        error = scales * (scales * squares - 2 * products)
        better = error < least
        best, least = torch.where(better, scales, best), torch.where(better, error, least)
        scales = _as_stored(torch.where(squares > 0, products / squares.clamp(min=1), scales))
    return best


def _as_stored(scales: torch.Tensor) -> torch.Tensor:
    rounded = scales.to(torch.bfloat16).to(torch.float32)
    return torch.where(rounded > 0, rounded, torch.ones_like(rounded))


def _codes(groups: torch.Tensor, scales: torch.Tensor, limit: int) -> torch.Tensor:
    return (groups / scales.unsqueeze(-1)).round_().clamp_(-limit, limit - 1)


class GroupedLinear(torch.nn.Module):
    """y = x · dequantized(weight)ᵀ + bias."""

    weight: torch.Tensor
    scales: torch.Tensor
    zero_points: torch.Tensor

    def __init__(
        self,
        codes: torch.Tensor,
        scales: torch.Tensor,
        kind: WeightKind,
        bias: torch.Tensor | None = None,
        dynamic: bool = True,
    ) -> None:
        super().__init__()
        self.kind, self.dynamic = kind, dynamic
        self.group = kind.group or codes.shape[1]
        self.is_by_row = self.group == codes.shape[1]
        self.register_buffer("weight", codes)
        self.register_buffer("scales", scales.flatten() if self.is_by_row else scales)
        self.register_buffer("zero_points", torch.zeros_like(self.scales, dtype=torch.int64))
        self.register_buffer("bias", None if bias is None else bias.to(torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        register_quantized_ops()
        library = torch.ops.quantized_decomposed
        if self.dynamic:
            codes, scale, zero_point = quantized_tokens(x)
            x = library.dequantize_per_token(
                codes, scale, zero_point, -128, 127, torch.int8, torch.float32
            )
        result: torch.Tensor = torch.nn.functional.linear(x, self._dequantized(), self.bias)
        return result

    def _dequantized(self) -> torch.Tensor:
        library, limit = torch.ops.quantized_decomposed, self.kind.limit
        bounds = (-limit, limit - 1, torch.int8)
        numbers = (self.scales, self.zero_points)
        if self.is_by_row:
            by_row: torch.Tensor = library.dequantize_per_channel(self.weight, *numbers, 0, *bounds)
            return by_row
        result: torch.Tensor = library.dequantize_per_channel_group(
            self.weight, *numbers, *bounds, self.group, torch.float32
        )
        return result


class CodedEmbedding(torch.nn.Module):
    """Dequantized rows of a table of 2, 4 or 8 bits, f32 […, width], for indices i64 […]."""

    weight: torch.Tensor
    scales: torch.Tensor

    def __init__(self, codes: torch.Tensor, scales: torch.Tensor, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.register_buffer("weight", _packed(codes, bits))
        self.register_buffer("scales", scales.squeeze(1) if scales.shape[1] == 1 else scales)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        register_quantized_ops()
        library, limit = torch.ops.quantized_decomposed, 1 << (self.bits - 1)
        look_up = {2: library.embedding_2bit, 4: library.embedding_4bit, 8: library.embedding_byte}
        rows: torch.Tensor = look_up[self.bits](
            self.weight, self.scales, None, -limit, limit - 1, indices
        )
        return rows


def _packed(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Bytes of codes: 4-bit ones have the high half first, 2-bit ones the low end."""
    if bits == 8:
        return codes
    shifts = (4, 0) if bits == 4 else (0, 2, 4, 6)
    naturals = (codes.to(torch.int32) + (1 << (bits - 1))).unflatten(1, (-1, 8 // bits))
    return sum(naturals[..., i] << shift for i, shift in enumerate(shifts)).to(torch.uint8)
