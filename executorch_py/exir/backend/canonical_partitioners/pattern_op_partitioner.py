"""Partitions from lists of nodes, from patterns, or from a check of single nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase, any_chain
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

from executorch_py.exir.backend.canonical_partitioners.group_partitioner import (
    GroupBasedPartitioner,
)


class _OneOf(OperatorSupportBase):
    """Supports the nodes given."""

    def __init__(self, nodes: Iterable[fx.Node]) -> None:
        self._nodes = set(nodes)

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node in self._nodes


def _support(
    nodes: Iterable[fx.Node] | None, op_support: OperatorSupportBase | None
) -> OperatorSupportBase:
    if nodes is None:
        if op_support is None:
            raise ValueError("partitioning needs nodes, patterns or an OperatorSupportBase")
        return op_support
    listed = _OneOf(nodes)
    return listed if op_support is None else any_chain(op_support, listed)


def _propose(
    make: Callable[..., Any], gm: fx.GraphModule, support: OperatorSupportBase, **extra: Any
) -> list[Partition]:
    partitioner = make(gm, support, allows_single_node_partition=True, **extra)
    return list(partitioner.propose_partitions())


def generate_partitions_from_list_of_nodes(
    graph_module: fx.GraphModule,
    pattern_list: Sequence[Sequence[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
) -> list[Partition]:
    """Largest partitions over the nodes listed or supported."""
    nodes = None if pattern_list is None else [n for group in pattern_list for n in group]
    return _propose(CapabilityBasedPartitioner, graph_module, _support(nodes, op_support))


def generate_grouped_partitions_from_list_of_nodes(
    graph_module: fx.GraphModule,
    pattern_list: Sequence[Sequence[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
) -> list[Partition]:
    """Largest partitions in which the nodes of one list stay together."""
    nodes = None if pattern_list is None else [n for group in pattern_list for n in group]
    support = _support(nodes, op_support)
    return _propose(GroupBasedPartitioner, graph_module, support, node_groups=pattern_list)


def generate_pattern_op_partitions(
    graph_module: fx.GraphModule,
    patterns: Sequence[fx.Graph] | None = None,
    partitions_list: Sequence[Sequence[fx.Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
    ignore_literals: bool = False,
) -> list[Partition]:
    """Largest partitions over nodes that match a pattern, are listed, or are supported."""
    nodes = [n for group in partitions_list or () for n in group]
    for pattern in patterns or ():
        matcher = SubgraphMatcher(pattern, ignore_literals=ignore_literals)
        for match in matcher.match(graph_module.graph):
            nodes += [
                found
                for wanted, found in match.nodes_map.items()
                if wanted.op != "placeholder" and found.op != "placeholder"
            ]
    return _propose(CapabilityBasedPartitioner, graph_module, _support(nodes, op_support))
