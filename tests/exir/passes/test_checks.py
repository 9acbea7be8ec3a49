"""Checked pipelines: a pass that breaks its contract is named, with its changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

from executorch_py.exir import to_edge
from executorch_py.exir.error import InternalError
from executorch_py.exir.passes import checked_pipeline, checks
from executorch_py.exir.passes.base import Contract, Fact, Facts, IfChanged, Pass, facts
from executorch_py.exir.passes.runner import Step, is_checked, run_pipeline


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x)) + self.state


def edge_program() -> ExportedProgram:
    with torch.no_grad():
        return to_edge(torch.export.export(Model(), (torch.ones(2, 3),))).exported_program()


def call(program: ExportedProgram, name: str) -> Any:
    return next(n for n in program.graph.nodes if name in n.name and n.op == "call_function")


class Scripted(Pass):
    """A pass that makes a change and returns a given value of `modified`."""

    contract = Contract()

    def __init__(self, change: Callable[[Any], Any], modified: bool) -> None:
        self.change, self.modified = change, modified

    def run(self, program: ExportedProgram) -> bool:
        self.change(program)
        return self.modified


def run(one: Pass, given: Facts = frozenset()) -> None:
    with checked_pipeline():
        run_pipeline([Step(lambda c: one)], edge_program(), None, given)


def retarget(program: ExportedProgram) -> None:
    call(program, "relu").target = torch.ops.aten.sigmoid.default


def new_constant(program: ExportedProgram) -> None:
    program.state_dict["state"] = torch.ones(3)


def written_constant(program: ExportedProgram) -> None:
    program.state_dict["state"].add_(1)


def new_layout(program: ExportedProgram) -> None:
    node = call(program, "relu")
    node.meta["val"] = node.meta["val"].t().contiguous().t()


def new_name(program: ExportedProgram) -> None:
    call(program, "relu")._rename("other")


def new_argument(program: ExportedProgram) -> None:
    node = call(program, "add_tensor")
    node.args = (node.args[0], node.args[0])


def new_order(program: ExportedProgram) -> None:
    first, second = list(program.graph.nodes)[:2]
    second.append(first)


def new_debug_handle(program: ExportedProgram) -> None:
    call(program, "relu").meta["debug_handle"] = 77


CHANGES = [
    retarget,
    new_constant,
    written_constant,
    new_layout,
    new_name,
    new_argument,
    new_debug_handle,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_not_reported_is_found(change: Callable[[Any], None]) -> None:
    with pytest.raises(InternalError, match="pass Scripted returned False, but changed"):
        run(Scripted(change, False))
    run(Scripted(change, True))


def test_the_message_shows_the_lines_that_changed() -> None:
    with pytest.raises(InternalError) as caught:
        run(Scripted(retarget, False))
    assert re.search(r"^- .*edge aten::relu", str(caught.value), re.M)
    assert re.search(r"^\+ .*aten::sigmoid", str(caught.value), re.M)


def test_the_order_of_nodes_counts() -> None:
    def swap(program: ExportedProgram) -> None:
        nodes = [n for n in program.graph.nodes if n.op == "call_function"]
        with program.graph.inserting_before(nodes[0]):
            made = program.graph.call_function(torch.ops.aten.full.default, ([3], 1.0))
        made.meta["val"] = nodes[-1].meta["val"]

    def move(program: ExportedProgram) -> None:
        swap(program)
        nodes = [n for n in program.graph.nodes if n.op == "call_function"]
        nodes[1].append(nodes[0])

    one, other = edge_program(), edge_program()
    swap(one)
    move(other)
    lines = [[line for line in checks.snapshot(p) if "constant " not in line] for p in (one, other)]
    assert lines[0] != lines[1]
    assert sorted(lines[0]) == sorted(lines[1])


def test_a_change_that_did_not_happen_is_found() -> None:
    with pytest.raises(InternalError, match="returned True, but left the program as it was"):
        run(Scripted(lambda program: None, True))


def test_a_missing_requirement_is_found_before_the_pass_runs() -> None:
    one = Scripted(retarget, False)
    one.contract = Contract(requires=facts(Fact.SPECS))
    with pytest.raises(InternalError, match="pass Scripted requires SPECS"):
        run(one)


def views(program: ExportedProgram) -> None:
    call(program, "relu").target = torch.ops.aten.view_as.default


def write(program: ExportedProgram) -> None:
    call(program, "relu").target = torch.ops.aten.relu_.default


def to_torch(program: ExportedProgram) -> None:
    call(program, "relu").target = torch.ops.aten.relu.default


def number(program: ExportedProgram) -> None:
    node = call(program, "add_tensor")
    node.args = (node.args[0], 2.0)


def memory_format(program: ExportedProgram) -> None:
    from executorch_py.exir.dialects.edge_ops import ops

    call(program, "relu").target = ops.edge.aten.clone.default


def an_assertion(program: ExportedProgram) -> None:
    node = call(program, "relu")
    with program.graph.inserting_before(node):
        program.graph.call_function(torch.ops.aten._assert_async.default, (node.args[0],))


BROKEN = [
    (Fact.NO_VIEWS, views),
    (Fact.FUNCTIONAL, write),
    (Fact.EDGE, to_torch),
    (Fact.TENSOR_OPERANDS, number),
    (Fact.DIM_ORDER, memory_format),
    (Fact.NO_ASSERTIONS, an_assertion),
]


@pytest.mark.parametrize(("fact", "change"), BROKEN)
def test_a_fact_that_a_pass_ends_silently_is_named(
    fact: Fact, change: Callable[[Any], None]
) -> None:
    with pytest.raises(InternalError, match=rf"after pass Scripted: {fact.name} "):
        run(Scripted(change, True), facts(fact))
    honest = Scripted(change, True)
    honest.contract = Contract(ends=facts(fact))
    run(honest, facts(fact))


@pytest.mark.parametrize(
    "fact",
    [Fact.ATEN, Fact.SPECS, Fact.OUT_VARIANTS],
)
def test_a_fact_that_a_pass_promises_and_does_not_bring_about_is_named(fact: Fact) -> None:
    one = Scripted(lambda program: None, False)
    one.contract = Contract(ensures=facts(fact))
    with pytest.raises(InternalError, match=rf"after pass Scripted: {fact.name} "):
        run(one)


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: p.state_dict.update(state=torch.zeros(4)),
        lambda p: p.graph_signature.output_specs.append(p.graph_signature.output_specs[0]),
        lambda p: p.graph_signature.input_specs.pop(),
        lambda p: setattr(call(p, "relu"), "args", (call(p, "add_tensor"),)),
    ],
)
def test_a_program_that_contradicts_itself_is_found(damage: Callable[[Any], Any]) -> None:
    with pytest.raises(InternalError, match="after pass Scripted"):
        run(Scripted(damage, True))


def test_a_program_without_the_facts_that_a_pipeline_starts_from_is_refused() -> None:
    program = edge_program()
    write(program)
    with checked_pipeline(), pytest.raises(InternalError, match="the program given"):
        run_pipeline([], program, None, facts(Fact.FUNCTIONAL))


def test_checks_are_made_only_if_they_are_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    liar = Step(lambda c: Scripted(retarget, False))
    monkeypatch.delenv("EXECUTORCH_PY_CHECK_PASSES", raising=False)
    with checked_pipeline(False):
        assert not is_checked()
        run_pipeline([liar], edge_program(), None, frozenset())
        monkeypatch.setenv("EXECUTORCH_PY_CHECK_PASSES", "1")
        assert is_checked()
        with pytest.raises(InternalError):
            run_pipeline([liar], edge_program(), None, frozenset())
        monkeypatch.setenv("EXECUTORCH_PY_CHECK_PASSES", "0")
        assert not is_checked()


def nothing(program: ExportedProgram) -> None:
    """No change."""


def test_passes_within_a_step_are_checked_one_by_one() -> None:
    changes = Scripted(retarget, True)
    with pytest.raises(InternalError, match="pass Scripted returned True, but left"):
        run(IfChanged(changes, then=(Scripted(nothing, True),)))
    with pytest.raises(InternalError, match="pass Scripted returned False, but changed"):
        run(IfChanged(changes, then=(Scripted(new_argument, False),)))
    run(IfChanged(changes, then=(Scripted(new_argument, True),)))
    run(IfChanged(Scripted(nothing, False), then=(Scripted(new_argument, False),)))


def test_facts_of_passes_within_a_step_count() -> None:
    changes, writes = Scripted(retarget, True), Scripted(write, True)
    with pytest.raises(InternalError, match="after pass Scripted: FUNCTIONAL "):
        run(IfChanged(changes, then=(writes,)), facts(Fact.FUNCTIONAL))
    writes.contract = Contract(ends=facts(Fact.FUNCTIONAL))
    run(IfChanged(changes, then=(writes,)), facts(Fact.FUNCTIONAL))


def test_the_contract_of_a_step_holds_whether_the_program_changed_or_not() -> None:
    first, second = Scripted(nothing, False), Scripted(nothing, False)
    first.contract = Contract(
        requires=facts(Fact.FUNCTIONAL), ensures=facts(Fact.NO_VIEWS, Fact.ATEN)
    )
    second.contract = Contract(
        requires=facts(Fact.NO_VIEWS, Fact.SPECS),
        ensures=facts(Fact.EDGE, Fact.NO_VIEWS),
        ends=facts(Fact.ATEN, Fact.DIM_ORDER),
    )
    assert IfChanged(first, then=(second,)).contract == Contract(
        requires=facts(Fact.FUNCTIONAL, Fact.SPECS),
        ensures=facts(Fact.NO_VIEWS),
        ends=facts(Fact.ATEN, Fact.DIM_ORDER),
    )


def outside_the_core_set(program: ExportedProgram) -> None:
    call(program, "relu").target = torch.ops.aten.selu.default


def wrong_dtype(program: ExportedProgram) -> None:
    node = call(program, "relu")
    node.meta["val"] = node.meta["val"].to(torch.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (outside_the_core_set, "selu.default is not in Core ATen"),
        (wrong_dtype, "mismatched dtypes"),
    ],
)
def test_a_pass_that_breaks_a_rule_of_the_dialect_is_named(
    change: Callable[[Any], None], message: str
) -> None:
    broken = rf"after pass Scripted a rule of the dialect EDGE is broken(.|\n)*{message}"
    with pytest.raises(InternalError, match=broken):
        run(Scripted(change, True), facts(Fact.FUNCTIONAL))
    program = edge_program()
    change(program)
    with checked_pipeline():  # a program that comes so, as from a backend, is let through
        run_pipeline([Step(lambda c: Scripted(retarget, True))], program, None, facts())


def test_the_rules_of_the_dialect_end_with_its_facts() -> None:
    one = Scripted(outside_the_core_set, True)
    one.contract = Contract(ends=facts(Fact.FUNCTIONAL))
    run(one, facts(Fact.FUNCTIONAL))
