"""Merges supported nodes, and groups that must stay together, into as few partitions as possible.

Two parts may merge if no path leads from one to the other through a third part, because the merged
part would then depend on itself. Reachability is kept as bit sets over the parts, so it costs few
operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx
from torch.fx.passes.infra.partitioner import Partition
from torch.fx.passes.operator_support import OperatorSupportBase


class GroupBasedPartitioner:
    """Proposes partitions; nodes of one group land in one partition, later nodes have lower ids."""

    def __init__(
        self,
        graph_module: fx.GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        node_groups: Sequence[Sequence[fx.Node]] | None = None,
    ) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self._no_compute = {"_operator.getitem", *(non_compute_ops or ())}
        self._allowed_alone = set(allowed_single_node_partition_ops or ())
        self._group_of: dict[fx.Node, int] = {}
        for number, group in enumerate(node_groups or ()):
            for node in group:
                if self._group_of.setdefault(node, number) != number:
                    raise ValueError(f"node '{node}' is in more than one group")

    def propose_partitions(self) -> list[Partition]:
        """The partitions, numbered from 0; their nodes are in graph order."""
        parts = _Parts(self.graph_module.graph)
        candidates = self._initial(parts)
        merged: set[int] = set()
        for i, first in enumerate(candidates):
            if first in merged:
                continue
            for second in candidates[i + 1 :]:
                if second not in merged and parts.can_merge(first, second):
                    parts.merge(first, second)
                    merged.add(second)
        kept = [p for p in candidates if p not in merged and self._is_worth_it(parts.nodes[p])]
        partitions = []
        for number, part in enumerate(kept):
            partition = Partition(id=number)
            for node in sorted(parts.nodes[part], key=parts.position.__getitem__):
                partition.add_node(node)
            partitions.append(partition)
        return partitions

    def _initial(self, parts: _Parts) -> list[int]:
        """One part per group and per further supported node, from the end of the graph."""
        submodules = dict(self.graph_module.named_modules())
        heads: dict[object, int] = {}
        order: list[int] = []
        for node in reversed(self.graph_module.graph.nodes):
            if node.op == "output" or not self.operator_support.is_node_supported(submodules, node):
                continue
            key = self._group_of.get(node, node)
            part = parts.position[node]
            if key not in heads:
                heads[key] = part
                order.append(part)
            elif parts.can_merge(heads[key], part):
                parts.merge(heads[key], part)
            else:
                heads[key] = part  # the group cannot be one delegate; its rest starts another
                order.append(part)
        return order

    def _is_worth_it(self, nodes: Sequence[fx.Node]) -> bool:
        if self.allows_single_node_partition:
            return True
        names = [
            fx.node._get_qualified_name(node.target)
            for node in nodes
            if node.op == "call_function" and callable(node.target)
        ]
        compute = [name for name in names if name not in self._no_compute]
        return len(compute) > 1 or any(name in self._allowed_alone for name in compute)


class _Parts:
    """Parts of a graph by the position of their first member; at first every node is a part."""

    def __init__(self, graph: fx.Graph) -> None:
        all_nodes = list(graph.nodes)
        self.position = {node: i for i, node in enumerate(all_nodes)}
        self.nodes: dict[int, list[fx.Node]] = {i: [n] for i, n in enumerate(all_nodes)}
        self._up = [0] * len(all_nodes)
        self._down = [0] * len(all_nodes)
        for i, node in enumerate(all_nodes):
            for arg in node.all_input_nodes:
                j = self.position[arg]
                self._up[i] |= self._up[j] | 1 << j
        for i in reversed(range(len(all_nodes))):
            for user in all_nodes[i].users:
                j = self.position[user]
                self._down[i] |= self._down[j] | 1 << j

    def can_merge(self, a: int, b: int) -> bool:
        """Whether no third part lies on a path between the two."""
        both = 1 << a | 1 << b
        between = self._down[a] & self._up[b] | self._down[b] & self._up[a]
        return not between & ~both

    def merge(self, a: int, b: int) -> None:
        """Make `b` a part of `a`."""
        both = 1 << a | 1 << b
        up, down = (self._up[a] | self._up[b]) & ~both, (self._down[a] | self._down[b]) & ~both
        self.nodes[a] += self.nodes.pop(b)
        for i in self.nodes:
            if up >> i & 1:
                self._down[i] = (self._down[i] | down | 1 << a) & ~(1 << b)
            if down >> i & 1:
                self._up[i] = (self._up[i] | up | 1 << a) & ~(1 << b)
        self._up[a], self._down[a] = up, down
