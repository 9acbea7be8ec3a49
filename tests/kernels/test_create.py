"""Creation operators against eager torch:

every dtype, empty and 0-d shapes, numbers as elements, arange's rounding.
"""

from __future__ import annotations

import math

import pytest
import torch
from support.op_driver import OpError, Out, check_op, run_op

ATEN = torch.ops.aten
DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
]
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3, 4), (1, 70001)]
VALUES = [0, 1, -3, 2.75, True]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_full_zeros_ones_and_their_kin_equal_eager(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    like = torch.zeros(shape, dtype=dtype)
    for value in VALUES:
        if value == -3 and dtype == torch.uint8:
            continue
        expected = torch.full(shape, value, dtype=dtype)
        check_op(ATEN.full.out, list(shape), value, expected=expected)
        check_op(ATEN.full_like.out, like, value, expected=expected)
        check_op(ATEN.fill.Scalar_out, like, value, expected=expected)
        check_op(ATEN.fill.Tensor_out, like, torch.tensor(value), expected=expected)
    check_op(ATEN.zeros.out, list(shape), expected=like)
    check_op(ATEN.ones.out, list(shape), expected=torch.ones(shape, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scalar_tensor_equals_eager(dtype: torch.dtype) -> None:
    for value in (0, 7, 2.5, True, math.inf if dtype.is_floating_point else 1):
        check_op(ATEN.scalar_tensor.out, value, expected=torch.scalar_tensor(value, dtype=dtype))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (0, 10, 1),
        (5, -6, -3),
        (2, 2, 1),
        (0.5, 3.0, 0.25),
        (0, 1, 0.1),
        (-3, 4.5, 2),
        (2**40, 2**40 + 5, 2),
        (0, 1000, 1),
    ],
)
def test_arange_equals_eager(start: float, end: float, step: float) -> None:
    whole = all(isinstance(v, int) for v in (start, end, step))
    for dtype in [torch.int64, torch.float64] if abs(start) > 2**30 else DTYPES:
        if dtype == torch.bool or (dtype == torch.uint8 and (step < 0 or start < 0)):
            continue
        if not whole and not dtype.is_floating_point:
            continue
        if whole and end == 1000 and dtype in (torch.uint8, torch.int8):
            continue
        expected = torch.arange(start, end, step, dtype=dtype)
        check_op(ATEN.arange.start_out, start, end, step, expected=expected)


def test_arange_end_equals_eager() -> None:
    check_op(ATEN.arange.out, 7, expected=torch.arange(7))
    check_op(ATEN.arange.out, 3.5, expected=torch.arange(3.5))
    check_op(ATEN.arange.out, 0, expected=torch.arange(0))


@pytest.mark.parametrize(
    ("start", "end", "step", "words"),
    [
        (0, 5, 0, "arange: step: expected other than 0, got 0"),
        (0, 5, -1, "arange: a step of -1 leads away from the end, from 0 to 5"),
        (0, math.inf, 1, "arange: from 0 to inf in steps of 1 has no finite length"),
        (0, 2**40, 1, "too many"),
    ],
)
def test_arange_without_a_length_is_refused(
    start: float, end: float, step: float, words: str
) -> None:
    with pytest.raises(OpError, match=words):
        run_op("aten::arange.start_out", start, end, step, out=[Out(torch.float32, (8,))])


def test_sizes_out_of_range_are_refused() -> None:
    for size in (-1, 2**31):
        with pytest.raises(OpError):
            run_op("aten::full.out", [size], 1, out=[Out(torch.float32, (8,))])
    with pytest.raises(OpError, match=r"capacity|static|elements"):
        run_op("aten::full.out", [9], 1, out=[Out(torch.float32, (8,))])
