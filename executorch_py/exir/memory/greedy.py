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
class SharedStorage:
    """An object: its bytes, and the offsets of its storages with their lifetimes."""

    size: int
    occupants: list[tuple[int, Request]] = field(default_factory=list)


def place_in_shared_objects(
    requests: Sequence[Request], overlapping: bool = True, order: Sequence[int] | None = None
) -> Layout:
    """Plan with shared objects; `overlapping` lets storages alive together split one object.

    `order` replaces the order of decreasing size.
    """
    objects: list[SharedStorage] = []
    placed: dict[int, tuple[int, int]] = {}
    for index in by_decreasing_size([r.size for r in requests]) if order is None else order:
        request = requests[index]
        place = find_room(objects, request, overlapping)
        if place is None:
            place = len(objects), 0
            objects.append(SharedStorage(request.size))
        objects[place[0]].occupants.append((place[1], request))
        placed[index] = place
    starts, end = [], 0
    for item in objects:
        starts.append(end)
        end += item.size
    offsets = tuple(starts[placed[i][0]] + placed[i][1] for i in range(len(requests)))
    return Layout(offsets, end, tuple(placed[i][0] for i in range(len(requests))))


def by_decreasing_size(sizes: Sequence[int]) -> list[int]:
    """Positions of sizes in the order of placement: of equal sizes the last one first."""
    ascending: list[tuple[int, int]] = []
    for index, size in enumerate(sizes):
        insort(ascending, (size, index))
    return [index for _, index in reversed(ascending)]


def find_room(
    objects: Sequence[SharedStorage], request: Request, overlapping: bool
) -> tuple[int, int] | None:
    """The first object that can hold a storage as it is, and the offset there; None if none can."""
    for number, item in enumerate(objects):
        busy = any(overlap(request, other) for _, other in item.occupants)
        if item.size >= request.size and not busy:
            return number, 0
    for number, item in enumerate(objects) if overlapping else ():
        ends = [offset + other.size for offset, other in item.occupants if overlap(request, other)]
        if ends and max(ends) + request.size <= item.size:
            return number, max(ends)
    return None
