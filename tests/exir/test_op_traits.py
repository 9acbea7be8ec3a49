"""Operators that move elements: each value of their results is one of the operand's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from executorch_py.exir.ir.op_traits import ATEN_MOVES

X = torch.arange(16, dtype=torch.int8).reshape(1, 4, 2, 2)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "_unsafe_view": ([4, 4],),
    "alias": (),
    "chunk": (2, 1),
    "clone": (),
    "contiguous": (),
    "detach": (),
    "expand": ([3, 4, 2, 2],),
    "flatten.using_ints": (1,),
    "flip": ([1],),
    "index_select": (1, torch.tensor([2, 0])),
    "lift_fresh": (),
    "movedim.int": (1, 3),
    "narrow": (1, 1, 2),
    "permute": ([0, 2, 3, 1],),
    "pixel_shuffle": (2,),
    "pixel_unshuffle": (2,),
    "reshape": ([4, 4],),
    "roll": ([1], [1]),
    "select.int": (1, 2),
    "slice.Tensor": (1, 0, 2),
    "split.Tensor": (2, 1),
    "split_with_sizes": ([1, 3], 1),
    "squeeze": (),
    "squeeze.dim": (0,),
    "squeeze.dims": ([0],),
    "t": (),
    "transpose.int": (1, 2),
    "unbind.int": (1,),
    "unflatten.int": (1, [2, 2]),
    "unsqueeze": (0,),
    "view": ([4, 4],),
}
PREFIX = "aten::"


def test_every_operator_of_torch_among_the_moves_is_tried() -> None:
    names = {key.removeprefix(PREFIX) for key in ATEN_MOVES if key.startswith(PREFIX)}
    assert names == set(ARGUMENTS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_move_computes_nothing(name: str) -> None:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    x = X.reshape(4, 4) if name == "t" else X
    for result in pytree.tree_leaves(operator(x, *ARGUMENTS[name])):
        assert result.dtype == x.dtype and torch.isin(result, x).all()
