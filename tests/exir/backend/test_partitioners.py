"""Grouping of nodes into partitions: as few as possible, and none on a dependency cycle."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.passes.operator_support import OperatorSupportBase

from executorch_py.exir.backend.canonical_partitioners.config_partitioner import (
    format_target_name,
)
from executorch_py.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_grouped_partitions_from_list_of_nodes,
    generate_partitions_from_list_of_nodes,
)
from executorch_py.exir.backend.operator_support import DontPartition, DontPartitionName
from executorch_py.exir.backend.utils import DelegateMappingBuilder, WhyNoPartitionReporter


def chain(names: str) -> fx.GraphModule:
    """A graph of unary calls, one after another: `a` supported, `b` not."""
    graph = fx.Graph()
    node = graph.placeholder("x")
    for name in names:
        node = graph.call_function(torch.relu if name == "a" else torch.sin, (node,))
    graph.output(node)
    return fx.GraphModule(torch.nn.Module(), graph)


def diamond() -> tuple[fx.GraphModule, dict[str, fx.Node]]:
    """A graph where relu feeds sin (not supported) and add, and add reads both."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    top = graph.call_function(torch.relu, (x,))
    side = graph.call_function(torch.sin, (top,))
    bottom = graph.call_function(torch.add, (top, side))
    graph.output(bottom)
    nodes = {"top": top, "side": side, "bottom": bottom}
    return fx.GraphModule(torch.nn.Module(), graph), nodes


class Not(OperatorSupportBase):
    def __init__(self, *targets: Any) -> None:
        self.targets = targets

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node.op == "call_function" and node.target not in self.targets


@pytest.mark.parametrize(("names", "count"), [("aaa", 1), ("aba", 2), ("b", 0), ("abab", 2)])
def test_chains_are_cut_where_a_node_is_not_supported(names: str, count: int) -> None:
    for make in (
        generate_partitions_from_list_of_nodes,
        generate_grouped_partitions_from_list_of_nodes,
    ):
        assert len(make(chain(names), op_support=Not(torch.sin))) == count


def test_nodes_around_an_unsupported_one_do_not_merge() -> None:
    gm, nodes = diamond()
    found = generate_grouped_partitions_from_list_of_nodes(gm, op_support=Not(torch.sin))
    assert sorted(p.size() for p in found) == [1, 1]
    found = generate_grouped_partitions_from_list_of_nodes(
        gm, [[nodes["top"], nodes["side"], nodes["bottom"]]]
    )
    assert [p.size() for p in found] == [3]


def test_two_partitions_never_depend_on_each_other() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    a1 = graph.call_function(torch.relu, (x,))
    b1 = graph.call_function(torch.relu, (x,))
    a2 = graph.call_function(torch.sin, (b1,))
    b2 = graph.call_function(torch.sin, (a1,))
    a3 = graph.call_function(torch.add, (a1, a2))
    b3 = graph.call_function(torch.add, (b1, b2))
    graph.output((a3, b3))
    gm = fx.GraphModule(torch.nn.Module(), graph)
    found = generate_grouped_partitions_from_list_of_nodes(gm, op_support=Not(torch.sin))
    position = {node: i for i, p in enumerate(found) for node in p.nodes}
    needs = {
        (position.get(node, node), position.get(arg, arg))
        for node in graph.nodes
        for arg in node.all_input_nodes
        if position.get(node, node) != position.get(arg, arg)
    }
    done: set[Any] = set()
    parts = {part for pair in needs for part in pair}
    while parts - done:
        ready = {p for p in parts - done if all(b in done for a, b in needs if a == p)}
        assert ready, "partitions wait for each other"
        done |= ready


def test_a_node_in_two_groups_is_refused() -> None:
    gm, nodes = diamond()
    with pytest.raises(ValueError, match="more than one group"):
        generate_grouped_partitions_from_list_of_nodes(gm, [[nodes["top"]], [nodes["top"]]])


def test_target_names_lose_their_namespace() -> None:
    assert format_target_name("aten.linear.default") == "linear.default"
    assert format_target_name("linear.default") == "linear.default"


def test_checks_remember_what_they_rejected() -> None:
    _, nodes = diamond()
    by_target, by_name = DontPartition(torch.sin), DontPartitionName("add", exact=False)
    assert not by_target.is_node_supported({}, nodes["side"])
    assert by_target.is_node_supported({}, nodes["top"])
    assert by_target.rejected_nodes() == [nodes["side"]]
    assert not by_name.is_node_supported({}, nodes["bottom"])


def test_reports_list_the_first_reason_of_each_node() -> None:
    _, nodes = diamond()
    reporter = WhyNoPartitionReporter()
    assert reporter.get_table_report() == "No nodes rejected."
    wrapped = reporter.wrap_check(Not(torch.sin), "no sine here")
    assert not wrapped.is_node_supported({}, nodes["side"])
    reporter.report_reject(nodes["side"], "another reason")
    assert "no sine here" in reporter.get_table_report()
    assert "another reason" not in reporter.get_table_report()


def test_delegate_maps_collect_handles() -> None:
    _, nodes = diamond()
    nodes["top"].meta["debug_handle"] = 7
    builder = DelegateMappingBuilder(generated_identifiers=True)
    assert builder.insert_delegate_mapping_entry(nodes=nodes["top"]) == 0
    assert builder.insert_delegate_mapping_entry(handles=[3, None, 1]) == 1
    assert builder.get_delegate_mapping() == {0: (7,), 1: (1, 3)}
    with pytest.raises(ValueError, match="expected no identifier"):
        builder.insert_delegate_mapping_entry(handles=1, identifier=5)
