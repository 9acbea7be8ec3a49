"""The dim-order operators: copies, clones and empties that name a layout by dimension order.

These operators replace torch operators with a `memory_format` in the edge dialect, because a file
stores a dim order. Importing this module defines the library `dim_order_ops` in torch, once per
process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library

from executorch_py.exir.dialects.edge_ops import EdgeOpOverload, ops

_OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_DEFINITIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    (
        f"_to_dim_order_copy(Tensor self, *, {_OPTIONS}, bool non_blocking=False, "
        "int[]? dim_order=None) -> Tensor",
        torch.ops.aten._to_copy.default,
    ),
    (
        "_to_dim_order_copy.out(Tensor self, *, bool non_blocking=False, int[]? dim_order=None, "
        "Tensor(a!) out) -> Tensor(a!)",
        torch.ops.aten._to_copy.out,
    ),
    (
        f"_empty_dim_order(int[] size, *, {_OPTIONS}, int[]? dim_order=None) -> Tensor",
        torch.ops.aten.empty.memory_format,
    ),
    (
        "_empty_dim_order.out(int[] size, *, int[]? dim_order=None, Tensor(a!) out) -> Tensor(a!)",
        torch.ops.aten.empty.out,
    ),
    (
        "_clone_dim_order(Tensor self, *, bool non_blocking=False, int[]? dim_order=None) "
        "-> Tensor",
        torch.ops.aten.clone.default,
    ),
    (
        "_clone_dim_order.out(Tensor self, *, bool non_blocking=False, int[]? dim_order=None, "
        "Tensor(a!) out) -> Tensor(a!)",
        torch.ops.aten.clone.out,
    ),
)
_CHANNELS_LAST = [0, 2, 3, 1]
_CHANNELS_LAST_3D = [0, 2, 3, 4, 1]


def contiguous_dim_order(ndim: int) -> list[int]:
    """The dim order of a contiguous tensor."""
    return list(range(ndim))


def dim_order_of_format(memory_format: torch.memory_format | None, ndim: int) -> list[int] | None:
    """The dim order that a memory format means for `ndim` dimensions; None: keep the input's."""
    if memory_format in (None, torch.preserve_format):
        return None
    if memory_format == torch.contiguous_format:
        return contiguous_dim_order(ndim)
    if memory_format == torch.channels_last and ndim == 4:
        return list(_CHANNELS_LAST)
    if memory_format == torch.channels_last_3d and ndim == 5:
        return list(_CHANNELS_LAST_3D)
    raise ValueError(f"{memory_format} has no dim order for a tensor of {ndim} dimensions")


def format_of_dim_order(dim_order: Sequence[int] | None) -> torch.memory_format:
    """The torch memory format of a dim order; ValueError for one that torch cannot name."""
    if dim_order is None:
        return torch.preserve_format
    order = list(dim_order)
    if order == contiguous_dim_order(len(order)):
        return torch.contiguous_format
    if order == _CHANNELS_LAST:
        return torch.channels_last
    if order == _CHANNELS_LAST_3D:
        return torch.channels_last_3d
    raise ValueError(f"dim order {order} is neither contiguous nor channels_last")


def _strided_copy(result: torch.Tensor, dim_order: Sequence[int]) -> torch.Tensor:
    """`result` laid out in any dim order, for the orders that torch has no name for."""
    order = list(dim_order)
    inverse = [order.index(d) for d in range(len(order))]
    return result.permute(order).contiguous().permute(inverse)


def _implementation(target: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(*args: Any, dim_order: Sequence[int] | None = None, **kwargs: Any) -> Any:
        try:
            memory_format = format_of_dim_order(dim_order)
        except ValueError:
            result = target(*args, **kwargs)
            assert dim_order is not None
            return result if "out" in kwargs else _strided_copy(result, dim_order)
        if target is torch.ops.aten.empty.memory_format and dim_order is None:
            memory_format = torch.contiguous_format
        return target(*args, memory_format=memory_format, **kwargs)

    return implementation


def _define() -> Library | None:
    # Another exporter of the same wire format may have defined the library in this process.
    if hasattr(torch.ops.dim_order_ops, "_to_dim_order_copy"):
        return None
    library = Library("dim_order_ops", "DEF")
    for schema, target in _DEFINITIONS:
        library.define(schema)
        library.impl(schema.partition("(")[0], _implementation(target), "CompositeImplicitAutograd")
    return library


_LIBRARY = _define()

DimOrderOpsMap: dict[EdgeOpOverload, EdgeOpOverload] = {
    ops.edge.aten._to_copy.default: ops.edge.dim_order_ops._to_dim_order_copy.default,
    ops.edge.aten.empty.memory_format: ops.edge.dim_order_ops._empty_dim_order.default,
    ops.edge.aten.clone.default: ops.edge.dim_order_ops._clone_dim_order.default,
}
MemoryFormatOpsMap: dict[EdgeOpOverload, EdgeOpOverload] = {
    edge: memory for memory, edge in DimOrderOpsMap.items()
}
