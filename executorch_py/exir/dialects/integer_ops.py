"""Operators of the library `executorch_py` on 8-bit integers, and the packing of their weights
(csrc/kernels/micro/qgemm/qgemm.h, and qgemm_groups.h for weights in groups).

Only this project's runtime has them. Importing this module defines them in torch, where they
compute the same integers. Sums are exact; the arithmetic after them is f32, and rounds halves to
even:

    i8      clamp(round(sum · scale + addend), quant_min - zero_point, …) + zero_point
    f32     (sum - zero_point · sums) · (input_scale · scale) + addend
    groups  ((sum · scale of each group, added) - zero_point · sums) · input_scale + addend; where
            groups have minimums, the sum of the group's terms · its minimum is added, too;
            rows of f32 without input_scale are quantized first, after a root mean square norm
            (norm_ops.py) where norm_eps is a number, and a residual is added last

embedding_groups looks up rows of a weight that is packed for qlinear_groups.

Element by element the bits are those of dequantizing, computing in f32 and quantizing again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library

from executorch_py.exir.dialects import norm_ops
from executorch_py.exir.dialects.quantized_ops import quantized_tokens

LIBRARY = "executorch_py"
# Columns of a panel of weights.
PANEL = 16
# Terms of a column that are side by side.
QUAD = 4
# Terms per kernel step with weights in groups.
STEP = 8
# Maximum number of taps of a depthwise kernel; larger ones are packed like any other.
MAX_DEPTHWISE_TAPS = 64

# ---- weights


def packed_weight(weight: torch.Tensor) -> torch.Tensor:
    """Matrices [groups, columns, terms] of int8 as panels: [group, panel, term / 4, column, 4]."""
    groups, n, k = weight.shape
    panels, quads = -(-n // PANEL), -(-k // QUAD)
    padded = weight.new_zeros(groups, panels * PANEL, quads * QUAD)
    padded[:, :n, :k] = weight
    by_panel = padded.reshape(groups, panels, PANEL, quads, QUAD)
    return by_panel.transpose(2, 3).contiguous()


def unpacked_weight(packed: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """Inverse of packed_weight."""
    groups, panels, quads = packed.shape[:3]
    by_panel = packed.transpose(2, 3)
    return by_panel.reshape(groups, panels * PANEL, quads * QUAD)[:, :n, :k]


def packed_starts(starts: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Initial sums of each column of all groups, and those for rows whose terms are larger by 128.

    Instructions that multiply unsigned by signed bytes read such rows. The result is [2, columns],
    padded to whole panels.
    """
    more = 128 * weight.to(torch.int64).sum(-1).reshape(-1)
    both = torch.stack([starts.to(torch.int64), starts.to(torch.int64) - more])
    return torch.stack([packed_columns(_wrapped(s), weight.shape[0]) for s in both])


def _wrapped(values: torch.Tensor) -> torch.Tensor:
    """The low 32 bits of integers, as int32."""
    return ((values + 2**31) % 2**32 - 2**31).to(torch.int32)


