"""Check of contents: sound programs pass, and each wrong way of sharing memory is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.exir import memory
from executorch_py.exir.error import InternalError
from executorch_py.exir.memory.verify_contents import ContentVerifier

Lower = Callable[..., Any]


class Parts(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x.sin()
        return y[:2].cos() + y[2:].tanh(), y[1].exp()


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        before = self.rows[1] + 1
        self.rows[i] = x
        return before, self.rows[1].cos()


def lowered(lower: Lower) -> Any:
    return lower(Parts(), (torch.randn(4, 8),))


def node(program: Any, word: str, number: int = 0) -> Any:
    return [n for n in program.graph.nodes if word in str(n.target)][number]


def views(program: Any) -> list[Any]:
    return [n for n in program.graph.nodes if n.target is memory.view]


def verify(program: Any, **written_back: str) -> None:
    ContentVerifier(program.graph_module, written_back).check()


def test_programs_that_share_memory_soundly_pass(lower: Lower) -> None:
    program = lowered(lower)
    assert len(views(program)) == 3
    verify(program)
    verify(lower(State(), (torch.ones(1, 8), torch.tensor([1]))))


def test_a_result_placed_over_bytes_that_are_read_later_is_found(lower: Lower) -> None:
    program = lowered(lower)
    base, cos = node(program, "sin").meta["spec"], node(program, "cos").meta["spec"]
    cos.mem_offset = base.mem_offset + 64
    with pytest.raises(InternalError, match=r"tanh.* reads .* last written by .*cos"):
        verify(program)


def test_a_result_placed_over_an_operand_of_its_own_is_found(lower: Lower) -> None:
    program = lowered(lower)
    part, exp = views(program)[2].meta["spec"], node(program, "exp").meta["spec"]
    exp.mem_offset = part.mem_offset
    verify(program)  # element by element: the kernel may overwrite its operand
    exp.mem_offset = part.mem_offset - 16
    with pytest.raises(InternalError, match=r"exp.* writes over its operand"):
        verify(program)


def test_a_view_outside_its_base_is_found(lower: Lower) -> None:
    program = lowered(lower)
    views(program)[1].meta["spec"].mem_offset += 64
    with pytest.raises(InternalError, match="is not inside"):
        verify(program)


def test_a_view_that_is_read_after_its_base_was_written_is_found(lower: Lower) -> None:
    program = lower(State(), (torch.ones(1, 8), torch.tensor([1])))
    old, new = views(program)[0], node(program, "cos")
    new.args = (old,)
    with pytest.raises(InternalError, match=r"last written by aten_index_put"):
        verify(program)


def test_a_buffer_that_does_not_hold_its_new_value_is_found(lower: Lower) -> None:
    program = lower(State(), (torch.ones(1, 8), torch.tensor([1])))
    verify(program, b_rows=node(program, "index_put_").name)
    with pytest.raises(InternalError, match="buffer b_rows does not hold"):
        verify(program, b_rows="x")


def test_parts_that_are_not_in_their_places_are_found(lower: Lower) -> None:
    program = lowered(lower)
    first, second = views(program)[:2]
    graph = program.graph
    with graph.inserting_before(node(program, "cos")):
        joined = graph.call_function(memory.concat, ([second, first], 0))
    joined.meta["spec"] = node(program, "sin").meta["spec"]
    with pytest.raises(InternalError, match="is not where it belongs"):
        verify(program)
    joined.args = ([first, second], 0)
    with pytest.raises(InternalError, match="is not where it belongs"):
        second.prepend(joined)
        verify(program)
