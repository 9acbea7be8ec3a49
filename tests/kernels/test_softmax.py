"""Softmax and log-softmax against eager torch:

every dimension, dtype and layout, long rows, infinities.
"""

from __future__ import annotations

import math

import pytest
import torch
from support.op_driver import OpError, Out, check_op, run_op
from support.tolerance import F32_SOFTMAX, assert_near

ATEN = torch.ops.aten
OPS = [ATEN._softmax.out, ATEN._log_softmax.out]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FUNCTIONS = {OPS[0]: torch.softmax, OPS[1]: torch.log_softmax}
SHAPES = [(7,), (3, 5), (2, 0, 3), (2, 3, 4, 5), (1, 1), (4, 1000), (3, 30, 17), (2, 9, 513)]


def check(op: torch._ops.OpOverload, x: torch.Tensor, dim: int) -> None:
    """Compares with eager in at least f32, rounded once: eager rounds half types between the
    steps."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    check_op(op, x, dim, False, expected=FUNCTIONS[op](wide, dim).to(x.dtype))


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dimension_equals_eager(
    op: torch._ops.OpOverload, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    x = (torch.randn(shape) * 4).to(dtype)
    for dim in range(-len(shape), len(shape)):
        check(op, x, dim)


@pytest.mark.parametrize("op", OPS, ids=str)
def test_zero_dimensional_and_other_layouts_equal_eager(op: torch._ops.OpOverload) -> None:
    check(op, torch.tensor(3.0), 0)
    x = torch.randn(2, 5, 3, 4)
    for layout in (x.to(memory_format=torch.channels_last), x.permute(3, 0, 2, 1)):
        for dim in range(4):
            check(op, layout, dim)


@pytest.mark.parametrize("op", OPS, ids=str)
def test_infinities_and_nan_behave_as_in_eager(op: torch._ops.OpOverload) -> None:
    inf = math.inf
    x = torch.tensor(
        [
            [0.0, -inf, 1.0],
            [inf, 1.0, 2.0],
            [-inf, -inf, -inf],
            [math.nan, 0.0, 1.0],
            [1e4, 0, -1e4],
        ]
    )
    for dtype in DTYPES:
        check(op, x.to(dtype), 1)
        check(op, x.t().contiguous().to(dtype), 0)


def test_integers_and_bad_dimensions_are_refused() -> None:
    with pytest.raises(OpError, match="i32"):
        run_op(
            "aten::_softmax.out",
            torch.ones(3, dtype=torch.int32),
            0,
            False,
            out=[Out(torch.float32, (3,))],
        )
    with pytest.raises(OpError):
        run_op("aten::_softmax.out", torch.ones(3), 1, False, out=[Out(torch.float32, (3,))])


def test_terms_below_the_smallest_normal_number_are_zero() -> None:
    """Masks of -100 leave such terms, whose products would be a hundred times slower."""
    smallest = torch.finfo(torch.float32).tiny
    for n in (6, 200):  # short rows and long ones
        x = torch.tensor([[0.0, -50.0, -88.0, -95.0, -200.0, -math.inf]]).repeat(1, n // 6 + 1)
        out = [Out(x.dtype, tuple(x.shape))]
        (got,) = run_op("aten::_softmax.out", x, -1, False, out=out)
        expected = torch.softmax(x, -1)
        assert torch.equal(got == 0, expected < smallest)
        assert_near(got, expected, F32_SOFTMAX)
