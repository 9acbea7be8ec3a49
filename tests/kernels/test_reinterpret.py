"""Views of bytes as another type against eager torch: every pair of sizes, layouts, shapes."""

from __future__ import annotations

import itertools

import pytest
import torch
from support.element_samples import ONE_PER_SIZE, laid_out, orders, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
SHAPES: list[tuple[int, ...]] = [(16,), (3, 16), (2, 3, 32), (0, 16)]


@pytest.mark.parametrize("dtype", ONE_PER_SIZE, ids=str)
def test_any_type_is_seen_as_any_other(dtype: torch.dtype) -> None:
    for other, shape in itertools.product(ONE_PER_SIZE, SHAPES):
        want = sample(shape, dtype).view(other)
        for order, out_order in itertools.product(orders(len(shape)), orders(len(shape))):
            x = sample(shape, dtype, order)
            check_op(aten.view_copy.dtype_out, x, other, expected=want, out_order=out_order)
    for other in (d for d in ONE_PER_SIZE if d.itemsize == dtype.itemsize):
        check_op(aten.view_copy.dtype_out, sample((), dtype), other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_pairs_become_complex_numbers(dtype: torch.dtype) -> None:
    for shape in ((2,), (5, 2), (3, 4, 2), (0, 2)):
        want = torch.view_as_complex(sample(shape, dtype))
        for order in orders(len(shape)):
            for out_order in orders(len(shape) - 1):
                x = laid_out(sample(shape, dtype), order)
                check_op(aten.view_as_complex_copy.out, x, expected=want, out_order=out_order)


def test_wrong_arguments_are_refused_with_words() -> None:
    i8 = torch.int8
    with pytest.raises(OpError, match="expected a last dimension of a multiple of 4, got 5"):
        x = sample((3, 5), i8)
        run_op("aten::view_copy.dtype_out", x, torch.float32, out=[Out(torch.float32, (3, 1))])
    with pytest.raises(OpError, match=r"self: expected rank 1 to .*, got 0"):
        x = sample((), torch.float32)
        run_op("aten::view_copy.dtype_out", x, i8, out=[Out(i8, ())])
    with pytest.raises(OpError, match="expected a last dimension of size 2, got 3 of rank 1"):
        run_op("aten::view_as_complex_copy.out", sample((3,)), out=[Out(torch.complex64, ())])
    with pytest.raises(OpError, match="view_as_complex: not defined from f32 to c128"):
        run_op("aten::view_as_complex_copy.out", sample((2,)), out=[Out(torch.complex128, ())])
