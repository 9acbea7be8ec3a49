"""Minimum cut of a hypergraph into two sides (Dinic's algorithm).

Vertices are fixed to a side or free. A hyperedge has a cost, due if its vertices are not all on one
side. Knows nothing of graphs of operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_UNBOUNDED = 1 << 60
_SOURCE, _SINK = 0, 1


@dataclass
class MinimumCut:
    """A hypergraph; `source_side` finds the cut of least cost with the smallest source side."""

    _edges: list[list[int]] = field(default_factory=lambda: [[], []])
    _to: list[int] = field(default_factory=list)
    _capacity: list[int] = field(default_factory=list)

    def vertex(self, on_source_side: bool | None = None) -> int:
        """Add a vertex, fixed to a side or free, and return its number."""
        self._edges.append([])
        vertex = len(self._edges) - 1
        if on_source_side is not None:
            ends = (_SOURCE, vertex) if on_source_side else (vertex, _SINK)
            self._add_edge(*ends, _UNBOUNDED)
        return vertex

    def connect(self, members: Iterable[int], cost: int) -> None:
        """Add a hyperedge; its cost is due once if the members are not all on one side."""
        chosen = list(dict.fromkeys(members))
        if len(chosen) < 2:
            return
        if len(chosen) == 2:
            self._add_edge(chosen[0], chosen[1], cost, cost)
            return
        above, below = self.vertex(), self.vertex()
        self._add_edge(above, below, cost)
        for member in chosen:
            self._add_edge(member, above, _UNBOUNDED)
            self._add_edge(below, member, _UNBOUNDED)

    def source_side(self) -> set[int]:
        """The vertices on the source side of a minimum cut."""
        while (levels := self._levels())[_SINK] >= 0:
            positions = [0] * len(self._edges)
            while self._push(levels, positions):
                pass
        return {vertex for vertex, level in enumerate(self._levels()) if level >= 0}

    def _add_edge(self, start: int, end: int, capacity: int, back: int = 0) -> None:
        """Add an edge and its reverse, which is edge ^ 1."""
        self._edges[start].append(len(self._to))
        self._to.append(end)
        self._capacity.append(capacity)
        self._edges[end].append(len(self._to))
        self._to.append(start)
        self._capacity.append(back)

    def _levels(self) -> list[int]:
        """Distances from the source over edges with capacity left; -1 where there is no path."""
        levels = [-1] * len(self._edges)
        levels[_SOURCE] = 0
        queue = [_SOURCE]
        for vertex in queue:
            for edge in self._edges[vertex]:
                end = self._to[edge]
                if self._capacity[edge] and levels[end] < 0:
                    levels[end] = levels[vertex] + 1
                    queue.append(end)
        return levels

    def _push(self, levels: list[int], positions: list[int]) -> bool:
        """Push the flow of one more augmenting path; False if there is none."""
        path: list[int] = []
        vertex = _SOURCE
        while vertex != _SINK:
            edges = self._edges[vertex]
            while positions[vertex] < len(edges):
                edge = edges[positions[vertex]]
                if self._capacity[edge] and levels[self._to[edge]] == levels[vertex] + 1:
                    break
                positions[vertex] += 1
            else:
                if not path:
                    return False
                vertex = self._to[path.pop() ^ 1]
                positions[vertex] += 1
                continue
            path.append(edge)
            vertex = self._to[edge]
        flow = min(self._capacity[edge] for edge in path)
        for edge in path:
            self._capacity[edge] -= flow
            self._capacity[edge ^ 1] += flow
        return True
