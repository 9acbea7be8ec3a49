"""Embedding against eager torch: every element type, index type, layout; indices out of range."""

from __future__ import annotations

import pytest
import torch
from support.op_driver import Const, OpError, Out, check_op, run_op

embedding = torch.ops.aten.embedding.out
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int64,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("index_type", [torch.int32, torch.int64], ids=str)
def test_embedding_equals_eager(dtype: torch.dtype, index_type: torch.dtype) -> None:
    table = (torch.arange(70) % 11).reshape(10, 7).to(dtype)
    for shape in ((5,), (2, 3, 4), (), (0, 2)):
        index = torch.randint(0, 10, shape).to(index_type)
        check_op(embedding, Const(table), index)
        check_op(embedding, table, index, 3, True)


def test_embedding_takes_any_layout() -> None:
    table = torch.arange(70.0).reshape(7, 10).t()
    index = torch.randint(0, 10, (3, 4)).t()
    check_op(embedding, table, index)
    check_op(embedding, table.contiguous(), index, out_order=(2, 0, 1))


@pytest.mark.parametrize("index_type", [torch.int32, torch.int64], ids=str)
def test_threads_share_many_rows_of_any_width(index_type: torch.dtype) -> None:
    for width in (1, 3, 4, 16, 20, 64, 68):
        table = torch.arange(101.0 * width).reshape(101, width)
        index = (torch.arange(6000) * 7919 % 101).to(index_type).reshape(60, 100)
        check_op(embedding, table, index)
        check_op(embedding, table, index.t())


def test_the_last_of_very_many_indices_is_refused_at_once() -> None:
    index = torch.zeros(1_000_000, dtype=torch.int32)
    index[-1] = 10
    with pytest.raises(OpError, match="index 10 at position 999999 is outside of a table"):
        run_op(
            "aten::embedding.out",
            torch.rand(10, 1),
            index,
            -1,
            False,
            False,
            out=[Out(torch.float32, (1_000_000, 1))],
        )


@pytest.mark.parametrize("bad", [-1, 10, 2**40, -(2**63)])
def test_an_index_outside_of_the_table_is_refused(bad: int) -> None:
    index = torch.tensor([0, 9, bad])
    with pytest.raises(
        OpError, match=f"index {bad} at position 2 is outside of a table of 10 rows"
    ):
        run_op(
            "aten::embedding.out",
            torch.rand(10, 4),
            index,
            -1,
            False,
            False,
            out=[Out(torch.float32, (3, 4))],
        )
