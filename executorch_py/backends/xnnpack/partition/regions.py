"""Partitions a graph into few and large regions without dependency cycles.

Every node gets a level. The nodes of a region have one level, and a node behind one that stays
outside has a higher level than the nodes before that. The highest level is then the longest
alternation of inside and outside along any path, so that no other division has fewer regions. The
time is linear in the graph. Knows nodes, colocated nodes and which of them are wanted; not why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from torch import fx

from executorch_py.exir.ir.op_traits import is_getitem


@dataclass
class _Unit:
    """Nodes that are inside or outside of a region together."""

    nodes: list[fx.Node]
    wanted: bool
    sources: list[int]  # units that it reads
    readers: list[int]  # units that read it
    level: int = 0
    is_output: bool = False  # whether the graph returns one of its values


class Regions:
    """Divides the `wanted` nodes of a graph.

    colocated: sets of nodes that must be in one region. movable: nodes that run wherever their
    users do and constrain no region, because each user can have a copy.
    """

    def __init__(
        self,
        graph: fx.Graph,
        wanted: Collection[fx.Node],
        colocated: Iterable[Collection[fx.Node]] = (),
        movable: Collection[fx.Node] = (),
    ) -> None:
        self._graph, self._wanted, self._movable = graph, set(wanted), set(movable)
        self._position = {node: i for i, node in enumerate(graph.nodes)}
        self._head: dict[fx.Node, fx.Node] = {}
        for node in graph.nodes:
            if is_getitem(node.target):
                self._join(node, node.args[0])
        for together in colocated:
            members = sorted(together, key=self._position.__getitem__)
            for member in members[1:]:
                self._join(member, members[0])
        self.cyclic: set[fx.Node] = set()  # colocated nodes whose region would depend on itself
        self._units = self._make_units()
        self._order = self._sorted()

    # ---- units

    def _find(self, node: fx.Node) -> fx.Node:
        while node in self._head:
            node = self._head[node]
        return node

    def _join(self, node: fx.Node, other: object) -> None:
        assert isinstance(other, fx.Node)
        a, b = self._find(node), self._find(other)
        if a is not b:
            first, second = sorted((a, b), key=self._position.__getitem__)
            self._head[second] = first

    def _sources(self, node: fx.Node) -> list[fx.Node]:
        """The calls that a node reads, directly or through movable nodes."""
        found, waiting = [], list(node.all_input_nodes)
        while waiting:
            arg = waiting.pop()
            if arg in self._movable:
                waiting += arg.all_input_nodes
            elif arg.op == "call_function":
                found.append(arg)
        return found

    def _make_units(self) -> list[_Unit]:
        numbers: dict[fx.Node, int] = {}
        units: list[_Unit] = []
        calls = [n for n in self._graph.nodes if n.op == "call_function"]
        calls = [node for node in calls if node not in self._movable]
        for node in calls:
            head = self._find(node)
            if head not in numbers:
                numbers[head] = len(units)
                units.append(_Unit([], head in self._wanted, [], []))
            units[numbers[head]].nodes.append(node)
        for node in calls:
            mine = numbers[self._find(node)]
            for source in self._sources(node):
                other = numbers[self._find(source)]
                if other != mine:
                    units[mine].sources.append(other)
                    units[other].readers.append(mine)
            units[mine].is_output |= any(user.op == "output" for user in node.users)
        return units

    def _sorted(self) -> list[int]:
        """Units in topological order; nodes of units on a cycle go to `cyclic`."""
        missing = [len(unit.sources) for unit in self._units]
        ready = [i for i, n in enumerate(missing) if n == 0]
        order = []
        while ready:
            i = ready.pop()
            order.append(i)
            for j in self._units[i].readers:
                missing[j] -= 1
                if missing[j] == 0:
                    ready.append(j)
        stuck = set(range(len(self._units))) - set(order)
        for i in stuck:
            if len(self._units[i].nodes) > 1:
                self.cyclic.update(self._units[i].nodes)
        return order

    # ---- regions

    def divide(self, keep: Callable[[Sequence[fx.Node]], bool]) -> list[list[fx.Node]]:
        """The regions in execution order, each with its nodes in graph order.

        keep: whether a connected part of a region is worth a delegate; others stay outside.
        """
        while True:
            self._set_levels()
            self._delay()
            parts = self._connected_parts()
            refused = [part for part in parts if not keep(self._nodes_of(part))]
            if not refused:
                break
            for part in refused:
                for i in part:
                    self._units[i].wanted = False
        by_level: dict[int, list[int]] = {}
        for part in parts:
            by_level.setdefault(self._units[part[0]].level, []).extend(part)
        return [self._nodes_of(by_level[level]) for level in sorted(by_level)]

    def singles(self) -> list[list[fx.Node]]:
        """A region per wanted node or group."""
        wanted = [i for i in self._order if self._units[i].wanted]
        return [self._nodes_of([i]) for i in wanted]

    def _nodes_of(self, part: Iterable[int]) -> list[fx.Node]:
        nodes = [node for i in part for node in self._units[i].nodes]
        return sorted(nodes, key=self._position.__getitem__)

    def _set_levels(self) -> None:
        for i in self._order:
            unit = self._units[i]
            unit.level = 0
            for j in unit.sources:
                other = self._units[j]
                step = 1 if other.wanted and not unit.wanted else 0
                unit.level = max(unit.level, other.level + step)

    def _connected_parts(self) -> list[list[int]]:
        """Wanted units of one level that values connect."""
        part_of: dict[int, list[int]] = {}
        for i in self._order:
            unit = self._units[i]
            if not unit.wanted:
                continue
            mine = part_of.setdefault(i, [i])
            for j in unit.sources:
                other = part_of.get(j)
                if other is None or other is mine or self._units[j].level != unit.level:
                    continue
                if len(other) > len(mine):
                    mine, other = other, mine
                mine += other
                for k in other:
                    part_of[k] = mine
        return list({id(part): part for part in part_of.values()}.values())

    def _delay(self) -> None:
        """Move parts that only later regions read into the first of these regions."""
        parts = self._connected_parts()
        for part in sorted(parts, key=lambda p: -self._units[p[0]].level):
            own = self._units[part[0]].level
            members = set(part)
            if any(self._units[i].is_output for i in part):
                continue
            readers = {j for i in part for j in self._units[i].readers} - members
            limits = [
                u.level if u.wanted else u.level - 1 for u in map(self._units.__getitem__, readers)
            ]
            if limits and min(limits) > own:
                for i in part:
                    self._units[i].level = min(limits)


def edges_of(nodes: Sequence[fx.Node], cheap: Collection[fx.Node]) -> set[fx.Node]:
    """The `cheap` nodes at the beginning or end of a region, also behind each other."""
    inside = set(nodes)
    found: set[fx.Node] = set()
    changed = True
    while changed:
        changed = False
        for node in nodes:
            if node not in inside or node not in cheap:
                continue
            first = not any(arg in inside for arg in node.all_input_nodes)
            if first or not any(user in inside for user in node.users):
                inside.discard(node)
                found.add(node)
                changed = True
    return found
