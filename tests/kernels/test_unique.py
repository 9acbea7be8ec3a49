"""Distinct elements and slices against eager torch: types, layouts, NaN, counts, sources, and
results with less planned memory than elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.element_samples import REAL, laid_out, orders, sample
from support.op_driver import OpError, Out, run_op
from support.tolerance import EXACT, assert_near

A = torch.ops.aten


def tied(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    mixed = sample(shape, torch.int64) * 7919 % 11
    return (mixed % 2 == 0) if dtype == torch.bool else (mixed - 5 * dtype.is_signed).to(dtype)


def check(
    op: Any, x: torch.Tensor, *args: Any, room: Sequence[int] | None = None, dim: bool = False
) -> None:
    """Runs with outputs as large as the input, or as `room`, and compares with eager."""
    want = op(x, *args)
    n = x.shape[0] if dim else x.numel()
    sizes = [x.shape if dim else (n,), want[1].shape, (n if want[2].numel() else 0,)]
    if room is not None:
        sizes[0] = room
    dtypes = (x.dtype, torch.int64, torch.int64)
    outs = [Out(d, tuple(s)) for d, s in zip(dtypes, sizes, strict=True)]
    name = f"{op._schema.name}.out"
    for threads, prepared in ((1, False), (3, True)):
        got = run_op(name, x, *args, out=outs, prepared=prepared, threads=threads)
        for g, w in zip(got, want, strict=True):
            assert_near(g, w, EXACT, equal_nan=True, check_stride=False)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_distinct_elements_equal_eager(dtype: torch.dtype) -> None:
    for shape in ((), (1,), (7,), (40,), (3, 5), (2, 3, 4), (0,), (3, 0)):
        for order, inverse, counts in itertools.product(
            orders(len(shape)), (False, True), (False, True)
        ):
            x = tied(shape, dtype)
            x = laid_out(x, order) if shape else x
            check(A._unique2.default, x, True, inverse, counts)
            check(A.unique_consecutive.default, x, inverse, counts, None)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_distinct_slices_equal_eager(dtype: torch.dtype) -> None:
    for shape in ((9, 1), (30, 2), (8, 2, 1), (5,)):
        for order in orders(len(shape)):
            x = laid_out(tied(shape, dtype) > 1, order).to(dtype)
            check(A.unique_dim.default, x, 0, True, True, True, dim=True)
            check(A.unique_consecutive.default, x, True, True, 0, dim=True)
            check(A.unique_dim.default, x, 0, True, False, False, dim=True)
            check(A.unique_consecutive.default, x, False, False, 0, dim=True)


def test_every_nan_stays() -> None:
    nan = float("nan")
    for dtype in (torch.float16, torch.float32, torch.float64):
        x = torch.tensor([nan, 1.0, nan, 2.0, 1.0, nan, nan], dtype=dtype)
        check(A._unique2.default, x, True, True, True)
        check(A._unique2.default, x, True, True, True, room=(6,))
        check(A.unique_consecutive.default, x, True, True, None)


def test_a_planned_bound_below_the_number_of_elements_is_enough() -> None:
    x = tied((50, 4), torch.int32)
    distinct = int(torch.unique(x).numel())
    check(A._unique2.default, x, True, True, True, room=(distinct,))
    check(A.unique_consecutive.default, x.flatten().sort()[0], True, True, None, room=(distinct,))
    pairs = x[:, :1] % 2
    check(A.unique_dim.default, pairs, 0, True, True, True, room=(2, 1), dim=True)
    outs = [Out(torch.int32, (distinct - 1,)), Out(torch.int64, (0,)), Out(torch.int64, (0,))]
    with pytest.raises(OpError, match=f"expected at most {distinct - 1} distinct elements"):
        run_op("aten::_unique2.out", x, True, False, False, out=outs)


def test_many_elements_are_told_apart_with_and_without_room() -> None:
    generator = torch.Generator().manual_seed(7)
    for dtype, most in ((torch.int64, 10**12), (torch.float32, 900), (torch.int16, 700)):
        x = torch.randint(-most, most, (37, 41), generator=generator).to(dtype)
        x = torch.cat([x, x[:20]])
        if dtype.is_floating_point:
            x[::5, 4] = -0.0
        distinct = A._unique2(x)[0].numel()
        for room in (None, (distinct,), (distinct + 1,), (distinct + 100,)):
            for y in (x, laid_out(x, [1, 0])):
                check(A._unique2.default, y, True, True, True, room=room)
        many = A.unique_consecutive(x)[0].numel()
        check(A.unique_consecutive.default, x, True, True, None, room=(many,))
        check(A.unique_consecutive.default, x.flatten().sort()[0], True, True, None)
    x = torch.tensor([float("nan"), 2.0, 1.0, 2.0, float("nan")] * 300)
    for planned in (1500, 602):
        outs = [Out(x.dtype, (planned,)), Out(torch.int64, (1500,)), Out(torch.int64, (planned,))]
        for prepared in (False, True):
            got = run_op("aten::_unique2.out", x, True, True, True, out=outs, prepared=prepared)
            assert got[0][:2].tolist() == [1, 2] and got[0][2:].isnan().all()
            assert got[1].view(-1, 5)[:, 1:4].unique(dim=0).tolist() == [[1, 0, 1]]
            assert got[1].view(-1, 5)[:, [0, 4]].flatten().tolist() == list(range(2, 602))
            assert got[2].tolist() == [300, 600] + [1] * 600
    slices = torch.randint(0, 3, (600, 5), generator=generator)
    for y in (slices, laid_out(slices, [1, 0]), (slices / 2).to(torch.bfloat16)):
        check(A.unique_dim.default, y, 0, True, True, True, dim=True)
        check(A.unique_dim.default, y, 0, True, True, True, room=(243, 5), dim=True)


def test_wrong_arguments_are_refused_with_words() -> None:
    x = tied((3, 4), torch.float32)
    outs = [Out(torch.float32, (3, 4)), Out(torch.int64, (4,)), Out(torch.int64, (4,))]
    with pytest.raises(OpError, match="expected dimension 0, got 1 of a tensor of rank 2"):
        run_op("aten::unique_dim.out", x, 1, True, True, True, out=outs)
    with pytest.raises(OpError, match=r"result: expected .*, got \[1, 0\]; export again without"):
        other = [Out(torch.float32, (3, 4), (1, 0)), *outs[1:]]
        run_op("aten::unique_dim.out", x, 0, True, True, True, out=other)
    with pytest.raises(OpError, match="c64 has no order"):
        z = torch.ones(3, dtype=torch.complex64)
        run_op("aten::_unique2.out", z, True, False, False, out=[Out(z.dtype, (3,)), *outs[1:]])
    with pytest.raises(OpError, match="inverse and counts: expected i64, got i64 and i32"):
        wrong = [outs[0], outs[1], Out(torch.int32, (3,))]
        run_op("aten::_unique2.out", x, True, True, True, out=wrong)
