"""Bags of embeddings against eager torch: modes, weights, padding, empty bags, index types."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, check_op, run_op

A = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INDICES = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9, 0])
OFFSETS = torch.tensor([0, 4, 4, 8])


def table(dtype: torch.dtype, width: int = 5) -> torch.Tensor:
    values = torch.arange(10 * width).reshape(10, width) * 7919 % 97
    return ((values - 48) / 8).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags_equal_eager(mode: int, dtype: torch.dtype) -> None:
    for padding, last, narrow, width in itertools.product(
        (-1, 4), (False, True), (False, True), (1, 5, 130)
    ):
        index = torch.int32 if narrow else torch.int64
        offsets = torch.tensor([0, 4, 4, INDICES.numel()]) if last else OFFSETS
        args: list[Any] = [table(dtype, width), INDICES.to(index), offsets.to(index)]
        args += [False, mode, False, None, last, padding]
        for op in (A._embedding_bag, A._embedding_bag_forward_only):
            want = list(op(*args))
            # Eager computes means of half types in half precision; a sum in f64 is the better
            # reference.
            want[0] = op(args[0].double(), *args[1:])[0].to(dtype)
            if op is A._embedding_bag_forward_only and last:
                # The exported program has an entry for the last offset, which eager fills with 0.
                want[2] = torch.cat([want[2], want[2].new_zeros(1)])[: OFFSETS.numel()]
                want[3] = want[3] if mode == 2 else want[3][: OFFSETS.numel() - 1]
            check_op(op.out, *args, expected=want)


def test_weights_of_samples_scale_sums() -> None:
    for dtype in FLOATS:
        weights = (torch.arange(9) / 4 - 1).to(dtype)
        args: list[Any] = [table(dtype), INDICES, OFFSETS, False, 0, False, weights]
        want = list(A._embedding_bag(*args))
        wide = [args[0].double(), *args[1:-1], weights.double()]
        want[0] = A._embedding_bag(*wide)[0].to(dtype)
        check_op(A._embedding_bag.out, *args, expected=want)


def test_no_indices_and_no_bags() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    check_op(A._embedding_bag.out, table(torch.float32), none, torch.tensor([0, 0]))
    check_op(A._embedding_bag.out, table(torch.float32), none, none)


def test_wrong_bags_are_refused_with_words() -> None:
    outs = [Out(torch.float32, (4, 5)), Out(torch.int64, (0,))]
    outs += [Out(torch.int64, (4,)), Out(torch.int64, (4,))]

    def run(indices: Any, offsets: Any, mode: int = 0, weights: Any = None) -> None:
        args = [table(torch.float32), torch.tensor(indices), torch.tensor(offsets), False, mode]
        run_op("aten::_embedding_bag.out", *args, False, weights, False, -1, out=outs)

    with pytest.raises(OpError, match="index 10 at position 1 is outside of a table of 10 rows"):
        run([0, 10], [0])
    with pytest.raises(
        OpError, match=r"offset 2: expected 2 to 2, the offset before it to the number .*, got 1"
    ):
        run([0, 1], [0, 2, 1])
    with pytest.raises(OpError, match="embedding_bag: offset 0: expected 0, got 1"):
        run([0, 1], [1])
    with pytest.raises(OpError, match="mode: expected 0, 1 or 2, got 3"):
        run([0, 1], [0], mode=3)
    with pytest.raises(OpError, match=r"expected mode 0 and f32\[2\], got mode 1 and f32\[2\]"):
        run([0, 1], [0], mode=1, weights=torch.ones(2))
