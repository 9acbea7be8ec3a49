"""Running products, extremes and logarithms of sums against eager torch: every element type,
layout and dimension, NaN, ties, wrapping integers. (cumsum is in test_reduce.py.)"""

from __future__ import annotations

import itertools

import pytest
import torch
from support.element_samples import REAL, laid_out, orders, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (3, 0), (2, 300)]


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Values near 1 for floats, small integers with ties else."""
    mixed = sample(shape, torch.int64) * 7919 % 13
    if dtype.is_floating_point:
        return (mixed.double() / 24 + 0.75).to(dtype)
    return (mixed % 2 == 0) if dtype == torch.bool else (mixed % 5).to(dtype)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_scans_equal_eager_over_every_dimension(dtype: torch.dtype) -> None:
    for shape in SHAPES:
        for order, dim in itertools.product(orders(len(shape)), range(-1, len(shape))):
            x = values(shape, dtype)
            x = laid_out(x, order) if order else x
            check_op(
                aten.cumprod.out,
                x,
                dim,
                expected=torch.cumprod(x.contiguous(), dim),
                scale=4,
            )
            for op in (aten.cummax.out, aten.cummin.out):
                want = op.overloadpacket(x.contiguous(), dim)
                for out_order in orders(len(shape)):
                    check_op(op, x, dim, expected=list(want), out_order=out_order)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logcumsumexp_equals_eager(dtype: torch.dtype) -> None:
    inf, nan = float("inf"), float("nan")
    special = torch.tensor([-inf, -inf, 1.0, -inf, 80.0, 81.0, inf, inf, nan, 0.0], dtype=dtype)
    for x in [special, special[:5], -special, *(values(s, dtype) * 9 for s in SHAPES)]:
        for dim in range(-1, x.dim()):
            check_op(aten.logcumsumexp.out, x, dim, scale=4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_stays_the_extreme_once_it_is_met(dtype: torch.dtype) -> None:
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3.0, nan, 5.0], [-0.0, 0.0, -0.0, 2.0, nan]], dtype=dtype)
    for op in (aten.cummax.out, aten.cummin.out, aten.cumprod.out):
        check_op(op, x, 1)
        check_op(op, x, 0)


def test_products_take_the_type_asked_for_and_wrap() -> None:
    x = torch.tensor([100, 100, 100, -3], dtype=torch.int8)
    check_op(aten.cumprod.out, x, 0, dtype=torch.int8)
    check_op(aten.cumprod.out, x, 0)
    check_op(aten.cumprod.out, x, 0, dtype=torch.float16)
    check_op(aten.cumprod.out, torch.tensor([2.5, 2.5]), 0, dtype=torch.int64)


def test_wrong_arguments_are_refused_with_words() -> None:
    x = sample((3,))
    f32, i64, i32 = (Out(d, (3,)) for d in (torch.float32, torch.int64, torch.int32))
    with pytest.raises(OpError, match="expected a dimension of a tensor of rank 1, got 1"):
        run_op("aten::cumprod.out", x, 1, None, out=[f32])
    with pytest.raises(OpError, match="indices of i64, got f32 and i32"):
        run_op("aten::cummax.out", x, 0, out=[f32, i32])
    with pytest.raises(OpError, match="not defined for dtypes i64"):
        run_op("aten::logcumsumexp.out", sample((3,), torch.int64), 0, out=[i64])
