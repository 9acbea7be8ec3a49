"""Parts of tensors that are read in place: no copy kernel, eager's numbers, sound plans.

Numbers are checked by running the lowered graph inside its planned memory (see conftest.py), which
starts as garbage, so that a part in the wrong place or read too late shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from executorch_py.exir import memory, to_edge
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes import ReplaceViewCopyWithViewPass
from executorch_py.exir.passes.memory_planning_pass import MemoryPlanningPass
from executorch_py.exir.program.config import ExecutorchBackendConfig

Lower = Callable[..., Any]


def test_the_pass_gives_views_specs_where_only_inputs_have_them() -> None:
    x = torch.ones(2, 3)
    views = Formula(lambda x: torch.ops.aten.view_copy.default(x, [-1, 2]) + 1)
    gm = torch.export.export(views, (x,)).graph_module
    for node in gm.graph.find_nodes(op="placeholder"):
        node.meta["spec"] = TensorSpec.from_tensor(node.meta["val"])
    result = ReplaceViewCopyWithViewPass()(gm)
    (view,) = (n for n in result.graph_module.graph.nodes if n.target is memory.view)
    assert result.modified and list(view.meta["spec"].shape) == [3, 2]
    assert view.meta["spec"].storage_base is view.args[0].meta["spec"]


class Formula(nn.Module):
    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.formula(*inputs)


def check(
    lower: Lower, machine: Any, model: nn.Module, inputs: tuple[Any, ...], config: Any = None
) -> Any:
    """Lower and run twice in one memory; returns the program."""
    program = lower(model, inputs, config)
    run = machine(program)
    for _ in range(2):
        with torch.no_grad():
            expected = pytree.tree_leaves(model(*inputs))
        for ours, eager in zip(run(*inputs), expected, strict=True):
            torch.testing.assert_close(ours, eager)
    return program


def qkv(x: torch.Tensor) -> torch.Tensor:
    """The heads of attention, as vision transformers write them: one permutation, three parts."""
    q, k, v = x.sin().view(2, 8, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


class Table(nn.Module):
    """Every formula of a table, each on an input of its own: one export for all of them."""

    def __init__(self, table: dict[str, tuple[Any, ...]]) -> None:
        super().__init__()
        self.table = table
        self.inputs = tuple(torch.randn(row[1]) for row in table.values())

    def forward(self, *inputs: torch.Tensor) -> Any:
        return [row[0](x) for row, x in zip(self.table.values(), inputs, strict=True)]


FREE: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "slice": (lambda x: x.sin()[2:4] + 1, (5, 8)),
    "slice behind unit dimensions": (lambda x: x.sin()[:, 1:3] * 2, (1, 5, 8)),
    "slice to the end": (lambda x: x.sin()[-2:].cos(), (5, 8)),
    "select": (lambda x: x.sin()[3] + x.sin()[-1], (5, 8)),
    "select the class token": (lambda x: x.sin()[:, 0] + 1, (1, 5, 8)),
    "narrow": (lambda x: x.sin().narrow(0, 1, 2).exp(), (5, 8)),
    "split": (lambda x: [p + 1 for p in x.sin().split(2)], (5, 8)),
    "split with sizes": (lambda x: [p + 1 for p in x.sin().split([1, 3, 1])], (5, 8)),
    "chunk": (lambda x: [p + 1 for p in x.sin().chunk(2)], (6, 8)),
    "tensor_split": (lambda x: [p + 1 for p in x.sin().tensor_split(3)], (6, 8)),
    "unbind": (lambda x: [p + 1 for p in x.sin().unbind()], (3, 8)),
    "gates of a cell": (lambda x: [g.sigmoid() for g in x.sin().chunk(4, 1)], (1, 32)),
    "part of a part": (lambda x: x.sin()[1:4][1].view(2, 4)[1] + 1, (5, 8)),
    "view of a part": (lambda x: x.sin()[1:3].flatten() + 1, (5, 8)),
    "part of a view": (lambda x: x.sin().view(10, 4)[3:7] + 1, (5, 8)),
    "part of an input": (lambda x: x[1:3] + 1, (5, 8)),
    "part that is returned": (lambda x: x.sin()[1:3], (5, 8)),
    "view that is returned": (lambda x: x.sin().view(8, 5), (5, 8)),
    "pooled to a point": (
        lambda x: nn.functional.adaptive_avg_pool2d(x, 1).flatten(1),
        (1, 8, 3, 3),
    ),
    "joined parts": (lambda x: torch.cat([x.sin(), x.cos() + 1]) * 2, (2, 8)),
    "joined behind unit dimensions": (lambda x: torch.cat([x.sin(), x.cos()], 1), (1, 3, 8)),
    "stacked rows": (lambda x: torch.stack([x.sin(), x.cos()]) * 2, (3, 4)),
    "joined views": (lambda x: torch.cat([x.sin().view(4, 4), x.cos().view(4, 4)]), (2, 8)),
    "joined and read": (lambda x: (torch.cat([y := x.sin(), x.cos()]) * 2, y + 1), (2, 8)),
    "joined again": (lambda x: torch.cat([torch.cat([x.sin(), x.cos()]), x.exp()]), (2, 8)),
    "split and joined": (lambda x: torch.cat([p.exp() for p in x.sin().split(1)]), (3, 8)),
    "returned with a part": (lambda x: (torch.cat([y := x.sin(), x.cos()]), y), (2, 8)),
}
KEPT: dict[str, tuple[Callable[..., Any], tuple[int, ...], str]] = {
    "an unaligned offset": (lambda x: x.sin()[1:3] + 1, (5, 3), "slice_copy"),
    "an inner dimension": (lambda x: x.sin()[:, 2:4] + 1, (5, 8), "slice_copy"),
    "every second row": (lambda x: x.sin()[::2] + 1, (5, 8), "slice_copy"),
    "a part of an input, returned": (lambda x: (x[1:3], x + 1), (5, 8), "slice_copy"),
    "a view of an input, returned": (lambda x: (x.view(-1), x + 1), (5, 8), "view_copy"),
    "an unaligned part of a split": (
        lambda x: [part + 1 for part in x.sin().split([4, 5, 3], 1)],
        (1, 12),
        "slice_copy",
    ),
    "a small input joined": (lambda x: torch.cat([x[:1], x.sin()]) + 1, (3, 8), "view_copy"),
    "the same joined twice": (lambda x: torch.cat([y := x.sin(), y]), (3, 8), "view_copy"),
    "a part joined": (lambda x: torch.cat([x.sin(), x.cos()[:1]]), (2, 8), "view_copy"),
    "inputs joined": (lambda x: torch.cat([x, x.sin()[:1]]) + 1, (3, 8), "cat"),
    "joined along an inner dimension": (lambda x: torch.cat([x.sin(), x], 1), (2, 8), "cat"),
    "joined at an unaligned offset": (lambda x: torch.cat([x.sin(), x.cos()]), (1, 3), "cat"),
}
COPIES = ("slice", "select", "split", "unbind", "narrow", "view_copy", "clone", "cat")


def copies(program: Any) -> list[tuple[str, str]]:
    """Copying operators that are left, and the lines of the model they come from."""
    calls = [node for node in program.graph.nodes if op_key(node.target).startswith("aten::")]
    found = [(op_key(node.target)[6:].partition(".")[0], source_line(node)) for node in calls]
    return [(name, line) for name, line in found if any(word in name for word in COPIES)]


def test_parts_along_the_outermost_dimension_cost_nothing(lower: Lower, machine: Any) -> None:
    table = Table(FREE)
    assert copies(check(lower, machine, table, table.inputs)) == []


def test_parts_that_are_not_contiguous_and_aligned_are_copied(lower: Lower, machine: Any) -> None:
    table = Table(KEPT)
    found = copies(check(lower, machine, table, table.inputs))
    assert [name for name, _ in found] == [row[2] for row in KEPT.values()], found


def test_attention_permutes_its_heads_once(lower: Lower, machine: Any, operators: Any) -> None:
    program = check(lower, machine, Formula(qkv), (torch.randn(2, 8, 24),))
    assert copies(program) == [] and operators(program).count("aten::permute_copy.out") == 2


def test_a_part_in_another_layout_than_its_base_is_a_copy(lower: Lower, machine: Any) -> None:
    def formula(x: torch.Tensor) -> Any:
        y = x.sin()
        return y[1:] + 1, y[2].cos()

    x = torch.randn(3, 4, 2, 8).to(memory_format=torch.channels_last)
    program = check(lower, machine, Formula(formula), (x,))
    for node in program.graph.nodes:
        for source in node.all_input_nodes if "view" in str(node.target) else ():
            assert source.meta["spec"].dim_order == node.meta["spec"].dim_order


def test_a_whole_that_is_updated_in_place_keeps_its_parts_apart(lower: Lower, machine: Any) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(4, 8))

        def forward(self, x: torch.Tensor) -> Any:
            half = x.sin()
            self.rows.copy_(torch.cat([half, x.cos()]))
            self.rows[0] = 1
            return half + 1, self.rows.sum(0)

    check(lower, machine, Model(), (torch.randn(2, 8),))


class Overwritten(nn.Module):
    """Reads a part of a buffer before and after the buffer is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.arange(32.0).view(4, 8))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        old, first = self.rows[1].clone(), self.rows[0].cos()
        self.rows[i] = x
        return old + 1, first, self.rows[1] + self.rows[2]


