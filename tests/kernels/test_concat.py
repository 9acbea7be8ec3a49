"""Operators that rearrange whole tensors, against eager torch: concatenation, flips, rolls, pixel
shuffles."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support.element_samples import ALL, ONE_PER_SIZE, orders, sample
from support.op_driver import OpError, Out, Tensors, check_op, run_op

aten = torch.ops.aten

CATS: list[tuple[list[tuple[int, ...]], int]] = [
    ([(3,)], 0),
    ([(3,), (4,), (1,)], 0),
    ([(2, 3), (4, 3)], 0),
    ([(2, 3), (2, 1), (2, 5)], -1),
    ([(2, 3, 4), (2, 5, 4)], 1),
    ([(2, 3, 4, 5), (2, 1, 4, 5), (2, 2, 4, 5)], -3),
    ([(2, 3), (0,), (1, 3)], 0),
    ([(0,), (0,)], 0),
    ([(0, 3), (2, 3)], -2),
    ([(2, 0), (2, 0)], 0),
    ([(1, 40, 30), (1, 41, 30)], 1),
]


@pytest.mark.parametrize("shapes, dim", CATS, ids=str)
def test_cat_equals_eager_in_every_dim_order(shapes: list[tuple[int, ...]], dim: int) -> None:
    rank = max(len(s) for s in shapes)
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(rank)):
        xs = [sample(s, dtype, order if len(s) == rank else None) for s in shapes]
        xs[-1] = sample(shapes[-1], dtype)  # the last keeps the plain order
        expected = torch.cat([x.contiguous() for x in xs], dim)
        for out_order in orders(rank):
            check_op(aten.cat.out, xs, dim, expected=expected, out_order=out_order)


PAIRS = [
    (torch.float32, torch.int64),
    (torch.int32, torch.uint8),
    (torch.bool, torch.int8),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.int32),
    (torch.float32, torch.complex64),
]


@pytest.mark.parametrize("a, b", PAIRS, ids=str)
def test_cat_and_stack_promote_element_types(a: torch.dtype, b: torch.dtype) -> None:
    for order in orders(3):
        xs = [sample((2, 3, 4), a, order), sample((2, 3, 4), b), sample((2, 3, 4), a)]
        expected = torch.cat([x.contiguous() for x in xs], 1)
        check_op(aten.cat.out, xs, 1, expected=expected)
        check_op(aten.stack.out, xs, 2, expected=torch.stack([x.contiguous() for x in xs], 2))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type_is_rearranged(dtype: torch.dtype) -> None:
    x = sample((4, 4, 6), dtype)
    # Eager torch rearranges no uint16 … uint64; the same bytes as signed integers do.
    signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
    cases: list[tuple[Any, list[Any]]] = [
        (aten.roll.out, [[1, -2], [0, 2]]),
        (aten.flip.out, [[0, 2]]),
        (aten.pixel_shuffle.out, [2]),
        (aten.tril.out, [-1]),
    ]
    for op, args in cases:
        expected = op.overloadpacket(x.view(signed.get(dtype, dtype)), *args).view(dtype)
        check_op(op, x, *args, expected=expected)
    check_op(aten.cat.out, [x, x], 1)
    check_op(aten.stack.out, [x, x], 0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)], ids=str)
def test_stack_equals_eager(shape: tuple[int, ...]) -> None:
    for dim in range(-len(shape) - 1, len(shape) + 1):
        for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
            xs = [sample(shape, dtype, order), sample(shape, dtype), sample(shape, dtype, order)]
            expected = torch.stack([x.contiguous() for x in xs], dim)
            for out_order in orders(len(shape) + 1):
                check_op(aten.stack.out, xs, dim, expected=expected, out_order=out_order)


# operator, shape, other arguments
CASES: list[tuple[Any, tuple[int, ...], list[Any]]] = [
    (aten.flip.out, (), [[]]),
    (aten.flip.out, (5,), [[0]]),
    (aten.flip.out, (37,), [[0]]),
    (aten.flip.out, (3, 4), [[1]]),
    (aten.flip.out, (2, 67), [[1]]),
    (aten.flip.out, (3, 4, 5), [[0, -1]]),
    (aten.flip.out, (3, 0), [[0, 1]]),
    (aten.flip.out, (3, 4, 5), [[]]),
    (aten.roll.out, (7,), [[2]]),
    (aten.roll.out, (7,), [[-9], [0]]),
    (aten.roll.out, (3, 4), [[5]]),
    (aten.roll.out, (3, 4, 5), [[1, -1], [0, 2]]),
    (aten.roll.out, (3, 4, 5), [[1, 2, 3], [0, 1, -1]]),
    (aten.roll.out, (3, 4), [[1, 1], [0, 0]]),
    (aten.roll.out, (3, 4), [[0], [1]]),
    (aten.roll.out, (3, 0), [[1], [0]]),
    (aten.roll.out, (3, 4), [[9223372036854775807], [1]]),
    (aten.tril.out, (4, 4), []),
    (aten.tril.out, (4, 6), [2]),
    (aten.tril.out, (6, 4), [-2]),
    (aten.tril.out, (4, 4), [100]),
    (aten.tril.out, (4, 4), [-100]),
    (aten.tril.out, (2, 3, 5, 4), [1]),
    (aten.tril.out, (2, 0, 4), [1]),
    (aten.tril.out, (2**31 - 1, 0), [1]),  # billions of rows, all empty
    (aten.pixel_shuffle.out, (8, 3, 5), [2]),
    (aten.pixel_shuffle.out, (2, 18, 3, 2), [3]),
    (aten.pixel_shuffle.out, (2, 3, 4, 5), [1]),
    (aten.pixel_shuffle.out, (2, 2, 4, 3, 2), [2]),
    (aten.pixel_shuffle.out, (0, 4, 3, 2), [2]),
    (aten.pixel_unshuffle.out, (2, 6, 4), [2]),
    (aten.pixel_unshuffle.out, (2, 3, 6, 9), [3]),
    (aten.pixel_unshuffle.out, (1, 3, 4, 5), [1]),
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"{c[0].overloadpacket.__name__}-{c[1]}-{c[2]}"
)
def test_rearrangements_equal_eager(case: tuple[Any, tuple[int, ...], list[Any]]) -> None:
    op, shape, args = case
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
        x = sample(shape, dtype, order)
        expected = op.overloadpacket(x.contiguous(), *args)
        for out_order in orders(expected.dim()):
            check_op(op, x, *args, expected=expected, out_order=out_order)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_repeat_interleave_counts_positions(dtype: torch.dtype) -> None:
    for counts in ([], [3], [0, 0], [1, 0, 4, 2], [5] * 9):
        repeats = torch.tensor(counts, dtype=dtype)
        check_op(aten.repeat_interleave.Tensor_out, repeats)
        check_op(aten.repeat_interleave.Tensor_out, repeats, output_size=sum(counts))


F32 = torch.float32
x23, x34 = sample((2, 3)), sample((3, 4))
REFUSED: list[tuple[str, list[Any], Out, str]] = [
    (
        "aten::cat.out",
        [Tensors([]), 0],
        Out(F32, (2, 3)),
        "expected 1 tensor or more, got none",
    ),
    (
        "aten::cat.out",
        [Tensors([x23, x34]), 0],
        Out(F32, (5, 3)),
        r"cat: tensor 1: expected shape \[2, 3\] except in dimension 0, got \[3, 4\]",
    ),
    (
        "aten::cat.out",
        [Tensors([x23, sample((3,))]), 0],
        Out(F32, (5, 3)),
        r"cat: tensor 1: expected shape \[2, 3\] except in dimension 0, got \[3\]",
    ),
    (
        "aten::cat.out",
        [Tensors([sample(()), x23]), 0],
        Out(F32, (5, 3)),
        "cat: tensor 0: expected rank 1 or more, got 0",
    ),
    (
        "aten::cat.out",
        [Tensors([x23, x23]), 2],
        Out(F32, (5, 3)),
        "expected a dimension of a tensor of rank 2, got 2",
    ),
    ("aten::cat.out", [Tensors([x23, x23]), 0], Out(torch.int32, (4, 3)), "f32"),
    ("aten::cat.out", [Tensors([x23, x23]), 0], Out(F32, (3, 3)), "out: "),
    (
        "aten::stack.out",
        [Tensors([x23, x34]), 0],
        Out(F32, (2, 2, 3)),
        r"stack: tensor 1: expected shape \[2, 3\], as tensor 0, got \[3, 4\]",
    ),
    (
        "aten::stack.out",
        [Tensors([x23]), 3],
        Out(F32, (1, 2, 3)),
        "expected a dimension of a tensor of rank 3, got 3",
    ),
    ("aten::flip.out", [x23, [0, -2]], Out(F32, (2, 3)), "twice"),
    (
        "aten::roll.out",
        [x23, [1, 2], [0]],
        Out(F32, (2, 3)),
        "roll: expected as many shifts as dimensions, got 2 and 1",
    ),
    (
        "aten::roll.out",
        [x23, [1], [2]],
        Out(F32, (2, 3)),
        "expected a dimension of a tensor of rank 2, got 2",
    ),
    ("aten::tril.out", [sample((3,)), 0], Out(F32, (3,)), "tril: expected rank 2 or more, got 1"),
    (
        "aten::pixel_shuffle.out",
        [sample((3, 2, 2)), 2],
        Out(F32, (1, 4, 4)),
        "pixel_shuffle: expected a multiple of 2 squared channels, got 3",
    ),
    (
        "aten::pixel_shuffle.out",
        [sample((4, 2, 2)), 0],
        Out(F32, (1, 4, 4)),
        "pixel shuffle: factor: expected 1 or more, got 0",
    ),
    (
        "aten::pixel_shuffle.out",
        [sample((4, 2)), 2],
        Out(F32, (1, 4, 4)),
        "pixel shuffle: expected rank 3 or more, got 2",
    ),
    (
        "aten::pixel_unshuffle.out",
        [sample((1, 3, 4)), 2],
        Out(F32, (4, 1, 2)),
        "pixel_unshuffle: expected multiples of 2 as height and width, got 3 and 4",
    ),
    (
        "aten::repeat_interleave.Tensor_out",
        [torch.tensor([1, -1]), None],
        Out(torch.int64, (2,)),
        r"repeat_interleave: repeats\[1\]: expected 0 to 2147483646, got -1",
    ),
    (
        "aten::repeat_interleave.Tensor_out",
        [torch.tensor([2**62] * 4), None],
        Out(torch.int64, (2,)),
        r"repeats\[0\]",
    ),
    (
        "aten::repeat_interleave.Tensor_out",
        [torch.tensor([1, 1]), 3],
        Out(torch.int64, (2,)),
        "repeat_interleave: output_size: expected 2, the sum of repeats, got 3",
    ),
    (
        "aten::repeat_interleave.Tensor_out",
        [torch.tensor([[1]]), None],
        Out(torch.int64, (2,)),
        "rank 2",
    ),
]


@pytest.mark.parametrize("name, args, out, words", REFUSED)
def test_wrong_arguments_are_refused_with_words(
    name: str, args: list[Any], out: Out, words: str
) -> None:
    for prepared in (False, True):
        with pytest.raises(OpError, match=words):
            run_op(name, *args, out=[out], prepared=prepared)
