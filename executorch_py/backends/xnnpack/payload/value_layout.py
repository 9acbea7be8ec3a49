"""Memory order of dimensions for each layout, and shapes in that order.

An order lists the exported graph's dimensions from outermost to innermost. None is a dimension of
size 1 that only memory has: a row of pixels is an image of height 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from executorch_py.backends.xnnpack.payload.graph import Layout, Shape, Size, Symbol, Value

Order = tuple[int | None, ...]

_IMAGE_ORDERS: dict[int, Order] = {4: (0, 2, 3, 1), 3: (0, None, 2, 1)}


def memory_order(rank: int, layout: Layout) -> Order:
    """The memory order of values of a rank; a number is a vector of one element."""
    if rank == 0:
        return (None,)
    return _IMAGE_ORDERS[rank] if layout is Layout.IMAGE else tuple(range(rank))


def order_of(value: Value) -> Order:
    return memory_order(value.rank, value.layout)


def in_memory(per_dim: Sequence[Size], order: Order, missing: int) -> Shape:
    """Numbers per dimension, rearranged to the memory order."""
    return tuple(missing if d is None else per_dim[d] for d in order)


def memory_shape(value: Value) -> Shape:
    """The shape of a value in memory order."""
    return in_memory(value.shape, order_of(value), 1)


def same_bytes(shape: Shape, one: Order, other: Order) -> bool:
    """Whether two orders of a shape store each element at the same offset."""
    return _larger_dims(shape, one) == _larger_dims(shape, other)


def _larger_dims(shape: Shape, order: Order) -> list[int]:
    """The dimensions of sizes other than 1, in an order."""
    return [d for d in order if d is not None and shape[d] != 1]


def merged_dims(fine: Shape, coarse: Shape) -> list[tuple[int, ...]] | None:
    """The dimensions of `fine` that are merged in each dimension of `coarse`.

    The result is None if the reshape from `fine` to `coarse` does more than merge consecutive
    dimensions.
    """
    merged: list[tuple[int, ...]] = []
    position = 0
    for size in coarse:
        run = [position]
        if position >= len(fine):
            return None
        if fine[position] != size:
            total = 1
            run = []
            while position < len(fine) and total != size:
                part = fine[position]
                if isinstance(part, Symbol) or isinstance(size, Symbol):
                    return None
                total *= part
                run.append(position)
                position += 1
            if total != size:
                return None
        else:
            position += 1
        merged.append(tuple(run))
    return merged if position == len(fine) else None