def test_a_part_that_outlives_a_write_to_its_base_is_a_copy(
    lower: Lower, machine: Any, operators: Any
) -> None:
    model, inputs = Overwritten(), (torch.ones(1, 8), torch.tensor([1]))
    program = lower(model, inputs)
    run = machine(program)
    for _ in range(2):
        for ours, eager in zip(run(*inputs), model(*inputs), strict=True):
            torch.testing.assert_close(ours, eager)
    names = operators(program)
    assert [name for name, _ in copies(program)] == ["select_copy"]
    assert "aten::index_put_" in names and "aten::copy_" not in names


@pytest.mark.parametrize(
    ("planner", "formula"),
    [
        (MemoryPlanningPass(alloc_graph_input=False), lambda x: x[1:3] + 1),
        (MemoryPlanningPass(alloc_graph_output=False), lambda x: x.sin()[1:3]),
        (MemoryPlanningPass(alloc_graph_output=False), lambda x: x.sin().view(8, 5)),
        (MemoryPlanningPass(alloc_graph_output=False), lambda x: (y := x.sin(), y[1:3].cos())),
        (MemoryPlanningPass(alignment=64), lambda x: x.sin()[1:3] + 1),
    ],
)
def test_memory_that_may_not_be_planned_is_not_shared(
    planner: MemoryPlanningPass, formula: Callable[..., Any]
) -> None:
    config = ExecutorchBackendConfig(memory_planning_pass=planner)
    edge = to_edge(torch.export.export(Formula(formula), (torch.randn(5, 8),)))
    assert len(copies(edge.to_executorch(config).exported_program())) == 1


