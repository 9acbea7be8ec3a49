"""scatter_reduce and index_reduce against eager torch: every reduction with and without self,
element types, layouts, indices that repeat, NaN, and what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch
from support.element_samples import REAL, laid_out, orders, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
WAYS = ["sum", "prod", "amax", "amin"]


def values(shape: tuple[int, ...], dtype: torch.dtype, start: int) -> torch.Tensor:
    mixed = (sample(shape, torch.int64) + start) * 7919 % 7
    if dtype == torch.bool:
        return mixed % 2 == 0
    return (mixed - (0 if dtype == torch.uint8 else 3)).to(dtype)


def pick(shape: tuple[int, ...], size: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return ((sample(shape, torch.int64) * 7 // 3) % max(size, 1)).to(dtype)


# shape of self, dimension, shape of the index, shape of src
SCATTERS: list[tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]] = [
    ((5,), 0, (11,), (11,)),
    ((5,), -1, (0,), (3,)),
    ((4, 3), 0, (9, 3), (9, 3)),
    ((4, 3), 1, (2, 7), (4, 8)),
    ((2, 3, 4), 1, (2, 6, 3), (2, 6, 4)),
    ((), 0, (), ()),
    ((), 0, (1,), (1,)),
    ((3,), 0, (), ()),
]


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_scatter_reduce_equals_eager(dtype: torch.dtype) -> None:
    for (shape, dim, index_shape, src_shape), way, include in itertools.product(
        SCATTERS, WAYS, (True, False)
    ):
        index = pick(index_shape, shape[dim] if shape else 1)
        x, src = values(shape, dtype, 3), values(src_shape, dtype, 0)
        want = torch.scatter_reduce(x, dim, index, src, way, include_self=include)
        for order in orders(len(shape)):
            given = laid_out(x, order) if shape else x
            check_op(
                aten.scatter_reduce.two_out,
                given,
                dim,
                index,
                src,
                way,
                include_self=include,
                expected=want,
            )


# shape of self, dimension, shape of source: the index has the source's size there
SLICES: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((5,), 0, (9,)),
    ((4, 3), 0, (7, 3)),
    ((4, 3), -1, (4, 5)),
    ((2, 3, 4), 1, (2, 8, 4)),
    ((2, 3), 0, (0, 3)),
]


@pytest.mark.filterwarnings("ignore:index_reduce")  # torch calls it beta
@pytest.mark.parametrize("dtype", [d for d in REAL if d != torch.bool], ids=str)
def test_index_reduce_equals_eager(dtype: torch.dtype) -> None:
    for (shape, dim, src_shape), way, include, wide in itertools.product(
        SLICES, WAYS[1:], (True, False), (torch.int64, torch.int32)
    ):
        index = pick((src_shape[dim],), shape[dim], wide)
        x, src = values(shape, dtype, 3), values(src_shape, dtype, 0)
        want = torch.index_reduce(x, dim, index, src, way, include_self=include)
        for order in orders(len(shape)):
            check_op(
                aten.index_reduce.out,
                laid_out(x, order),
                dim,
                index,
                src,
                way,
                include_self=include,
                expected=want,
            )


def test_nan_is_the_greatest_and_the_least() -> None:
    nan = float("nan")
    x, index = torch.tensor([1.0, nan, 3.0]), torch.tensor([0, 0, 1, 2, 2])
    src = torch.tensor([nan, 5.0, 1.0, -1.0, 4.0])
    for way, include in itertools.product(WAYS, (True, False)):
        check_op(aten.scatter_reduce.two_out, x, 0, index, src, way, include_self=include)


def test_wrong_arguments_are_refused_with_words() -> None:
    x, out = sample((3,)), [Out(torch.float32, (3,))]
    run = "aten::scatter_reduce.two_out"
    index = torch.tensor([0, 3])
    with pytest.raises(OpError, match="index 3 is out of bounds for dimension 0 with size 3"):
        run_op(run, x, 0, index, sample((2,)), "sum", True, out=out)
    with pytest.raises(OpError, match=r"index -1 is out of bounds"):
        run_op("aten::index_reduce.out", x, 0, -index[:1] - 1, x[:1], "prod", True, out=out)
    with pytest.raises(OpError, match=r'reduce: expected .*, got "mean"'):
        run_op(run, x, 0, index[:1], x, "mean", True, out=out)
    with pytest.raises(
        OpError, match="dimension 0: the sizes of index, source and self do not match"
    ):
        run_op(run, x, 0, index[:1].expand(5).contiguous(), x, "sum", True, out=out)
    with pytest.raises(OpError, match="index: expected i32 or i64, got f32"):
        run_op(run, x, 0, x, x, "sum", True, out=out)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_threads_share_what_stays_in_place(dim: int, way: str) -> None:
    """Sums and products of f32 depend on their order."""
    shape = (31, 37, 23)
    index, few = pick(shape, shape[dim]), pick(shape[dim : dim + 1], shape[dim])
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        x = values(shape, dtype, 3)
        for include in (True, False):
            check_op(aten.scatter_reduce.two_out, x, dim, index, x, way, include_self=include)
            if way != "sum":
                check_op(aten.index_reduce.out, x, dim, few, x, way, include_self=include)


def test_an_index_out_of_bounds_among_many_is_named_on_any_number_of_threads() -> None:
    x, index = sample((200, 100)), pick((200, 100), 100)
    index[150, 70] = 100
    for threads in (1, 2, 3):
        with pytest.raises(OpError, match="index 100 is out of bounds for dimension 1"):
            out = [Out(torch.float32, (200, 100))]
            args = (x, 1, index, x, "amax", True)
            run_op("aten::scatter_reduce.two_out", *args, out=out, threads=threads)
