"""Rows of a table of numbers of 4 or 8 bits that is packed as the weight of a linear layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.op_driver import Const, OpError, Out, check_op, run_op

from executorch_py.exir.dialects import integer_ops

own = torch.ops.executorch_py
NAME = "executorch_py::embedding_groups.out"


class Table:
    """Random operands, and the rows that they stand for."""

    def __init__(
        self,
        rows: int,
        width: int,
        group: int,
        *,
        dtype: torch.dtype,
        offset: str = "",
        bits: int = 4,
    ) -> None:
        g, groups = torch.Generator().manual_seed(rows + width), width // group
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
        codes = torch.randint(low, high, (rows, groups, group), generator=g, dtype=torch.int8)
        scales = (torch.rand(rows, groups, generator=g) + 0.5).to(dtype)
        if dtype is torch.float16:
            scales[0] *= 2.0**-24  # a subnormal
        points = torch.randint(-8, 8, (rows, groups), generator=g, dtype=torch.int8)
        zeros, least = offset == "zeros", offset == "minimums"
        points = points if zeros else torch.full_like(points, -8 if least and bits == 4 else 0)
        minimums = torch.randn(rows, groups, generator=g).to(dtype)
        wide = (codes.to(torch.float32) - points.unsqueeze(-1)) * scales.float().unsqueeze(-1)
        if least:
            wide = wide + minimums.float().unsqueeze(-1)
        self.values = wide.reshape(rows, width)
        self.table: tuple[Any, ...] = (
            Const(integer_ops.packed_groups(codes, bits)),
            Const(integer_ops.packed_numbers(scales)),
            Const(integer_ops.packed_numbers(points)) if zeros else None,
            Const(integer_ops.packed_numbers(minimums)) if least else None,
        )
        self.sizes = (group, width, rows)

    def args(self, indices: torch.Tensor) -> list[Any]:
        return [*self.table, indices, *self.sizes]


@pytest.mark.parametrize("offset", ["symmetric", "zeros", "minimums"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("rows", "width", "group"), [(40, 64, 32), (16, 96, 96), (1, 8, 8), (33, 20, 5), (17, 128, 4)]
)
def test_rows_are_those_of_the_dequantized_table(
    rows: int, width: int, group: int, dtype: torch.dtype, offset: str, bits: int
) -> None:
    case = Table(rows, width, group, dtype=dtype, offset=offset, bits=bits)
    for kind in (torch.int64, torch.int32):
        indices = (torch.arange(6).reshape(2, 3) * 7 % rows).to(kind)
        (got,) = check_op(own.embedding_groups.out, *case.args(indices))
        assert torch.equal(got, case.values[indices.long()])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 4)], ids=str)
def test_the_result_has_the_indices_shape_and_the_width(shape: tuple[int, ...]) -> None:
    case = Table(20, 64, 32, dtype=torch.bfloat16)
    indices = torch.full(shape, 19, dtype=torch.int64)
    (got,) = check_op(own.embedding_groups.out, *case.args(indices))
    assert torch.equal(got, case.values[indices])


def refuse(args: list[Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        run_op(NAME, *args, out=[Out(torch.float32, (2, 64))])


def test_an_index_outside_of_the_table_is_refused_with_its_position() -> None:
    case = Table(20, 64, 32, dtype=torch.bfloat16)
    refuse(case.args(torch.tensor([3, 20])), "index 20 at position 1 is outside of a table of 20")
    refuse(case.args(torch.tensor([-1, 3])), "index -1 at position 0")


def test_operands_of_wrong_types_and_sizes_are_refused() -> None:
    case = Table(20, 64, 32, dtype=torch.bfloat16)
    indices = torch.tensor([0, 1])
    weight, scales, zeros, least = case.table
    refuse(case.args(torch.tensor([0.0, 1.0])), "indices: expected contiguous i32 or i64")
    refuse([weight, scales, zeros, least, indices, 7, 64, 20], "groups that divide the width")
    refuse([weight, scales, zeros, least, indices, 32, 64, -1], "expected 0 rows or more")
    refuse([weight, scales, zeros, least, indices, 32, 64, 40], "weight: expected 1536 contiguous")
    refuse([weight, weight, zeros, least, indices, 32, 64, 20], "scales: expected 64 contiguous")
    refuse(
        [weight, scales, zeros, torch.zeros(64, dtype=torch.float16), indices, 32, 64, 20],
        "minimums: expected the sc",
    )
    refuse([weight, scales, zeros, weight, indices, 32, 64, 20], "minimums: expected 64 contiguous")
    refuse(
        [weight, scales, scales, least, indices, 32, 64, 20], "zero_points: expected 64 contiguous"
    )
    refuse(
        [weight, scales, zeros, least, indices, 1, 2**31 - 1, 2**31 - 1],
        "weight: expected|too large",
    )
