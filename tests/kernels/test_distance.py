"""Distances between rows, and conjugates, against eager torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.element_samples import COMPLEX, laid_out, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
CONJUGATED = [*COMPLEX, torch.float32, torch.float16, torch.int64, torch.bool]
POWERS = [0.0, 1.0, 2.0, 3.0, 0.5, 1.7, math.inf]
CDIST_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((5, 3), (7, 3)),
    ((1, 1), (1, 1)),
    ((2, 5, 300), (2, 3, 300)),
    ((3, 1, 4, 2), (2, 5, 2)),
    ((4, 0), (3, 0)),
    ((0, 3), (2, 3)),
]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("shapes", CDIST_SHAPES, ids=str)
def test_cdist_equals_eager(shapes: Any, p: float, dtype: torch.dtype) -> None:
    a, b = (torch.randn(s).to(dtype) for s in shapes)
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide = [t.double().expand(*lead, *t.shape[-2:]).contiguous() for t in (a, b)]
    expected = torch.cdist(*wide, p, "donot_use_mm_for_euclid_dist").to(dtype)
    check_op(aten._cdist_forward.out, a, b, p, None, expected=expected, scale=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("shape", [(6, 5), (2, 300), (1, 3), (0, 3), (4, 0)], ids=str)
def test_pdist_equals_eager(shape: Any, p: float, dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)
    expected = aten._pdist_forward(x.double(), p).to(dtype)
    check_op(aten._pdist_forward.out, x, p, expected=expected, scale=4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_distances_of_halves_are_rounded_once(dtype: torch.dtype) -> None:
    a, b = torch.randn(4, 9).to(dtype), torch.randn(5, 9).to(dtype)
    for p in (1.0, 2.0, 3.0):
        expected = torch.cdist(a.double(), b.double(), p).to(dtype)
        check_op(aten._cdist_forward.out, a, b, p, None, expected=expected)
        check_op(aten._pdist_forward.out, a, p, expected=torch.pdist(a.double(), p).to(dtype))


def test_distances_take_any_layout() -> None:
    a, b = torch.randn(3, 4, 5), torch.randn(3, 6, 5)
    expected = torch.cdist(a, b)
    for order in ((2, 1, 0), (1, 0, 2)):
        given = (laid_out(a, order), laid_out(b, order))
        check_op(
            aten._cdist_forward.out, *given, 2.0, None, expected=expected, out_order=order, scale=4
        )
    x = a[0]
    check_op(aten._pdist_forward.out, laid_out(x, (1, 0)), 2.0, expected=torch.pdist(x), scale=4)


def test_differences_that_are_no_numbers_make_counts_that_are_none() -> None:
    x = torch.tensor([[1.0, math.inf], [math.nan, 0.0], [0.0, 0.0], [1.0, -math.inf]])
    check_op(aten._cdist_forward.out, x, x, 0.0, None)
    check_op(aten._pdist_forward.out, x, 0.0)


def test_wrong_distances_are_refused_with_words() -> None:
    x, out = torch.ones(2, 3), [Out(torch.float32, (2, 2))]
    with pytest.raises(OpError, match="rows of 3 and 4 elements"):
        run_op("aten::_cdist_forward.out", x, torch.ones(2, 4), 2.0, None, out=out)
    with pytest.raises(OpError, match="cdist: p: expected 0 or more, got -1"):
        run_op("aten::_cdist_forward.out", x, x, -1.0, None, out=out)
    with pytest.raises(OpError, match="expected one floating-point type, got input f64, out f32"):
        run_op("aten::_cdist_forward.out", x.double(), x.double(), 2.0, None, out=out)
    with pytest.raises(OpError, match="input: expected rank 2, got 3"):
        run_op("aten::_pdist_forward.out", x[None], 2.0, out=out)


@pytest.mark.parametrize("dtype", CONJUGATED, ids=str)
def test_conjugates_equal_eager(dtype: torch.dtype) -> None:
    for x in (sample((2, 3, 5), dtype), sample((), dtype), sample((0, 2), dtype)):
        expected = torch.conj(x).resolve_conj().clone()
        check_op(aten._conj_physical.out, x, expected=expected)
    x = laid_out(sample((2, 3, 5), dtype), (2, 0, 1))
    expected = torch.conj(x).resolve_conj().clone()
    check_op(aten._conj_physical.out, x, expected=expected, out_order=(0, 1, 2))
