"""Operands with different layouts: for any dim orders, elements are combined with those at the same
index.

Tensors are large enough for tiled iteration, with sizes that no tile divides.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
import torch
from support.op_driver import check_op

ORDERS = list(permutations(range(3)))
SIZES = (37, 70, 19)
DTYPES = (torch.uint8, torch.float16, torch.float32, torch.int64, torch.complex128)


def lying(order: tuple[int, ...], dtype: torch.dtype, seed: int, sizes: Any = SIZES) -> Any:
    """A tensor of these sizes, its dimensions in memory as in `order`, of whole numbers."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 100, [sizes[d] for d in order], generator=generator).to(dtype)
    return values.permute([order.index(d) for d in range(len(order))])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_two_operands_of_any_two_dim_orders_are_added(
    order: tuple[int, ...], dtype: torch.dtype
) -> None:
    left = lying((0, 1, 2), dtype, 0)
    for out_order in ORDERS[1::2]:
        check_op(torch.ops.aten.add.out, left, lying(order, dtype, 1), out_order=out_order)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_three_operands_and_a_broadcast_one_keep_their_elements(order: tuple[int, ...]) -> None:
    condition = lying(order, torch.uint8, 0) > 50
    one, other = lying((2, 1, 0), torch.float32, 1), lying((1, 0), torch.float32, 2, SIZES[1:])
    check_op(torch.ops.aten.where.self_out, condition, one, other)
    check_op(torch.ops.aten.where.self_out, condition, other, one, out_order=order)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_element_types_that_differ_are_cast_in_any_dim_order(order: tuple[int, ...]) -> None:
    whole, half = lying(order, torch.int64, 0), lying((2, 0, 1), torch.float16, 1)
    check_op(torch.ops.aten.mul.out, whole, half)
    check_op(torch.ops.aten.gt.Tensor_out, half, whole, out_order=order)


@pytest.mark.parametrize("sizes", [(4096, 17), (15, 4096), (16, 300), (300, 16), (64, 65)], ids=str)
def test_long_and_narrow_transposed_tensors_are_negated(sizes: tuple[int, int]) -> None:
    for dtype in DTYPES[1:4]:
        check_op(torch.ops.aten.neg.out, lying((1, 0), dtype, 0, sizes), out_order=(0, 1))
