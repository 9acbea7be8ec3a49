"""Subviews: operators whose result is one contiguous part of their input's bytes, and its offset.

A slice, selection, split or unbinding along the outermost dimension in memory (dimensions of size
one do not count) reads contiguous bytes, so its result needs no memory of its own. Relies on values
for sizes, on specs for layouts; knows nothing of alignment, lifetimes or writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.ir.tensor_spec import TensorSpec

Shape = list[Any]

# Operators with several results, each a part of the first argument.
PARTITIONS = frozenset(
    {
        "aten::split_copy.Tensor",
        "aten::split_with_sizes_copy",
        "aten::unbind_copy.int",
        "aten::unsafe_split.Tensor",
        "aten::unsafe_split_with_sizes",
    }
)


@dataclass(frozen=True)
class Cut:
    """`length` entries from `start` on along one dimension, which a selection removes."""

    dim: int
    start: int
    length: int
    removes_dim: bool = False


def cut_of(node: fx.Node, part: int = 0) -> Cut | None:
    """The part of its first argument that an operator reads, or that a scatter replaces; None if it
    is no range known at export.
    """
    reader = _READERS.get(op_key(node.target))
    source = node.args[0] if node.args else None
    shape = _shape(source)
    if reader is None or not shape:
        return None
    cut = reader(node, shape, part)
    if cut is None or cut.start < 0 or cut.length < 0:
        return None
    fits = shape[cut.dim] >= cut.start + cut.length
    return cut if fits is True or statically_known_true(fits) else None


def first_element(base: TensorSpec, cut: Cut, result: TensorSpec) -> int | None:
    """Offset of the cut in elements of `base`; None if the result is not contiguous there.

    The result must have the layout of that part of `base`.
    """
    order = list(base.dim_order)
    outer = order[: order.index(cut.dim)]
    inner = [base.shape[dim] for dim in order[len(outer) + 1 :]]
    if any(not _is_one(base.shape[dim]) for dim in outer):
        return None
    if not all(isinstance(size, int) for size in inner):
        return None
    kept = [d for d in range(len(order)) if not (cut.removes_dim and d == cut.dim)]
    sizes = [cut.length if dim == cut.dim else base.shape[dim] for dim in kept]
    if len(result.shape) != len(kept) or any(
        not isinstance(b, int) or a != b for a, b in zip(sizes, result.shape, strict=True)
    ):
        return None
    rank = {dim: i for i, dim in enumerate(order)}
    stored = [dim for dim in (kept[d] for d in result.dim_order)]
    moved = [rank[dim] for dim, size in zip(stored, _sizes(result), strict=True) if size != 1]
    return cut.start * math.prod(inner) if moved == sorted(moved) else None


def _sizes(spec: TensorSpec) -> list[Any]:
    return [spec.shape[dim] for dim in spec.dim_order]


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _shape(node: Any) -> Shape:
    """Sizes of a node's result; empty where it is no tensor or has no dimensions."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return list(value.shape) if isinstance(value, torch.Tensor) else []


def _dim(node: fx.Node, shape: Shape) -> int:
    return int(argument(node, "dim")) % len(shape)


def _position(value: Any, size: Any) -> int | None:
    """An index counted from the start; None if it is known at run time only."""
    if not isinstance(value, int):
        return None
    if value >= 0:
        return value
    return max(value + size, 0) if isinstance(size, int) else None


def _read_slice(node: fx.Node, shape: Shape, _: int) -> Cut | None:
    dim = _dim(node, shape)
    size = shape[dim]
    given = argument(node, "start")
    start = _position(0 if given is None else given, size)
    taken = _shape(argument(node, "src") if is_call(node, "aten::slice_scatter") else node)
    if start is None or argument(node, "step") != 1 or len(taken) != len(shape):
        return None
    length = taken[dim]
    if not isinstance(length, int):
        return None
    return Cut(dim, min(start, size) if isinstance(size, int) else start, length)


def _read_select(node: fx.Node, shape: Shape, _: int) -> Cut | None:
    dim = _dim(node, shape)
    index = _position(argument(node, "index"), shape[dim])
    return None if index is None else Cut(dim, index, 1, removes_dim=True)


def _read_narrow(node: fx.Node, shape: Shape, _: int) -> Cut | None:
    dim, length = _dim(node, shape), argument(node, "length")
    start = _position(argument(node, "start"), shape[dim])
    return None if start is None or not isinstance(length, int) else Cut(dim, start, length)


def _read_split(node: fx.Node, shape: Shape, part: int) -> Cut | None:
    dim, step = _dim(node, shape), argument(node, "split_size")
    size = shape[dim]
    if not isinstance(step, int) or not isinstance(size, int):
        return None
    return Cut(dim, part * step, min(step, size - part * step))


def _read_split_with_sizes(node: fx.Node, shape: Shape, part: int) -> Cut | None:
    sizes = argument(node, "split_sizes")
    if not all(isinstance(size, int) for size in sizes[: part + 1]):
        return None
    return Cut(_dim(node, shape), sum(sizes[:part]), sizes[part])


def _read_unbind(node: fx.Node, shape: Shape, part: int) -> Cut | None:
    return Cut(_dim(node, shape), part, 1, removes_dim=True)


_READERS: dict[str, Callable[[fx.Node, Shape, int], Cut | None]] = {
    "aten::slice_copy.Tensor": _read_slice,
    "aten::slice_scatter": _read_slice,
    "aten::select_copy.int": _read_select,
    "aten::narrow_copy": _read_narrow,
    "aten::split_copy.Tensor": _read_split,
    "aten::unsafe_split.Tensor": _read_split,
    "aten::split_with_sizes_copy": _read_split_with_sizes,
    "aten::unsafe_split_with_sizes": _read_split_with_sizes,
    "aten::unbind_copy.int": _read_unbind,
}
