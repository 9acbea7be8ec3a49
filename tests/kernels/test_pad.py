"""Padding operators against eager torch: constants, mirror images, edges, crops, every layout."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support.element_samples import COMPLEX, ONE_PER_SIZE, REAL, orders, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten

CONSTANT: list[tuple[tuple[int, ...], list[int]]] = [
    ((4,), [1, 2]),
    ((4,), [0, 0]),
    ((4,), []),
    ((4,), [-1, 3]),
    ((4,), [-2, -2]),
    ((3, 4), [1, 0]),
    ((3, 4), [1, 2, 3, 0]),
    ((2, 3, 4, 5), [1, 1, 2, 2]),
    ((2, 3, 4, 5), [-1, 2, 1, -2]),
    ((2, 3, 4), [1, 1, 0, 2, 1, 0]),
    ((0, 3), [1, 1, 2, 0]),
    ((), []),
]


@pytest.mark.parametrize("shape, pad", CONSTANT, ids=str)
def test_constant_padding_equals_eager(shape: tuple[int, ...], pad: list[int]) -> None:
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
        x = sample(shape, dtype, order)
        expected = torch.constant_pad_nd(x.contiguous(), pad, 7)
        for out_order in orders(len(shape)):
            check_op(aten.constant_pad_nd.out, x, pad, 7, expected=expected, out_order=out_order)


@pytest.mark.parametrize("dtype", REAL + COMPLEX, ids=str)
def test_the_constant_is_stored_in_the_element_type(dtype: torch.dtype) -> None:
    values: list[Any] = [0, 3, True]
    if dtype.is_floating_point:
        values += [-1.5, float("inf"), float("-inf"), float("nan")]
    for value in values:
        check_op(aten.constant_pad_nd.out, sample((3, 5), dtype), [2, 1], value)


EDGES: list[tuple[int, tuple[int, ...], list[int]]] = [
    (1, (2, 5), [1, 2]),
    (1, (2, 3, 5), [4, 4]),
    (1, (2, 3, 5), [0, 0]),
    (1, (2, 5), [-1, 2]),
    (1, (2, 5), [2, -3]),
    (2, (2, 4, 5), [1, 2, 3, 0]),
    (2, (2, 3, 4, 5), [4, 1, 1, 3]),
    (2, (2, 3, 4, 5), [-1, 2, 1, -1]),
    (2, (0, 3, 4, 5), [1, 1, 1, 1]),
    (3, (2, 3, 4, 5), [1, 2, 3, 0, 1, 2]),
    (3, (1, 2, 3, 4, 5), [1, 1, 1, 1, 1, 1]),
]


@pytest.mark.parametrize("rule", ["reflection", "replication"])
@pytest.mark.parametrize("n, shape, pad", EDGES, ids=str)
def test_edges_equal_eager(rule: str, n: int, shape: tuple[int, ...], pad: list[int]) -> None:
    op = getattr(aten, f"{rule}_pad{n}d").out
    x = sample(shape, torch.float64)
    expected = op.overloadpacket(x, pad)
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
        # Values are small integers, so padding commutes with the conversion to any element type.
        want = sample(shape, torch.int64).double()
        want = op.overloadpacket(want, pad)
        assert torch.equal(want, expected)
        y = sample(shape, dtype, order)
        numbers = op.overloadpacket(torch.arange(x.numel()).double().reshape(shape), pad).long()
        check_op(op, y, pad, expected=y.contiguous().flatten()[numbers], out_order=order)


def test_replication_repeats_an_edge_as_often_as_asked() -> None:
    check_op(aten.replication_pad1d.out, sample((2, 1)), [9, 7])


x23 = sample((2, 3))
REFUSED: list[tuple[str, list[Any], tuple[int, ...], str]] = [
    ("aten::constant_pad_nd.out", [x23, [1], 0], (2, 4), "got 1 for a tensor of rank 2"),
    ("aten::constant_pad_nd.out", [x23, [1] * 6, 0], (2, 4), "got 6 for a tensor of rank 2"),
    ("aten::constant_pad_nd.out", [x23, [-2, -2], 0], (2, 4), "-2 and -2 for dimension 1"),
    ("aten::constant_pad_nd.out", [x23, [2**62, 2**62], 0], (2, 4), "for dimension 1 of size 3"),
    (
        "aten::constant_pad_nd.out",
        [x23, [2**31 - 1, 5], 0],
        (2, 4),
        "expected a size of 0 to 2147483647",
    ),
    ("aten::constant_pad_nd.out", [x23, [-(2**63), 0], 0], (2, 4), "for dimension 1"),
    ("aten::constant_pad_nd.out", [x23, [1, 1], 0], (2, 4), "out: "),
    ("aten::reflection_pad1d.out", [x23, [3, 0]], (2, 6), "too many for dimension 1"),
    ("aten::reflection_pad1d.out", [x23, [0, 3]], (2, 6), "too many"),
    ("aten::reflection_pad1d.out", [sample((3,)), [1, 1]], (5,), "expected rank 2 or 3, got 1"),
    (
        "aten::reflection_pad2d.out",
        [sample((2, 3, 4)), [1, 1]],
        (2, 3, 6),
        "expected 4 paddings, got 2",
    ),
    ("aten::replication_pad1d.out", [sample((2, 0)), [1, 1]], (2, 2), "too many"),
    ("aten::replication_pad1d.out", [x23, [-4, 5]], (2, 4), "-4 and 5"),
]


@pytest.mark.parametrize("name, args, shape, words", REFUSED)
def test_wrong_paddings_are_refused_with_words(
    name: str, args: list[Any], shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(OpError, match=words):
        run_op(name, *args, out=[Out(torch.float32, shape)])
