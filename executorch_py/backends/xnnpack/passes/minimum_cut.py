"""The cheapest way to give things one of two labels, by a minimum cut (Dinic's algorithm).

Things have a fixed label or none; groups say what it costs if their members do not all have the
same label. Knows nothing of graphs of operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_UNBOUNDED = 1 << 60
_SOURCE, _SINK = 0, 1


@dataclass
class TwoLabels:
    """Things are numbered from 0; `true_things` tells which get the label True, fewest possible."""

    _edges: list[list[int]] = field(default_factory=lambda: [[], []])
    _to: list[int] = field(default_factory=list)
    _room: list[int] = field(default_factory=list)

    def thing(self, label: bool | None = None) -> int:
        """A new thing, with a fixed label or free."""
        self._edges.append([])
        vertex = len(self._edges) - 1
        if label is not None:
            ends = (_SOURCE, vertex) if label else (vertex, _SINK)
            self._connect(*ends, _UNBOUNDED)
        return vertex

    def group(self, members: Iterable[int], cost: int) -> None:
        """`cost` is due once if the members are not all alike."""
        chosen = list(dict.fromkeys(members))
        if len(chosen) < 2:
            return
        if len(chosen) == 2:
            self._connect(chosen[0], chosen[1], cost, cost)
            return
        above, below = self.thing(), self.thing()
        self._connect(above, below, cost)
        for member in chosen:
            self._connect(member, above, _UNBOUNDED)
            self._connect(below, member, _UNBOUNDED)

    def true_things(self) -> set[int]:
        """The things labelled True in a cheapest labelling."""
        while (levels := self._levels())[_SINK] >= 0:
            positions = [0] * len(self._edges)
            while self._push(levels, positions):
                pass
        return {vertex for vertex, level in enumerate(self._levels()) if level >= 0}

    def _connect(self, start: int, end: int, room: int, back: int = 0) -> None:
        self._edges[start].append(len(self._to))
        self._to.append(end)
        self._room.append(room)
        self._edges[end].append(len(self._to))
        self._to.append(start)
        self._room.append(back)

    def _levels(self) -> list[int]:
        """Distances from the source over edges with room; -1 where there is no way."""
        levels = [-1] * len(self._edges)
        levels[_SOURCE] = 0
        queue = [_SOURCE]
        for vertex in queue:
            for edge in self._edges[vertex]:
                end = self._to[edge]
                if self._room[edge] and levels[end] < 0:
                    levels[end] = levels[vertex] + 1
                    queue.append(end)
        return levels

    def _push(self, levels: list[int], positions: list[int]) -> bool:
        """Send what fits along one more path; whether there was one."""
        path: list[int] = []
        vertex = _SOURCE
        while vertex != _SINK:
            edges = self._edges[vertex]
            while positions[vertex] < len(edges):
                edge = edges[positions[vertex]]
                if self._room[edge] and levels[self._to[edge]] == levels[vertex] + 1:
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
        flow = min(self._room[edge] for edge in path)
        for edge in path:
            self._room[edge] -= flow
            self._room[edge ^ 1] += flow
        return True