def packed_columns(values: torch.Tensor, groups: int) -> torch.Tensor:
    """A vector with one number for each column of all groups, padded to whole panels."""
    by_group = values.reshape(groups, -1)
    n = by_group.shape[1]
    padded = values.new_zeros(groups, -(-n // PANEL) * PANEL)
    padded[:, :n] = by_group
    return padded.reshape(-1)


def unpacked_columns(packed: torch.Tensor, groups: int, n: int) -> torch.Tensor:
    """Inverse of packed_columns."""
    return packed.reshape(groups, -1)[:, :n].reshape(-1)


def packed_groups(weight: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Matrices [columns, groups, terms] of int8 as panels.

    Numbers of 8 bits are stored as they are, [panel][group][term / 8][half][column][4]; those of 4
    bits, -8 … 7, as codes 0 … 15 in u8, [panel][group][term / 8][column][4], whose low halves are
    the first four of 8 terms.
    """
    n, groups, k = weight.shape
    panels, steps = -(-n // PANEL), -(-k // STEP)
    codes = weight if bits == 8 else (weight + 8).to(torch.uint8)
    if codes.shape != (panels * PANEL, groups, steps * STEP):
        padded = codes.new_zeros(panels * PANEL, groups, steps * STEP)
        padded[:n, :, :k] = codes
        codes = padded
    # Words of four terms: no code's bits leave their byte.
    halves = codes.contiguous().view(torch.int32).reshape(panels, PANEL, groups * steps, 2)
    if bits == 8:
        return halves.permute(0, 2, 3, 1).flatten().view(torch.int8)
    both = halves[..., 0] | halves[..., 1] << 4
    return both.transpose(1, 2).flatten().view(torch.uint8)


def unpacked_groups(packed: torch.Tensor, n: int, groups: int, k: int) -> torch.Tensor:
    """Inverse of packed_groups: i8 has numbers of 8 bits, u8 of 4."""
    panels, steps = -(-n // PANEL), -(-k // STEP)
    if packed.dtype is torch.int8:
        by_half = packed.reshape(panels, groups, 2 * steps, PANEL, STEP // 2)
        numbers = by_half.permute(0, 3, 1, 2, 4).reshape(panels * PANEL, groups, steps * STEP)
        return numbers[:n, :, :k]
    by_panel = packed.reshape(panels, groups, steps, PANEL, STEP // 2)
    halves = torch.stack([by_panel & 15, by_panel >> 4]).permute(1, 4, 2, 3, 0, 5)
    codes = halves.reshape(panels * PANEL, groups, steps * STEP)[:n, :, :k]
    return codes.to(torch.int8) - 8


def packed_numbers(values: torch.Tensor) -> torch.Tensor:
    """A matrix [columns, groups] in the order [panel][group][column]."""
    n, groups = values.shape
    panels = -(-n // PANEL)
    padded = values.new_zeros(panels * PANEL, groups)
    padded[:n] = values
    return padded.reshape(panels, PANEL, groups).transpose(1, 2).reshape(-1)


def unpacked_numbers(packed: torch.Tensor, n: int, groups: int) -> torch.Tensor:
    """Inverse of packed_numbers."""
    panels = -(-n // PANEL)
    by_panel = packed.reshape(panels, groups, PANEL)
    return by_panel.transpose(1, 2).reshape(panels * PANEL, groups)[:n]


def is_depthwise(channels_in: int, channels_out: int, groups: int, taps: int) -> bool:
    """Whether a convolution's weights are packed as one matrix, a row of taps for each channel."""
    return channels_in == channels_out == groups and taps <= MAX_DEPTHWISE_TAPS


def matrices_of_kernel(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """A convolution's weight [out, in / groups, height, width] as matrices to pack."""
    out, c_in, *kernel = weight.shape
    if is_depthwise(c_in * groups, out, groups, math.prod(kernel)):
        return weight.reshape(1, out, -1)
    by_group = weight.reshape(groups, out // groups, c_in, -1)
    return by_group.transpose(2, 3).reshape(groups, out // groups, -1)


def _kernel_of_matrices(
    packed: torch.Tensor, out: int, c_in: int, kernel: Sequence[int], groups: int
) -> torch.Tensor:
    taps = math.prod(kernel)
    if is_depthwise(c_in * groups, out, groups, taps):
        return unpacked_weight(packed, out, taps).reshape(out, 1, *kernel)
    matrices = unpacked_weight(packed, out // groups, taps * c_in)
    return matrices.reshape(out, taps, c_in).transpose(1, 2).reshape(out, c_in, *kernel)


# ---- arithmetic in torch


def _limited(
    sums: torch.Tensor,
    scales: torch.Tensor,
    addends: torch.Tensor,
    zero_point: int,
    quant_min: int,
    quant_max: int,
) -> torch.Tensor:
    value = sums.to(torch.int32).to(torch.float32) * scales + addends
    value = value.clamp(quant_min - zero_point, quant_max - zero_point)
    return (value.round() + zero_point).to(torch.int8)


def _convolution(
    input: torch.Tensor,
    input_zero_point: int,
    weight: torch.Tensor,
    starts: torch.Tensor,
    scales: torch.Tensor,
    addends: torch.Tensor,
    channels: int,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    c_in = input.shape[1] // groups
    whole = _kernel_of_matrices(weight, channels, c_in, kernel, groups).to(torch.float64)
    n_groups = 1 if is_depthwise(input.shape[1], channels, groups, math.prod(kernel)) else groups
    starts, scales, addends = (
        unpacked_columns(t, n_groups, channels // n_groups).reshape(-1, 1, 1)
        for t in (starts[0], scales, addends)
    )
    sides = [padding[1], padding[1], padding[0], padding[0]]
    padded = torch.nn.functional.pad(input, sides, value=input_zero_point).to(torch.float64)
    sums = torch.nn.functional.conv2d(padded, whole, None, stride, 0, dilation, groups)
    result = _limited(sums + starts, scales, addends, zero_point, quant_min, quant_max)
    return result.contiguous(memory_format=torch.channels_last)


def _linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    starts: torch.Tensor,
    scales: torch.Tensor,
    addends: torch.Tensor,
    channels: int,
    zero_point: int,
    quant_min: int,
    quant_max: int,
) -> torch.Tensor:
    matrix = unpacked_weight(weight, channels, input.shape[-1])[0].to(torch.float64)
    starts, scales, addends = (t[:channels] for t in (starts[0], scales, addends))
    sums = input.to(torch.float64) @ matrix.t() + starts
    return _limited(sums, scales, addends, zero_point, quant_min, quant_max)


def _linear_float(
    input: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    weight: torch.Tensor,
    sums: torch.Tensor,
    scales: torch.Tensor,
    addends: torch.Tensor,
    channels: int,
) -> torch.Tensor:
    matrix = unpacked_weight(weight, channels, input.shape[-1])[0].to(torch.float64)
    sums, scales, addends = (t[:channels] for t in (sums, scales, addends))
    rows = (*input.shape[:-1], 1)
    scale, zero_point = (t if t.numel() == 1 else t.reshape(rows) for t in (scale, zero_point))
    product = input.to(torch.float64) @ matrix.t() - zero_point * sums
    return product.to(torch.float32) * (scale.to(torch.float32) * scales) + addends


def _offset(packed: torch.Tensor) -> int:
    """The least code of groups with minimums, less that of others."""
    return 0 if packed.dtype is torch.int8 else 8


def _quantized_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of f32 as int8, with a scale and a zero point for each."""
    if rows.shape[-1] == 0:
        ones = rows.new_ones((*rows.shape[:-1], 1))
        return rows.to(torch.int8), ones, torch.zeros_like(ones)
    return quantized_tokens(rows)


def _multiply_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """a · b + c of f32, rounded once, as a fused multiply-add does.

    The product is exact in f64. The sum is rounded to odd there: where it is inexact and its last
    bit is 0, it becomes its neighbour on the side of the exact sum. Rounding that to f32 is right,
    because f64 has more than twice as many bits (Boldo and Melquiond, 2008).
    """
    product, addend = a.to(torch.float64) * b.to(torch.float64), c.to(torch.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)  # exact: Knuth's TwoSum
    bits = total.view(torch.int64)
    is_moved = (error != 0) & (bits & 1 == 0) & total.isfinite()
    step = torch.where((error > 0) == (total > 0), 1, -1)
    return torch.where(is_moved, bits + step, bits).view(torch.float64).to(torch.float32)


def _linear_groups(
    input: torch.Tensor,
    scale: torch.Tensor | None,
    zero_point: torch.Tensor | None,
    weight: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    minimums: torch.Tensor | None,
    sums: torch.Tensor,
    addends: torch.Tensor,
    group: int,
    channels: int,
    residual: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    norm_eps: float | None = None,
) -> torch.Tensor:
    groups = input.shape[-1] // group
    if norm_eps is not None:
        input = norm_ops.RMS_NORM(input, norm_weight, norm_eps)
    if scale is None or zero_point is None:
        input, scale, zero_point = _quantized_rows(input)
    matrices = unpacked_groups(weight, channels, groups, group).to(torch.float64)
    least = None
    if minimums is not None:
        matrices = matrices + _offset(weight)
        least = unpacked_numbers(minimums, channels, groups).to(torch.float32)
    if zero_points is not None:
        matrices = matrices - unpacked_numbers(zero_points, channels, groups).unsqueeze(-1)
    factors = unpacked_numbers(scales, channels, groups).to(torch.float32)
    rows = input.reshape(math.prod(input.shape[:-1]), groups, group).to(torch.float64)
    total = input.new_zeros(rows.shape[0], channels, dtype=torch.float32)
    for i in range(groups):
        exact = rows[:, i] @ matrices[:, i].t()
        total = _multiply_add(exact.to(torch.float32), factors[:, i], total)
        if least is not None:
            terms = rows[:, i].sum(-1, keepdim=True).to(torch.float32)
            total = _multiply_add(terms, least[:, i], total)
    scale, zero_point = (t.reshape(-1, 1).to(torch.float32) for t in (scale, zero_point))
    result = (total - zero_point * sums[:channels]) * scale + addends[:channels]
    result = result.reshape(*input.shape[:-1], channels)
    return result if residual is None else residual + result


def _embedding_groups(
    weight: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    minimums: torch.Tensor | None,
    indices: torch.Tensor,
    group: int,
    width: int,
    rows: int,
) -> torch.Tensor:
    table = unpacked_groups(weight, rows, width // group, group)[indices].to(torch.int32)
    if minimums is not None:
        table += _offset(weight)
    if zero_points is not None:
        table -= unpacked_numbers(zero_points, rows, width // group)[indices].unsqueeze(-1)
    factors = unpacked_numbers(scales, rows, width // group)[indices].to(torch.float32)
    values = table.to(torch.float32) * factors.unsqueeze(-1)
    if minimums is not None:
        least = unpacked_numbers(minimums, rows, width // group)[indices].to(torch.float32)
        values = values + least.unsqueeze(-1)
    return values.reshape(*indices.shape, width)


def _laid_out_like(source: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """The result, channels-last if the source is a channels-last image of the same sizes."""
    is_last = source.dim() == 4 and source.is_contiguous(memory_format=torch.channels_last)
    if is_last and source.shape == result.shape and not source.is_contiguous():
        return result.contiguous(memory_format=torch.channels_last)
    return result.contiguous()


def _binary(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def compute(
        a: torch.Tensor,
        a_scale: float,
        a_zero_point: int,
        b: torch.Tensor,
        b_scale: float,
        b_zero_point: int,
        scale: float,
        zero_point: int,
        quant_min: int,
        quant_max: int,
    ) -> torch.Tensor:
        x = (a.to(torch.float32) - a_zero_point) * a_scale
        y = (b.to(torch.float32) - b_zero_point) * b_scale
        q = torch.round(function(x, y) * (1.0 / scale)) + zero_point
        result = q.clamp(quant_min, quant_max).to(torch.int8)
        return _laid_out_like(a if a.shape == q.shape else b, result)

    return compute


def _lookup(input: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return _laid_out_like(input, table[input.to(torch.int64) + 128])


def _max_pool2d(
    input: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> torch.Tensor:
    windows = torch.nn.functional.max_pool2d(
        input.to(torch.float32), kernel, stride, padding, dilation, ceil_mode
    )
    result = windows.clamp(min=-128).to(torch.int8)
    return result.contiguous(memory_format=torch.channels_last)


def _mean(
    input: torch.Tensor,
    input_zero_point: int,
    multiplier: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
) -> torch.Tensor:
    sums = (input.to(torch.int32) - input_zero_point).sum((2, 3), keepdim=True)
    value = sums.to(torch.float32) * multiplier
    value = value.clamp(quant_min - zero_point, quant_max - zero_point)
    return (value.round() + zero_point).to(torch.int8).contiguous()


_COLUMNS = "Tensor weight, Tensor starts, Tensor scales, Tensor addends, int channels"
_LIMITS = "int zero_point, int quant_min, int quant_max"
_OPERANDS = (
    "Tensor a, float a_scale, int a_zero_point, Tensor b, float b_scale, int b_zero_point, "
    f"float scale, {_LIMITS}"
)

# name, arguments, implementation
_DEFINITIONS: tuple[tuple[str, str, Callable[..., torch.Tensor]], ...] = (
    (
        "qconvolution",
        f"Tensor input, int input_zero_point, {_COLUMNS}, {_LIMITS}, int[] kernel, int[] stride, "
        "int[] padding, int[] dilation, int groups",
        _convolution,
    ),
    ("qlinear", f"Tensor input, {_COLUMNS}, {_LIMITS}", _linear),
    (
        "qlinear_float",
        "Tensor input, Tensor scale, Tensor zero_point, Tensor weight, Tensor sums, Tensor scales, "
        "Tensor addends, int channels",
        _linear_float,
    ),
    (
        "qlinear_groups",
        "Tensor input, Tensor? scale, Tensor? zero_point, Tensor weight, Tensor scales, "
        "Tensor? zero_points, Tensor? minimums, Tensor sums, Tensor addends, int group, "
        "int channels, Tensor? residual=None, Tensor? norm_weight=None, float? norm_eps=None",
        _linear_groups,
    ),
    (
        "embedding_groups",
        "Tensor weight, Tensor scales, Tensor? zero_points, Tensor? minimums, Tensor indices, "
        "int group, int width, int rows",
        _embedding_groups,
    ),
    ("qadd", _OPERANDS, _binary(torch.add)),
    ("qsub", _OPERANDS, _binary(torch.sub)),
    ("qmul", _OPERANDS, _binary(torch.mul)),
    ("qlookup", "Tensor input, Tensor table", _lookup),
    (
        "qmax_pool2d",
        "Tensor input, int[] kernel, int[] stride, int[] padding, int[] dilation, bool ceil_mode",
        _max_pool2d,
    ),
    ("qmean", f"Tensor input, int input_zero_point, float multiplier, {_LIMITS}", _mean),
)


def _into(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def implementation(*args: Any, out: torch.Tensor | None = None) -> torch.Tensor:
        result = function(*args)
        return result if out is None else out.resize_(result.shape).copy_(result)

    return implementation


def _shape_of_linear(input: torch.Tensor, *operands: Any) -> torch.Tensor:
    """The result of a linear layer without its values: operands[9] is the number of channels."""
    return input.new_empty((*input.shape[:-1], operands[9]), dtype=torch.float32)


def _shape_of_embedding(
    weight: torch.Tensor, scales: Any, zeros: Any, least: Any, indices: torch.Tensor, *sizes: int
) -> torch.Tensor:
    return weight.new_empty((*indices.shape, sizes[1]), dtype=torch.float32)


# Operators whose arithmetic above unpacks whole tables or takes a step for each group: tracing
# would record all of it.
_SHAPES: dict[str, Callable[..., torch.Tensor]] = {
    "embedding_groups": _shape_of_embedding,
    "qlinear_groups": _shape_of_linear,
}


def _define() -> Library:
    library = Library(LIBRARY, "FRAGMENT")
    for name, arguments, function in _DEFINITIONS:
        library.define(f"{name}({arguments}) -> Tensor")
        library.define(f"{name}.out({arguments}, *, Tensor(a!) out) -> Tensor(a!)")
        for overload in (name, f"{name}.out"):
            library.impl(overload, _into(function), "CompositeExplicitAutograd")
        if name in _SHAPES:
            torch.library.register_fake(f"{LIBRARY}::{name}", _SHAPES[name], lib=library)
    return library


_LIBRARY = _define()
