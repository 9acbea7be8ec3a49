"""The shared-object strategy: storages in decreasing size, each in the first object that has room.

The order, ties included, and the choice of object are those of upstream's `greedy`, so that its
plans can be reproduced byte for byte. An object is a contiguous part of the arena, as large as its
first storage.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from executorch_py.exir.memory.request import Layout, Request, overlap


@dataclass
class _Object:
    size: int
    occupants: list[tuple[int, Request]] = field(default_factory=list)


def place_in_shared_objects(requests: Sequence[Request], overlapping: bool = True) -> Layout:
    """Plan with shared objects; `overlapping` lets storages alive together split one object."""
    objects: list[_Object] = []
    placed: dict[int, tuple[int, int]] = {}
    for index in _by_decreasing_size(requests):
        request = requests[index]
        number, offset = _pick(objects, request, overlapping)
        if number == len(objects):
            objects.append(_Object(request.size))
        objects[number].occupants.append((offset, request))
        placed[index] = (number, offset)
    starts, end = [], 0
    for item in objects:
        starts.append(end)
        end += item.size
    offsets = tuple(starts[placed[i][0]] + placed[i][1] for i in range(len(requests)))
    return Layout(offsets, end, tuple(placed[i][0] for i in range(len(requests))))


def _by_decreasing_size(requests: Sequence[Request]) -> list[int]:
    ascending: list[tuple[int, int]] = []
    for index, request in enumerate(requests):
        insort(ascending, (request.size, index))
    return [index for _, index in reversed(ascending)]


def _pick(objects: list[_Object], request: Request, overlapping: bool) -> tuple[int, int]:
    for number, item in enumerate(objects):
        if not any(overlap(request, other) for _, other in item.occupants):
            return number, 0
    for number, item in enumerate(objects) if overlapping else ():
        used = max(
            offset + other.size for offset, other in item.occupants if overlap(request, other)
        )
        if used + request.size <= item.size:
            return number, used
    return len(objects), 0
