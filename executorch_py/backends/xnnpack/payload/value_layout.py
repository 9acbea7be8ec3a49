"""How the dimensions of values lie in memory: orders, sizes and axes for each layout.

An order lists the exported graph's dimensions from outermost to innermost, None for a dimension of
size 1 that memory has and the graph has not (a row of pixels is an image of height 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from executorch_py.backends.xnnpack.payload.graph import Layout, Shape, Size, Symbol, Value

Order = tuple[int | None, ...]

_IMAGE_ORDERS: dict[int, Order] = {4: (0, 2, 3, 1), 3: (0, None, 2, 1)}


def memory_order(rank: int, layout: Layout) -> Order:
    """The order of a value of some rank; a number is a vector of one element."""
    if rank == 0:
        return (None,)
    return _IMAGE_ORDERS[rank] if layout is Layout.IMAGE else tuple(range(rank))


def order_of(value: Value) -> Order:
    return memory_order(value.rank, value.layout)


def in_memory(per_dim: Sequence[Size], order: Order, missing: int) -> Shape:
    """One number per dimension in the order of memory."""
    return tuple(missing if d is None else per_dim[d] for d in order)


def memory_shape(value: Value) -> Shape:
    """Sizes in the order of memory."""
    return in_memory(value.shape, order_of(value), 1)


def same_bytes(shape: Shape, one: Order, other: Order) -> bool:
    """Whether two orders of a shape store every element at the same place."""
    return _moving(shape, one) == _moving(shape, other)


def _moving(shape: Shape, order: Order) -> list[int]:
    return [d for d in order if d is not None and shape[d] != 1]


def merged_groups(fine: Shape, coarse: Shape) -> list[tuple[int, ...]] | None:
    """The dimensions of `fine` that make each dimension of `coarse`; None if it is no merging."""
    groups: list[tuple[int, ...]] = []
    position = 0
    for size in coarse:
        group = [position]
        if position >= len(fine):
            return None
        if fine[position] != size:
            total = 1
            group = []
            while position < len(fine) and total != size:
                part = fine[position]
                if isinstance(part, Symbol) or isinstance(size, Symbol):
                    return None
                total *= part
                group.append(position)
                position += 1
            if total != size:
                return None
        else:
            position += 1
        groups.append(tuple(group))
    return groups if position == len(fine) else None
