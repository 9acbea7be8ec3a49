"""executorch_py::rms_norm: rows divided by their root mean square, as eager torch computes it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.op_driver import Const, OpError, Out, check_op, isa_limit, isas_and_dots, run_op
from support.tolerance import F32_GROUPWISE, assert_near

from executorch_py.exir.dialects.norm_ops import RMS_NORM

NAME = "executorch_py::rms_norm.out"
OUT = torch.ops.executorch_py.rms_norm.out


@pytest.mark.parametrize(
    "shape", [(1,), (0, 8), (7,), (3, 16), (2, 5, 64), (1, 1, 4099), (300, 40), (2, 3, 4, 80)]
)
@pytest.mark.parametrize("has_weight", [True, False])
def test_rows_are_divided_by_their_root_mean_square(
    shape: tuple[int, ...], has_weight: bool
) -> None:
    g = torch.Generator().manual_seed(sum(shape))
    x = 3 * torch.randn(shape, generator=g)
    weight = torch.randn(shape[-1], generator=g) if has_weight else None
    wanted = torch.nn.functional.rms_norm(x, shape[-1:], weight, 1e-6)
    expected = wanted.reshape(shape)
    operand = None if weight is None else Const(weight)
    check_op(OUT, x, operand, 1e-6, expected=expected)
    first = None
    for isa in isas_and_dots():
        with isa_limit(isa):
            (got,) = run_op(NAME, x, operand, 1e-6, out=[Out(torch.float32, shape)], threads=2)
        assert_near(got, expected, F32_GROUPWISE)
        first = got if first is None else first
        assert torch.equal(got, first), isa


def test_a_row_of_zeros_stays_zero_and_nan_stays_in_its_row() -> None:
    x = torch.zeros(3, 8)
    x[1, 2] = torch.nan
    (got,) = run_op(NAME, x, None, 1e-6, out=[Out(torch.float32, (3, 8))])
    assert torch.equal(got[::2], x[::2]) and got[1].isnan().all()
    assert RMS_NORM(x, None, 1e-6)[1].isnan().all()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((torch.ones(2, 4).long(), None, 1e-6), "input: expected contiguous rows of f32, got i64"),
        ((torch.ones(()), None, 1e-6), "input: expected contiguous rows of f32, got f32 of rank 0"),
        ((torch.ones(2, 4), torch.ones(3), 1e-6), "weight: expected 4 contiguous elements of f32"),
        ((torch.ones(2, 4), torch.ones(4).half(), 1e-6), "got 4 of f16"),
    ],
)
def test_what_does_not_fit_is_refused(args: Any, words: str) -> None:
    with pytest.raises(OpError, match=words):
        run_op(NAME, *args, out=[Out(torch.float32, tuple(args[0].shape))])
