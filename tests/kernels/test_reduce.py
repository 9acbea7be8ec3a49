"""Reductions against eager torch over dims, layouts, dtypes, lengths and empty tensors.

Index reductions, topk and cumsum are included.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, check_op, run_op

A = torch.ops.aten
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, torch.float64]
ALL = [*INTS, *HALVES, *FLOATS, torch.bool]
DIMS = [[0], [1], [2], [3], [-1], [0, 2], [1, 3], [2, 3], [-1, -2], [], [0, 1, 2, 3], [1, 2]]


def sample(
    shape: tuple[int, ...], dtype: torch.dtype, low: int = -4, high: int = 5
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape) + low)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(
            0 if dtype == torch.uint8 else low, high, shape, generator=generator
        ).to(dtype)
    return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)


def layouts(dtype: torch.dtype) -> list[torch.Tensor]:
    x = sample((3, 4, 5, 6), dtype)
    return [x, x.to(memory_format=torch.channels_last)]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_over_every_choice_of_dims_equal_eager(
    dtype: torch.dtype, keepdim: bool
) -> None:
    for x in layouts(dtype):
        for dims in DIMS:
            check_op(A.sum.IntList_out, x, dims, keepdim, scale=20)
            check_op(A.amax.out, x, dims, keepdim)
            check_op(A.amin.out, x, dims, keepdim)
            check_op(A.any.dims_out, x, dims or None, keepdim)
            if dtype.is_floating_point:
                check_op(A.mean.out, x, dims, keepdim, scale=20)
                check_op(
                    A.var.correction_out, x, dims or None, correction=1, keepdim=keepdim, scale=8
                )
                check_op(A.var.out, x, dims or None, False, keepdim, scale=8)
                check_op(
                    A.var_mean.correction_out,
                    x,
                    dims or None,
                    correction=0,
                    keepdim=keepdim,
                    scale=20,
                )


@pytest.mark.parametrize("dtype", ALL)
def test_reductions_over_one_dim_and_over_all_equal_eager(dtype: torch.dtype) -> None:
    for x in layouts(dtype):
        for dim in (0, 1, -1):
            check_op(A.any.out, x, dim, True)
            check_op(A.max.dim_max, x, dim)
            check_op(A.min.dim_min, x, dim, True)
            check_op(A.cumsum.out, x, dim, scale=8 if dtype in HALVES else 2)
            if dtype not in HALVES:  # eager rounds half types after every product
                check_op(A.prod.int_out, x, dim, scale=20)
            if dtype != torch.bool:
                check_op(A.argmax.out, x, dim)
                check_op(A.argmin.out, x, dim, True)
        check_op(A.any.all_out, x)
        check_op(A.max.unary_out, x)
        check_op(A.min.unary_out, x)
        if dtype != torch.bool:
            check_op(A.argmax.out, x)
        if dtype.is_floating_point:
            check_op(A.mean.dtype_out, x, scale=20)
    check_op(A.prod.out, sample((6,), dtype), scale=10)
    check_op(A.sum.IntList_out, sample((), dtype), [0])
    check_op(A.sum.IntList_out, sample((), dtype), [])


@pytest.mark.parametrize("dtype", [*INTS, *HALVES, *FLOATS])
@pytest.mark.parametrize("largest", [False, True])
def test_topk_finds_what_eager_finds(dtype: torch.dtype, largest: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randperm(120, generator=generator).reshape(4, 5, 6).to(dtype)
    for dim in (0, 1, 2):
        check_op(A.topk.values, x, 3, dim, largest)
    check_op(A.topk.values, x.flatten()[:100], 100, 0, largest)
    check_op(A.topk.values, x, 0, 1, largest)
    check_op(A.topk.values, x[0, 0, 0].clone(), 1, -1, largest)


@pytest.mark.parametrize(
    "shape", [(2, 300, 3, 1), (4, 700, 1, 1), (1, 1, 1, 9000), (200, 1, 1, 517)]
)
def test_long_reductions_equal_eager(shape: tuple[int, ...]) -> None:
    x = sample(shape, torch.float32)
    for dims in ([0], [1], [3], [0, 3]):
        check_op(A.sum.IntList_out, x, dims, scale=40)
        check_op(A.mean.out, x, dims, scale=40)
        check_op(A.amax.out, x, dims)
        check_op(A.var.correction_out, x, dims, correction=0, scale=20)


def test_dtype_argument_decides_what_is_added() -> None:
    check_op(A.sum.IntList_out, sample((5, 6), torch.float32), [1], dtype=torch.int64)
    check_op(A.sum.IntList_out, sample((5, 6), torch.int32), [1], dtype=torch.float32)
    check_op(A.mean.out, sample((5, 6), torch.int32), [1], dtype=torch.float32)
    check_op(A.cumsum.out, sample((4, 5), torch.int32), 1, dtype=torch.float32)
    check_op(A.cumsum.out, sample((4, 5), torch.float32), 1, dtype=torch.int64)


def test_empty_reductions_give_the_neutral_element() -> None:
    none = torch.ones(0, 3)
    for op, args in (
        (A.sum.IntList_out, ([0],)),
        (A.mean.out, ([0],)),
        (A.any.out, (0,)),
        (A.prod.int_out, (0,)),
        (A.cumsum.out, (1,)),
    ):
        check_op(op, none, *args)
    check_op(A.sum.IntList_out, torch.ones(3, 0), [0])
    check_op(A.amax.out, torch.ones(3, 0), [0])


def test_nan_wins_and_first_extreme_is_taken() -> None:
    x = sample((30, 40), torch.float32)
    x[3, 7] = x[3, 9] = math.nan
    for dim in (0, 1):
        check_op(A.amax.out, x, [dim])
        check_op(A.amin.out, x, [dim])
        check_op(A.argmax.out, x, dim)
        check_op(A.argmin.out, x, dim)
        check_op(A.max.dim_max, x, dim)
        check_op(A.min.dim_min, x, dim)
    check_op(A.max.unary_out, x)


def test_limits_of_i64_survive() -> None:
    x = torch.tensor([2**63 - 1, -(2**63), 5])
    check_op(A.max.unary_out, x)
    check_op(A.min.unary_out, x)
    check_op(A.sum.IntList_out, x, [])


REFUSED: list[tuple[str, tuple[Any, ...], list[Out], str]] = [
    (
        "aten::amax.out",
        (torch.ones(0, 3), [0], False),
        [Out(torch.float32, (3,))],
        "no elements is undefined",
    ),
    ("aten::max.unary_out", (torch.ones(0),), [Out(torch.float32, ())], "no elements is undefined"),
    (
        "aten::argmax.out",
        (torch.ones(0), None, False),
        [Out(torch.int64, ())],
        "no elements is undefined",
    ),
    (
        "aten::sum.IntList_out",
        (torch.ones(2, 3), [0, -2], False, None),
        [Out(torch.float32, (3,))],
        "appears twice",
    ),
    (
        "aten::sum.IntList_out",
        (torch.ones(2, 3), [5], False, None),
        [Out(torch.float32, (3,))],
        "expected a dimension of a tensor of rank 2, got 5",
    ),
    (
        "aten::mean.out",
        (torch.ones(2), [0], False, None),
        [Out(torch.int64, ())],
        "expected floating point",
    ),
    (
        "aten::argmax.out",
        (torch.ones(2), 0, False),
        [Out(torch.int32, ())],
        "indices: expected i64, got i32",
    ),
    (
        "aten::topk.values",
        (torch.ones(3), 4, 0, True, True),
        [Out(torch.float32, (4,)), Out(torch.int64, (4,))],
        "k: expected 0 to 3, the size of dimension 0, got 4",
    ),
]


@pytest.mark.parametrize(("name", "args", "outs", "words"), REFUSED)
def test_wrong_calls_are_refused_with_words(
    name: str, args: tuple[Any, ...], outs: list[Out], words: str
) -> None:
    with pytest.raises(OpError, match=words):
        run_op(name, *args, out=outs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    ("shape", "dims"), [((300_007,), [0]), ((3, 70_001), [1]), ((50_003, 5), [0])]
)
def test_few_long_results_do_not_depend_on_threads(
    shape: tuple[int, ...], dims: list[int], dtype: torch.dtype
) -> None:
    x = sample(shape, dtype)
    check_op(A.sum.IntList_out, x, dims, scale=8.0)
    check_op(A.amax.out, x, dims)
    check_op(A.amin.out, x, dims)
    if dtype.is_floating_point:
        check_op(A.var.correction_out, x, dims, correction=1)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_sums_over_dimensions_of_nothing_are_zero(dtype: torch.dtype) -> None:
    for shape, dims in (((4, 0), [1]), ((0, 4), [0]), ((3, 0, 5), [1]), ((3, 0, 5), [0, 1])):
        check_op(A.sum.IntList_out, torch.zeros(shape, dtype=dtype), dims)
