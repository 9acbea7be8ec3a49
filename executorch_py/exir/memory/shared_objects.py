"""The choice of a shared object under upstream's name, for planning algorithms written for it."""

from __future__ import annotations

from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.memory.graph_queries import AllocationSpec, SharedObject
from executorch_py.exir.memory.greedy import SharedStorage, find_room
from executorch_py.exir.memory.request import Request

__all__ = ["pick_shared_obj"]


def _request(spec: TensorSpec) -> Request:
    first, last = spec.lifetime
    return Request(spec.allocated_memory, first or 0, last or 0)


def pick_shared_obj(
    shared_objects: list[SharedObject],
    spec: TensorSpec,
    allow_overlapping_allocations: bool = True,
) -> SharedObject:
    """Give a tensor room in the first object that has some, else in a new one at the end."""
    storages = [
        SharedStorage(item.size, [(a.offset, _request(a.spec)) for a in item.allocations])
        for item in shared_objects
    ]
    request = _request(spec)
    place = find_room(storages, request, allow_overlapping_allocations)
    if place is None:
        place = len(shared_objects), 0
        shared_objects.append(
            SharedObject(len(shared_objects), -1, request.size, request.first, request.last)
        )
    chosen = shared_objects[place[0]]
    chosen.first_used_index = min(chosen.first_used_index, request.first)
    chosen.last_used_index = max(chosen.last_used_index, request.last)
    chosen.allocations.append(AllocationSpec(place[1], spec))
    return chosen
