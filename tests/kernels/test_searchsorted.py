"""searchsorted against eager torch: sides, sorters, types on both sides, rows, NaN, empties."""

from __future__ import annotations

import itertools

import pytest
import torch
from support.element_samples import REAL, laid_out, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
SEARCH, SEARCH_NUMBER = aten.searchsorted.Tensor_out, aten.searchsorted.Scalar_out
TYPES = [d for d in REAL if d != torch.bool]


def boundaries(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Sorted rows with repeats."""
    return (sample(shape, torch.int64) // 2 % 100).sort(-1).values.to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_pair_of_types_finds_what_eager_finds(dtype: torch.dtype) -> None:
    bounds = boundaries((23,), dtype)
    for other, right in itertools.product(TYPES, (False, True)):
        x = (sample((4, 7), torch.int64) * 3 % 40).to(other)
        check_op(SEARCH, bounds, x, right=right)
    for number, right in itertools.product((3, 2.5, -1, 1000), (False, True)):
        check_op(SEARCH_NUMBER, bounds, number, right=right)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0,), (3, 0)], ids=str)
def test_rows_are_searched_by_rows(shape: tuple[int, ...]) -> None:
    bounds = boundaries(shape, torch.float32)
    x = (sample((*shape[:-1], 4), torch.float32) * 1.5) % 9
    order = list(range(x.dim()))[::-1]
    for side, narrow in itertools.product(("left", "right"), (False, True)):
        want = torch.searchsorted(bounds, x, side=side, out_int32=narrow)
        for values in (x, laid_out(x, order)):
            check_op(SEARCH, bounds, values, side=side, out_int32=narrow, expected=want)


def test_a_sorter_orders_the_boundaries() -> None:
    unsorted = sample((3, 11), torch.int64) * 7919 % 17
    sorter = unsorted.sort(-1).indices
    check_op(SEARCH, unsorted, sample((3, 5), torch.int64), sorter=sorter)
    with pytest.raises(OpError, match="sorter: index 11 is outside"):
        run_op(
            "aten::searchsorted.Tensor_out",
            unsorted,
            sample((3, 5), torch.int64),
            False,
            False,
            None,
            torch.full_like(sorter, 11),
            out=[Out(torch.int64, (3, 5))],
        )


def test_nan_lies_behind_everything() -> None:
    nan = float("nan")
    bounds = torch.tensor([1.0, 2.0, float("inf"), nan, nan])
    x = torch.tensor([nan, float("inf"), -float("inf"), 2.0])
    for right in (False, True):
        check_op(SEARCH, bounds, x, right=right)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int16], ids=str)
def test_many_values_are_found_in_boundaries_of_any_number(dtype: torch.dtype) -> None:
    """Enough values for every thread, and no whole number of blocks."""
    for n in (0, 1, 2, 3, 6, 7, 8, 61):
        bounds = boundaries((n,), dtype)
        x = (sample((101, 53), torch.int64) * 7919 % 131 - 20).to(dtype)
        for right in (False, True):
            check_op(SEARCH, bounds, x, right=right)
            check_op(SEARCH, bounds.expand(101, n).contiguous(), x, right=right)


def test_wrong_arguments_are_refused_with_words() -> None:
    x, out = sample((3,)), [Out(torch.int64, (3,))]
    name = "aten::searchsorted.Tensor_out"
    with pytest.raises(OpError, match='side: expected "left" or "right", got "middle"'):
        run_op(name, x, x, False, False, "middle", None, out=out)
    with pytest.raises(OpError, match="out: expected i64 or i32, got f32"):
        run_op(name, x, x, False, False, None, None, out=[Out(torch.float32, (3,))])
    with pytest.raises(OpError, match=r"values: expected shape \[2, 3\], as .*, got f32\[3\]"):
        run_op(name, sample((2, 3)), x, False, False, None, None, out=out)
    with pytest.raises(OpError, match=r"values: expected shape \[2, 3\], .*, got a number"):
        number = "aten::searchsorted.Scalar_out"
        run_op(number, sample((2, 3)), 1.0, False, False, None, None, out=[Out(torch.int64, ())])
    with pytest.raises(OpError, match=r"sorter: expected i64\[3\], .*, got i32\[3\]"):
        run_op(name, x, x, False, False, None, torch.arange(3).int(), out=out)
    with pytest.raises(OpError, match="boundaries: expected rank 1 or more, got 0"):
        run_op(name, torch.tensor(1.0), x, False, False, None, None, out=out)
