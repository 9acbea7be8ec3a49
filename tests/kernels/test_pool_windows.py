"""Adaptive and fractional max pooling against eager torch, and gradients of average pooling."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support.element_samples import REAL, laid_out, orders, sample
from support.op_driver import OpError, Out, check_op, run_op

A = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NUMBERS = [d for d in REAL if d != torch.bool]


def mixed(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    values = sample(shape, torch.int64) * 7919 % 97
    return (values - (0 if dtype == torch.uint8 else 48)).to(dtype)


# input, output
ADAPTIVE: list[tuple[tuple[int, ...], list[int]]] = [
    ((2, 3, 7, 5), [3, 4]),
    ((3, 7, 5), [7, 1]),
    ((0, 2, 4, 4), [3, 3]),
    ((1, 2, 3, 4), [5, 9]),
    ((2, 3, 4, 7, 5), [3, 4, 2]),
    ((2, 4, 7, 5), [2, 1, 5]),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_adaptive_max_pooling_equals_eager(dtype: torch.dtype) -> None:
    for shape, size in ADAPTIVE:
        op: Any = A.adaptive_max_pool2d.out if len(size) == 2 else A.adaptive_max_pool3d.out
        x = mixed(shape, dtype)
        want = list(op.overloadpacket(x, size))
        for order, out_order in itertools.product(orders(len(shape)), orders(len(shape))):
            check_op(op, laid_out(x, order), size, expected=want, out_order=out_order)


def test_integers_are_pooled_like_the_same_floats() -> None:
    for dtype in (d for d in NUMBERS if not d.is_floating_point):
        x = mixed((2, 3, 7, 5), dtype)
        values, indices = A.adaptive_max_pool2d(x.float(), [3, 4])
        check_op(A.adaptive_max_pool2d.out, x, [3, 4], expected=[values.to(dtype), indices])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fractional_max_pooling_equals_eager(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    cases: list[tuple[tuple[int, ...], list[int], list[int]]] = [
        ((2, 3, 11, 9), [2, 3], [5, 4]),
        ((3, 11, 9), [3, 2], [1, 8]),
        ((2, 3, 7, 11, 9), [2, 3, 2], [5, 4, 3]),
        ((3, 7, 11, 9), [1, 2, 3], [3, 1, 6]),
    ]
    for shape, kernel, size in cases:
        op: Any = A.fractional_max_pool2d.output
        op = op if len(size) == 2 else A.fractional_max_pool3d.output
        lead = shape[: len(shape) - len(size)]
        images, channels = lead if len(lead) == 2 else (1, lead[0])
        samples = torch.rand(images, channels, len(size), generator=generator).to(dtype)
        x = mixed(shape, dtype)
        # Eager computes window positions of half types in half precision; ours are those of f32.
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        values, indices = op.overloadpacket(x.to(wide), kernel, size, samples.to(wide))
        for order in orders(len(shape)):
            given = laid_out(x, order)
            want = [values.to(dtype), indices]
            check_op(op, given, kernel, size, samples, expected=want)


def test_the_last_nan_is_the_largest() -> None:
    x = mixed((1, 1, 6, 6), torch.float32)
    x[0, 0, 1, 1] = x[0, 0, 0, 2] = x[0, 0, 5, 5] = float("nan")
    check_op(A.adaptive_max_pool2d.out, x, [2, 2])
    check_op(A.adaptive_max_pool2d.out, torch.full_like(x, -torch.inf), [4, 4])
    samples = torch.full((1, 1, 2), 0.3)
    check_op(A.fractional_max_pool2d.output, x, [2, 2], [3, 3], samples)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_ties_and_nans_of_wide_windows_go_by_their_place(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    for shape, size in (
        ((2, 3, 9, 700), [2, 3]),
        ((1, 2, 5, 900), [5, 1]),
        ((1, 300, 7, 8), [3, 3]),
    ):
        x = torch.randint(-2, 3, shape, generator=generator).to(dtype)
        x[torch.rand(shape, generator=generator) < 0.02] = float("nan")
        for given in (x, x.nan_to_num(-torch.inf), x.nan_to_num(-torch.inf).clamp(max=-2)):
            for order in (None, [0, 2, 3, 1], [1, 0, 3, 2]):
                y = given if order is None else laid_out(given, order)
                want = list(A.adaptive_max_pool2d(given, size))
                check_op(A.adaptive_max_pool2d.out, y, size, expected=want, out_order=order)


def test_wrong_pools_are_refused_with_words() -> None:
    x = mixed((1, 1, 6, 6), torch.float32)
    outs = [Out(torch.float32, (1, 1, 3, 3)), Out(torch.int64, (1, 1, 3, 3))]
    with pytest.raises(OpError, match="input: expected rank 3 or 4, got 2"):
        run_op("aten::adaptive_max_pool2d.out", x[0, 0], [3, 3], out=outs)
    with pytest.raises(OpError, match=r"output_size\[1\]: expected at least 0, got -1"):
        run_op("aten::adaptive_max_pool2d.out", x, [3, -1], out=outs)
    with pytest.raises(OpError, match="5 windows of 3 do not fit into 6"):
        samples = torch.zeros(1, 1, 2)
        run_op("aten::fractional_max_pool2d.output", x, [3, 3], [5, 5], samples, out=outs)
    with pytest.raises(OpError, match=r"samples: expected f32\[1, 1, 2\], got f32\[1, 1, 3\]"):
        samples = torch.zeros(1, 1, 3)
        run_op("aten::fractional_max_pool2d.output", x, [3, 3], [3, 3], samples, out=outs)


# ---- gradients: input, kernel, stride, padding, ceil_mode, count_include_pad, divisor
WINDOWS: list[tuple[Any, ...]] = [
    ((2, 3, 7, 6), [3, 2], [2, 2], [1, 1], False, True, None),
    ((2, 3, 7, 6), [3, 2], [2, 2], [1, 1], True, False, None),
    ((3, 7, 6), [2, 2], [], [0, 0], True, True, 3),
    ((2, 3, 7, 6), [3, 3], [1, 2], [1, 0], False, True, -2),
    ((2, 3, 5, 7, 6), [3, 2, 2], [2, 2, 1], [1, 1, 0], True, False, None),
    ((3, 5, 7, 6), [2, 3, 2], [], [0, 1, 1], False, True, None),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_of_average_pooling_equal_eager(dtype: torch.dtype) -> None:
    for shape, *window in WINDOWS:
        flat = len(window[0]) == 2
        pool: Any = A.avg_pool2d if flat else A.avg_pool3d
        op: Any = A.avg_pool2d_backward if flat else A.avg_pool3d_backward
        x = mixed(shape, torch.float64)
        grad = mixed(tuple(pool(x, *window).shape), torch.float64)
        want = op(grad, x, *window).to(dtype)
        for order in orders(len(shape)):
            given = laid_out(grad, order).to(dtype), laid_out(x, order).to(dtype)
            check_op(op.grad_input, *given, *window, expected=want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_of_adaptive_pooling_equal_eager(dtype: torch.dtype) -> None:
    for shape, size in ADAPTIVE:
        flat = len(size) == 2
        op: Any = A._adaptive_avg_pool2d_backward if flat else A._adaptive_avg_pool3d_backward
        x = mixed(shape, torch.float64)
        grad = mixed((*shape[: len(shape) - len(size)], *size), torch.float64)
        want = op(grad, x).to(dtype)
        for order in orders(len(shape)):
            given = laid_out(grad, order).to(dtype), laid_out(x, order).to(dtype)
            check_op(op.out, *given, expected=want)


def test_wrong_gradients_are_refused_with_words() -> None:
    x, grad = mixed((1, 1, 6, 6), torch.float32), mixed((1, 1, 3, 3), torch.float32)
    name, out = "aten::avg_pool2d_backward.grad_input", [Out(torch.float32, (1, 1, 6, 6))]
    with pytest.raises(OpError, match="divisor_override: expected other than 0, got 0"):
        run_op(name, grad, x, [2, 2], [2, 2], [0, 0], False, True, 0, out=out)
    with pytest.raises(OpError, match="more outputs than windows fit"):
        run_op(name, grad, x, [2, 2], [5, 5], [0, 0], False, True, None, out=out)
    with pytest.raises(OpError, match="gradient f16"):
        run_op(name, grad.half(), x, [2, 2], [2, 2], [0, 0], False, True, None, out=out)