def test_sharing_can_be_switched_off(lower: Lower, machine: Any) -> None:
    config = ExecutorchBackendConfig(share_windows=False)
    model = Formula(lambda x: torch.cat([x.sin()[1:3], x.cos()]))
    program = check(lower, machine, model, (torch.randn(5, 8),), config)
    assert [name for name, _ in copies(program)] == ["slice_copy", "cat"]


def test_parts_of_dynamic_tensors_are_shared_where_their_place_is_known() -> None:
    def formula(x: torch.Tensor) -> Any:
        y = x.sin()
        ids = torch.arange(x.shape[0])[None]
        return y[0] + 1, y[:2].cos(), y[1:] * 2, x.cos()[:, :4].sum(), ids + ids[:, :2].sum()

    rows = Dim("rows", min=3, max=6)
    model = Formula(formula)
    exported = torch.export.export(model, (torch.randn(4, 8),), dynamic_shapes=(({0: rows},),))
    program = to_edge(exported).to_executorch()
    targets = [str(node.target) for node in program.exported_program().graph.nodes]
    assert sum("select_copy" in t for t in targets) == 0
    assert sum("slice_copy" in t for t in targets) == 2
    for size in (3, 5, 6):
        x = torch.randn(size, 8)
        for ours, eager in zip(program.run(x), model(x), strict=True):
            torch.testing.assert_close(torch.as_tensor(ours), eager)


def test_an_expansion_to_a_size_that_depends_on_values_is_no_reshape() -> None:
    def formula(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        count = n.item()
        torch._check(count >= 1)
        torch._check(count <= 4)
        return x.expand(6 - count, 2, 5) * 2

    x, n = torch.randn(2, 5), torch.tensor(3)
    program = to_edge(torch.export.export(Formula(formula), (x, n))).to_executorch()
    assert program.verify(Formula(formula), x, n).ok


def test_the_shipped_bytes_hold_no_instruction_for_views() -> None:
    x = torch.randn(2, 8, 24)
    program = to_edge(torch.export.export(Formula(qkv), (x,))).to_executorch()
    plan = program.executorch_program.execution_plan[0]
    assert not [o.name for o in plan.operators if o.name in ("aten::select_copy", "aten::view")]
    torch.testing.assert_close(torch.as_tensor(program.run(x)), qkv(x))
