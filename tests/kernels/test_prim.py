"""Scalar operators:

Python's arithmetic where upstream follows it, C's where it does not, and errors instead of traps.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import OpError, loaded_op, run_scalar_op
from support.op_values import Values

X = torch.arange(24.0).reshape(2, 3, 4)
MIN, MAX = -(2**63), 2**63 - 1
# operator, arguments, result
ROWS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("executorch_prim::add.Scalar", (3, 4), 7),
    ("executorch_prim::add.Scalar", (3, 0.5), 3.5),
    ("executorch_prim::add.Scalar", (MAX, 1), MIN),
    ("executorch_prim::sub.Scalar", (3, 4), -1),
    ("executorch_prim::sub.Scalar", (3.0, 4), -1.0),
    ("executorch_prim::mul.Scalar", (-3, 4), -12),
    ("executorch_prim::mul.Scalar", (MIN, -1), MIN),
    ("executorch_prim::floordiv.Scalar", (7, 2), 3),
    ("executorch_prim::floordiv.Scalar", (-7, 2), -4),
    ("executorch_prim::floordiv.Scalar", (7, -2), -4),
    ("executorch_prim::floordiv.Scalar", (MIN, -1), MIN),
    ("executorch_prim::floordiv.Scalar", (-7.5, 2), -4.0),
    ("executorch_prim::floordiv.Scalar", (1.0, 0), math.inf),
    ("executorch_prim::floordiv.Scalar", (-1.0, 0), -math.inf),
    ("executorch_prim::floordiv.int", (-7, 2), -3),
    ("executorch_prim::truediv.Scalar", (7, 2), 3.5),
    ("executorch_prim::mod.Scalar", (-7, 3), -1),
    ("executorch_prim::mod.int", (7, -3), 1),
    ("executorch_prim::mod.int", (MIN, -1), 0),
    ("executorch_prim::eq.Scalar", (2, 2.0), True),
    ("executorch_prim::eq.Scalar", (True, True), True),
    ("executorch_prim::ne.Scalar", (2, 3), True),
    ("executorch_prim::gt.Scalar", (MAX, MAX - 1), True),
    ("executorch_prim::lt.Scalar", (1, 1.5), True),
    ("executorch_prim::ge.Scalar", (math.nan, 1), False),
    ("executorch_prim::le.Scalar", (2, 2), True),
    ("executorch_prim::sym_max.Scalar", (2, 5), 5),
    ("executorch_prim::sym_min.Scalar", (2, 5), 2),
    ("executorch_prim::neg.Scalar", (5,), -5),
    ("executorch_prim::neg.Scalar", (-2.5,), 2.5),
    ("executorch_prim::ceil.Scalar", (1.2,), 2),
    ("executorch_prim::round.Scalar", (2.5,), 2),
    ("executorch_prim::round.Scalar", (3.5,), 4),
    ("executorch_prim::round.Scalar", (-2.5,), -2),
    ("executorch_prim::trunc.Scalar", (-2.7,), -2),
    ("executorch_prim::sym_float.Scalar", (3,), 3.0),
    ("executorch_prim::sym_int.Scalar", (-3.7,), -3),
    ("executorch_prim::sym_not.Scalar", (True,), False),
    ("executorch_prim::sym_ite.Scalar", (True, 1, 2.5), 1),
    ("executorch_prim::sym_ite.Scalar", (False, 1, 2.5), 2.5),
    ("aten::sym_size.int", (X, 1), 3),
    ("aten::sym_size.int", (X, -1), 4),
    ("aten::sym_stride.int", (X, 0), 12),
    ("aten::sym_numel", (X,), 24),
    ("aten::sym_storage_offset", (X,), 0),
    ("aten::_local_scalar_dense", (torch.tensor([2.5], dtype=torch.bfloat16),), 2.5),
    ("aten::_local_scalar_dense", (torch.tensor(-7, dtype=torch.int8),), -7),
    ("aten::_local_scalar_dense", (torch.tensor(True),), True),
]
# operator, arguments, words of the error
REFUSED: list[tuple[str, tuple[Any, ...], str]] = [
    ("executorch_prim::floordiv.Scalar", (1, 0), "division by zero"),
    ("executorch_prim::floordiv.int", (1, 0), "division by zero"),
    ("executorch_prim::mod.Scalar", (1, 0), "division by zero"),
    ("executorch_prim::add.Scalar", (True, 1), "expected Int or Double, got Bool"),
    ("executorch_prim::add.Scalar", ("a", 1), "argument 0: expected a number, got String"),
    ("executorch_prim::eq.Scalar", (True, 1), "expected two Bools or two numbers"),
    ("executorch_prim::ceil.Scalar", (1,), "argument 0: expected Double, got Int"),
    ("executorch_prim::trunc.Scalar", (math.inf,), "does not fit an Int"),
    ("aten::sym_size.int", (X, 3), "expected a dimension of a tensor of rank 3, got 3"),
    ("aten::sym_size.int", (1, 0), "argument 0: expected Tensor, got Int"),
    ("aten::_local_scalar_dense", (torch.ones(0),), "expected a tensor of 1 element or more"),
]


@pytest.mark.parametrize(("name", "args", "expected"), ROWS)
def test_scalar_operator_gives(name: str, args: tuple[Any, ...], expected: Any) -> None:
    result = run_scalar_op(name, *args)
    assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(("name", "args", "words"), REFUSED)
def test_scalar_operator_refuses(name: str, args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(OpError, match=words):
        run_scalar_op(name, *args)


def test_a_row_is_copied_to_its_place() -> None:
    rows = torch.zeros(2, 3, 4)
    with pytest.raises(OpError, match="rows of rank 3 do not match a tensor of rank 3"):
        run_row_copy(rows, X, 1)
    run_row_copy(rows, X[0], 1)
    assert torch.equal(rows, torch.stack([torch.zeros(3, 4), X[0]]))
    with pytest.raises(OpError, match="expected a row from 0 to 2147483646, got row -1"):
        run_row_copy(rows, X[0], -1)
    order = "expected the contiguous dim order, got "
    with pytest.raises(OpError, match=rf"argument 0: {order}\[0, 2, 1\]"):
        run_row_copy(rows.mT, X[0].mT, 1)
    with pytest.raises(OpError, match=rf"argument 1: {order}\[1, 0\]"):
        run_row_copy(rows, torch.zeros(4, 3).T, 1)


def run_row_copy(rows: torch.Tensor, row: torch.Tensor, index: int) -> None:
    """et_copy_index has no result: it writes its first argument, which lies in torch's memory."""
    values = Values(False)
    made = [values.value(argument) for argument in (rows, row, index)]
    with loaded_op("executorch_prim::et_copy_index.tensor", 3, None, 1) as run:
        run(values.pointers(made))
