"""State is updated in place: no copy of a cache per step, in every form of update.

Programs run on our runtime as shipped bytes, several calls on one loaded method; eager torch with
the same history is the oracle. The interop catalogue runs the same caches on upstream's runtime.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from interop.structures import Caches
from torch import nn
from torch.utils import _pytree as pytree

from executorch_py.exir import EdgeCompileConfig, memory, to_edge
from executorch_py.exir.dialects._ops import ops as edge_ops
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.passes.memory_planning_pass import MemoryPlanningPass
from executorch_py.exir.passes.reinplace import DEFAULT_INPLACEABLE_OPS, reinplace_pass
from executorch_py.exir.program.config import ExecutorchBackendConfig
from executorch_py.runtime import Runtime

Inputs = tuple[torch.Tensor, ...]
STEPS: list[Inputs] = [
    (torch.randn(1, 2, 1, 8), torch.tensor([position])) for position in (2, 0, 15, 2)
]


def check(model: nn.Module, steps: list[Inputs], config: Any = None) -> Any:
    """Export, run every step on one method, compare with eager; returns the lowered program."""
    with torch.no_grad():
        edge = to_edge(torch.export.export(copy.deepcopy(model), steps[0]))
        program = edge.to_executorch(config)
        method = Runtime.get().load_program(program.buffer).load_method("forward")
        for step in steps:
            expected = pytree.tree_leaves(model(*step))
            for ours, eager in zip(method.execute(list(step)), expected, strict=True):
                torch.testing.assert_close(torch.as_tensor(ours), eager)
    return program.exported_program()


def names(program: Any) -> list[str]:
    return [op_key(node.target) for node in program.graph.nodes if op_key(node.target)]


def large_copies(program: Any, elements: int) -> list[str]:
    """Operators that write a tensor of so many elements, other than those that update a part."""
    found = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.numel() >= elements and op_key(node.target):
            found.append(op_key(node.target))
    return [name for name in found if name not in ("aten::index_put_", "aten::scatter.src_out")]


def test_caches_are_never_copied() -> None:
    program = check(Caches(), STEPS)
    assert large_copies(program, 256) == []
    assert names(program).count("aten::index_put_") == 9
    patched = [node for node in program.graph.nodes if node.target is memory.patch]
    assert len(patched) == 3  # layers that are updated inside the tensor that holds them all


@pytest.mark.parametrize(
    "config",
    [
        ExecutorchBackendConfig(write_buffers_in_place=False),
        ExecutorchBackendConfig(share_windows=False),
        ExecutorchBackendConfig(remove_redundant=False),
        ExecutorchBackendConfig(remove_view_copy=False),
        ExecutorchBackendConfig(
            memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True)
        ),
    ],
    ids=["not in place", "no windows", "nothing removed", "no views", "shared buffers"],
)
def test_caches_hold_the_same_with_other_settings(config: ExecutorchBackendConfig) -> None:
    program = check(Caches(), STEPS, config)
    assert ("aten::copy_" in names(program)) == (not config.write_buffers_in_place)


class State(nn.Module):
    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__()
        self.formula = formula
        self.register_buffer("rows", torch.arange(96.0).view(3, 4, 8))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        return self.formula(self, x, i)


def old_part_read_later(s: Any, x: torch.Tensor, i: torch.Tensor) -> Any:
    old = s.rows[1].clone()
    s.rows[1, i] = x
    return old + s.rows[1], s.rows.sum(0)


def old_whole_read_later(s: Any, x: torch.Tensor, i: torch.Tensor) -> Any:
    old = s.rows.clone()
    s.rows[2][i] = x
    return old.sum(1) + s.rows.sum(1)


def two_parts_of_one(s: Any, x: torch.Tensor, i: torch.Tensor) -> Any:
    s.rows[0, i] = x
    s.rows[1] = s.rows[0] * 2
    s.rows[0, 1:3] = x + s.rows[1, 1:3]
    return s.rows + 0.5


def part_of_a_part(s: Any, x: torch.Tensor, i: torch.Tensor) -> Any:
    s.rows[1, 2, 4:] = x[0, :4]
    s.rows[1:3, 1:3, ::2] = 1.0
    return s.rows + 0.5


def rows_swapped(s: Any, x: torch.Tensor, i: torch.Tensor) -> Any:
    first = s.rows[0].clone()
    s.rows[0] = s.rows[2]
    s.rows[2] = first + x
    return s.rows.sum(1)


def returned_as_well(s: Any, x: torch.Tensor, i: torch.Tensor) -> Any:
    s.rows[1, i] = x
    return s.rows, s.rows[1]


def read_between(s: Any, x: torch.Tensor, i: torch.Tensor) -> Any:
    part = s.rows[1]
    part[i] = x
    total = s.rows.sum()
    part[0] = total
    return total, s.rows.sum(1)


@pytest.mark.parametrize(
    "formula",
    [
        old_part_read_later,
        old_whole_read_later,
        two_parts_of_one,
        part_of_a_part,
        rows_swapped,
        returned_as_well,
        read_between,
    ],
)
def test_updates_that_overlap_reads_leave_what_eager_leaves(formula: Callable[..., Any]) -> None:
    steps = [(torch.randn(1, 8), torch.tensor([i])) for i in (1, 3, 1)]
    check(State(formula), steps)


class Unaligned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 5))

    def forward(self, x: torch.Tensor) -> Any:
        self.rows[1, 2:4] = x
        return self.rows.sum(0)


def test_a_part_at_an_unaligned_offset_is_put_back_as_rows() -> None:
    program = check(Unaligned(), [(torch.randn(2),), (torch.randn(2),)])
    assert not [node for node in program.graph.nodes if node.target is memory.patch]
    assert names(program).count("aten::index_put_") == 2


class Table(nn.Module):
    """A buffer that a formula of it and of two inputs updates and returns."""

    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__()
        self.register_buffer("state", torch.arange(6.0).reshape(3, 2))
        self.formula = formula

    def forward(self, rows: torch.Tensor, values: torch.Tensor) -> Any:
        return self.formula(self.state, rows, values)


ROWS: Inputs = (torch.tensor([2, 0]), torch.tensor([[10.0, 20.0], [30.0, -40.0]]))


def put(state: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return state.index_put_((rows,), values)


def test_an_update_that_is_returned_is_made_in_place_on_request() -> None:
    model = Table(put)
    assert names(check(model, [ROWS] * 3)) == ["aten::index_put.out", "aten::copy_"]
    in_place = ExecutorchBackendConfig(run_reinplace_pass=True)
    assert names(check(model, [ROWS] * 3, in_place)) == ["aten::index_put_"]
    unplanned = MemoryPlanningPass(alloc_graph_output=False)
    theirs = ExecutorchBackendConfig(run_reinplace_pass=True, memory_planning_pass=unplanned)
    assert "aten::copy_" in names(check(model, [ROWS] * 3, theirs))


def test_a_value_that_is_returned_is_not_updated_further() -> None:
    def twice(state: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        first = state.index_put((rows,), values)
        state.copy_(first.index_put((rows,), values * 2))
        return first

    check(Table(twice), [ROWS] * 3)
    check(Table(twice), [ROWS] * 3, ExecutorchBackendConfig(run_reinplace_pass=True))


FORMULAS: dict[str, Callable[..., Any]] = {
    "add and relu": lambda s, r, v: torch.relu(torch.relu(v + v) + s[r] - 1),
    "returned": put,
    "accumulated": lambda s, r, v: s.index_put_((r,), v, accumulate=True),
    "two indices": lambda s, r, v: s.index_put_((r, r % 2), v[:, 0]),
    "index_copy": lambda s, r, v: s.index_copy_(0, r, v),
    "state doubled": lambda s, r, v: (torch.relu(s + 1) + s.mul_(2), s.exp()),
}
ELEMENTWISE = {edge_ops.edge.aten.add.Tensor, edge_ops.edge.aten.relu.default}
ELEMENTWISE |= {edge_ops.edge.aten.mul.Tensor, edge_ops.edge.aten.index_copy.default}


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=list(FORMULAS))
def test_operators_that_scripts_reinplace_run_on_kernels_there_are(
    formula: Callable[..., Any],
) -> None:
    model = Table(formula)
    with torch.no_grad():
        options = EdgeCompileConfig(
            _check_ir_validity=False, preserve_ops=[torch.ops.aten.index_copy.default]
        )
        edge = to_edge(torch.export.export(copy.deepcopy(model), ROWS), compile_config=options)
        program = edge.exported_program()
        reinplace_pass(program, ops_to_inplace=DEFAULT_INPLACEABLE_OPS | ELEMENTWISE)
        assert any(name.partition(".")[0].endswith("_") for name in names(program))
        method = Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
        for _ in range(3):
            expected = pytree.tree_leaves(model(*ROWS))
            for ours, eager in zip(method.execute(list(ROWS)), expected, strict=True):
                torch.testing.assert_close(torch.as_tensor(ours), eager)
    if formula is not FORMULAS["index_copy"]:  # which has no kernel of its own
        asked = ExecutorchBackendConfig(
            run_reinplace_pass=True, reinplace_extra_ops=frozenset(ELEMENTWISE)
        )
        check(model, [ROWS] * 3, asked)
