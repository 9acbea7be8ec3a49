"""Rows of quantized_decomposed: rounding to integers and back, and embeddings of packed bytes.

The expected values are torch's own decomposed operators, which compute in eager torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
from kernels.table.row import Row, T

import_module("torch.ao.quantization.fx._decomposed")
F32, I64 = torch.float32, torch.int64
LIMITS = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-32768, 32767),
    torch.int32: (-(2**31), 2**31 - 1),
}
SOURCES = [torch.float32, torch.float16, torch.bfloat16]
SHAPES: list[tuple[int, ...]] = [(3, 5), (), (0, 4), (2, 3, 4, 33), (7, 70), (1,)]
eager = torch.ops.quantized_decomposed
Q = "quantized_decomposed::"


def by(function: Any, drop: int = 0) -> Any:
    """A reference without the kernel's last arguments, which torch's operator lacks."""

    def result(*args: Any) -> Any:
        return function(*args[: len(args) - drop])

    result.__qualname__ = str(function)
    return result


QUANTIZE, DEQUANTIZE = (
    by(eager.quantize_per_tensor.default),
    by(eager.dequantize_per_tensor.default, 1),
)
QUANTIZE_BY = by(eager.quantize_per_tensor.tensor)
DEQUANTIZE_BY = by(eager.dequantize_per_tensor.tensor, 1)
CHANNELS = by(eager.quantize_per_channel.default)
FROM_CHANNELS = by(eager.dequantize_per_channel.default, 1)


def per_tensor() -> Iterator[Row]:
    args: tuple[Any, ...]
    for (dtype, limits), shape in itertools.product(LIMITS.items(), SHAPES):
        for scale, zero in ((0.03, 3), (0.5, 0), (1.7, -2)):
            zero = max(zero, 0) if dtype == torch.uint8 else zero
            rest = (scale, zero, *limits, dtype)
            q = T(shape, dtype, max(limits[0], -1000), min(limits[1], 1000))
            for source in SOURCES:
                x = T(shape, source)
                yield Row(Q + "quantize_per_tensor.out", (x, *rest), reference=QUANTIZE)
            args = (q, *rest, None)
            yield Row(Q + "dequantize_per_tensor.out", args, reference=DEQUANTIZE)
            given = (T((1,), F32, values=(scale,)), T((1,), I64, values=(zero,)), *limits, dtype)
            args = (T(shape), *given)
            yield Row(Q + "quantize_per_tensor.Tensor_out", args, reference=QUANTIZE_BY)
            args = (q, *given, None)
            yield Row(Q + "dequantize_per_tensor.Tensor_out", args, reference=DEQUANTIZE_BY)


def per_channel() -> Iterator[Row]:
    for (dtype, limits), shape in itertools.product(LIMITS.items(), ((3, 5), (2, 3, 4, 5), (7,))):
        for axis, wide in itertools.product(range(len(shape)), (F32, torch.float64)):
            n = shape[axis]
            scales = T((n,), wide, 0.01, 0.5, seed=1)
            zeros = T((n,), I64, 0, 5, seed=2)
            q = T(shape, dtype, max(limits[0], -1000), min(limits[1], 1000))
            rest = (scales, zeros, axis, *limits, dtype)
            yield Row(Q + "quantize_per_channel.out", (T(shape), *rest), reference=CHANNELS)
            for zero in (zeros, None):
                args = (q, scales, zero, axis, *limits, dtype, None)
                yield Row(Q + "dequantize_per_channel.out", args, reference=FROM_CHANNELS)


def per_token() -> Iterator[Row]:
    args: tuple[Any, ...]
    limits = (-128, 127, torch.int8)
    for shape in ((4, 7), (2, 3, 16), (1, 1)):
        x, lines = T(shape), (*shape[:-1], 1)
        choose = eager.choose_qparams_per_token_asymmetric.default
        op = Q + "choose_qparams_per_token_asymmetric.out"
        yield Row(op, (x, torch.int8), reference=choose)
        scales, zeros = T(lines, torch.float64, 0.01, 0.5), T(lines, I64, -5, 5, seed=1)
        args = (x, scales, zeros, *limits)
        yield Row(Q + "quantize_per_token.out", args, reference=eager.quantize_per_token.default)
        q = T(shape, torch.int8, -128, 128)
        rest = (scales, zeros, *limits, F32)
        back = eager.dequantize_per_token.default
        yield Row(Q + "dequantize_per_token.out", (q, *rest), reference=back)
    for low, size in itertools.product((-20.0, 0.0, 20.0), ((5, 6), (30,), (2, 3, 4))):
        for few, many in ((-128, 127), (0, 255)):
            args = (T(size, F32, low, low + 8), few, many, 1e-5, torch.int8)
            yield Row(Q + "choose_qparams.Tensor_out", args,
                      reference=eager.choose_qparams.tensor)  # fmt: skip


def embeddings() -> Iterator[Row]:
    for name, weight in (("byte", torch.int8), ("4bit", torch.uint8), ("2bit", torch.uint8)):
        for source, groups, with_zeros in itertools.product(SOURCES, (0, 2), (False, True)):
            rows_of: tuple[int, ...] = (10, groups) if groups else (10,)
            table = T((10, 4), weight, -128, 127) if name == "byte" else T((10, 4), weight, 0, 256)
            bits = {"byte": 8, "4bit": 4, "2bit": 2}[name]
            zeros = T(rows_of, source, -3, 3, whole=True, seed=2) if with_zeros else None
            args = (
                table, T(rows_of, source, 0.1, 2, seed=1), zeros, -(2 ** (bits - 1)),
                2 ** (bits - 1) - 1,
            )  # fmt: skip
            for index in (T((2, 2), I64, 0, 10), T((), torch.int32, 0, 10)):
                op = f"{Q}embedding_{name}.out"
                yield Row(op, (*args, index), reference=_rows_of_table)


def _rows_of_table(
    weight: torch.Tensor, scales: torch.Tensor, zeros: Any, low: int, high: int, index: torch.Tensor
) -> torch.Tensor:
    """4 bits are stored high half first, 2 bits low end first; f32, rounded once."""
    bits = (high - low + 1).bit_length() - 1
    numbers = weight.to(torch.int32)
    if bits < 8:
        shifts = {4: [4, 0], 2: [0, 2, 4, 6]}[bits]
        parts = [(numbers >> s & (2**bits - 1)) + low for s in shifts]
        numbers = torch.stack(parts, dim=-1).flatten(1)
    n = weight.shape[0]
    groups = scales.shape[1] if scales.dim() > 1 else 1
    shift = torch.zeros(n, groups) if zeros is None else zeros.float().reshape(n, groups)
    spread = numbers.unflatten(1, (groups, -1)).float() - shift.unsqueeze(-1)
    wide = (spread * scales.float().reshape(n, groups, 1)).flatten(1)
    return wide[index.long()].to(scales.dtype)


def sums() -> Iterator[Row]:
    for (dtype, limits), shapes in itertools.product(
        list(LIMITS.items())[:2], (((3, 5), (3, 5)), ((2, 1, 40), (3, 1)), ((), (4,)))
    ):
        a, b = (T(s, dtype, limits[0], limits[1] + 1, seed=i) for i, s in enumerate(shapes))
        args = (a, 0.05, 13, *limits, b, 0.11, 12, *limits, 0.07, 18, *limits)
        yield Row(Q + "add.out", args, reference=_sum)


def _sum(a: Any, sa: Any, za: Any, la: Any, ha: Any, b: Any, sb: Any, zb: Any, lb: Any, hb: Any,
         so: Any, zo: Any, lo: Any, ho: Any) -> Any:  # fmt: skip
    left = eager.dequantize_per_tensor(a, sa, za, la, ha, a.dtype)
    right = eager.dequantize_per_tensor(b, sb, zb, lb, hb, b.dtype)
    return eager.quantize_per_tensor(left + right, so, zo, lo, ho, a.dtype)


def rows() -> Iterator[Row]:
    yield from per_tensor()
    yield from per_channel()
    yield from per_token()
    yield from embeddings()
    yield from sums()
