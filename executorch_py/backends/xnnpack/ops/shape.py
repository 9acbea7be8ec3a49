"""Moves of elements: reshape, permute, slice, concatenate, pad, repeat, copy."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import fx

from executorch_py.backends.xnnpack.payload.graph import Shape, Symbol, Value, text_of
from executorch_py.backends.xnnpack.payload.graph_builder import (
    DATATYPES,
    FLOATS,
    Builder,
    Made,
    Visitor,
)
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.backends.xnnpack.payload.quantization import dequantized
from executorch_py.exir.ir.match import argument, is_call

_MAX_CONCATENATED = 5
_CONCATENATE = {
    2: NodeKind.CONCATENATE_2,
    3: NodeKind.CONCATENATE_3,
    4: NodeKind.CONCATENATE_4,
    5: NodeKind.CONCATENATE_5,
}
# Operators that broadcast, so that their operands need not be expanded.
_BROADCASTING = tuple(
    f"aten::{name}"
    for name in ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum")
)


def _reshape(b: Builder, node: fx.Node) -> Value:
    return b.reshape(b.value(node.args[0]), b.result_shape(node))


def _permute(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    return b.transpose(value, [b.axis(d, value.rank) for d in b.integers(node, "dims")])


def _swap(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    perm = list(range(value.rank))
    first, second = (b.axis(b.integer(node, name), value.rank) for name in ("dim0", "dim1"))
    perm[first], perm[second] = second, first
    return b.transpose(value, perm)


def _t(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    return b.transpose(value, tuple(reversed(range(value.rank))))


def _same(b: Builder, node: fx.Node) -> Value:
    """A copy, or a cast between floats. Memory orders are chosen later, for all values together."""
    value = b.value(node.args[0])
    dtype = node.meta["val"].dtype
    if value.data is not None and value.quantization is None:
        return b.cast(value, dtype)
    datatype = DATATYPES.get(dtype)
    if value.datatype is datatype:
        return value
    if datatype not in FLOATS or value.datatype not in FLOATS:
        b.refuse(f"a cast from {value.datatype.name} to {dtype}", "a cast between floats")
    return b.emit(NodeKind.CONVERT, [value], datatype=datatype)


def _known(b: Builder, value: Value, dim: int) -> int:
    size = value.shape[dim]
    if isinstance(size, Symbol):
        b.refuse(f"a part of dimension {dim} of {text_of(value.shape)}", "a known size there")
    return size


def _slice(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    dim = b.axis(b.integer(node, "dim"), value.rank)
    start, end = argument(node, "start"), argument(node, "end")
    if b.result_shape(node) == value.shape:
        return value
    size = _known(b, value, dim)
    if not isinstance(start, int | None) or not isinstance(end, int | None):
        b.refuse(f"bounds {start} to {end}", "whole numbers known ahead of time")
    first, last, _ = slice(start, end).indices(size)
    if last <= first:
        b.refuse(f"the empty slice {start} to {end} of {size}", "at least one element")
    step = b.integer(node, "step")
    return _every(b, value, dim, (first, last), step)


def _every(b: Builder, value: Value, dim: int, bounds: tuple[int, int], step: int) -> Value:
    """Every `step`-th element along a dimension: the first of each block of `step` elements."""
    first, last = bounds
    if step == 1:
        return b.slice(value, dim, first, last - first)
    count = -(-(last - first) // step)
    missing = first + count * step - _known(b, value, dim)
    if missing > 0:
        after = tuple(missing if d == dim else 0 for d in range(value.rank))
        shape = (*value.shape[:dim], first + count * step, *value.shape[dim + 1 :])
        value = b.emit(
            NodeKind.STATIC_CONSTANT_PAD,
            [value],
            shape=shape,
            before=(0,) * value.rank,
            after=after,
            padding_value=0.0,
        )
    value = b.slice(value, dim, first, count * step)
    before, behind = value.shape[:dim], value.shape[dim + 1 :]
    blocks = b.reshape(value, (*before, count, step, *behind))
    return b.reshape(b.slice(blocks, dim + 1, 0, 1), (*before, count, *behind))


def _as_strided(b: Builder, node: fx.Node) -> Value:
    """A copy where only strides of dimensions of size 1 change, the only form XNNPACK has."""
    value, source = b.input(node, "self"), argument(node, "self").meta["val"]
    sizes, strides = argument(node, "size"), argument(node, "stride")
    same = list(map(str, sizes)) == list(map(str, source.shape)) and all(
        size == 1 or str(new) == str(old)
        for size, new, old in zip(sizes, strides, source.stride(), strict=True)
    )
    if not same or argument(node, "storage_offset") not in (None, 0):
        b.refuse(f"sizes {sizes} and strides {strides}", "those of the input")
    return value


def _select(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    dim = b.axis(b.integer(node, "dim"), value.rank)
    index = b.axis(b.integer(node, "index"), _known(b, value, dim))
    return b.reshape(b.slice(value, dim, index, 1), b.result_shape(node))


def _parts(b: Builder, value: Value, dim: int, sizes: list[int]) -> list[Value]:
    parts, start = [], 0
    for size in sizes:
        parts.append(b.slice(value, dim, start, size))
        start += size
    return parts


def _split(name: str, b: Builder, node: fx.Node) -> Made:
    value = b.input(node, "self")
    dim = b.axis(b.integer(node, "dim"), value.rank)
    size, given = _known(b, value, dim), argument(node, name)
    if isinstance(given, int):
        sizes = [min(given, size - start) for start in range(0, size, given)]
    else:
        sizes = b.integers(node, name)
    return tuple(_parts(b, value, dim, sizes))


def _chunk(b: Builder, node: fx.Node) -> Made:
    value = b.input(node, "self")
    dim = b.axis(b.integer(node, "dim"), value.rank)
    size = _known(b, value, dim)
    step = -(-size // b.integer(node, "chunks"))
    return tuple(_parts(b, value, dim, [min(step, size - start) for start in range(0, size, step)]))


def _unbind(b: Builder, node: fx.Node) -> Made:
    value = b.input(node, "self")
    dim = b.axis(b.integer(node, "dim"), value.rank)
    shape = (*value.shape[:dim], *value.shape[dim + 1 :])
    return tuple(
        b.reshape(part, shape) for part in _parts(b, value, dim, [1] * _known(b, value, dim))
    )


def _joined(b: Builder, values: list[Value], axis: int) -> Value:
    """The concatenation of values, by a tree of nodes with at most five operands."""
    n = _MAX_CONCATENATED
    while len(values) > 1:
        values = [_joined_few(b, values[i : i + n], axis) for i in range(0, len(values), n)]
    return values[0]


def _joined_few(b: Builder, values: list[Value], axis: int) -> Value:
    """The concatenation of up to five values by one node; symbolic sizes are added."""
    if len(values) == 1:
        return values[0]
    sizes = [value.shape[axis] for value in values]
    most = sum(size.upper if isinstance(size, Symbol) else size for size in sizes)
    texts = [size.text if isinstance(size, Symbol) else str(size) for size in sizes]
    symbolic = any(isinstance(size, Symbol) for size in sizes)
    total = Symbol(" + ".join(texts), most) if symbolic else most
    shape = (*values[0].shape[:axis], total, *values[0].shape[axis + 1 :])
    return b.emit(_CONCATENATE[len(values)], values, shape=shape, axis=axis)


def _operands(b: Builder, node: fx.Node) -> list[Value]:
    """The operands of a concatenation; quantized constants are dequantized."""
    arg: Any = node.args[0]
    values = [b.value(item) for item in arg]
    return [
        value
        if value.data is None or value.quantization is None
        else b.derived(value, dequantized(value))
        for value in values
    ]


def _cat(b: Builder, node: fx.Node) -> Value:
    values = _operands(b, node)
    dtype = node.meta["val"].dtype
    for i, value in enumerate(values):
        if value.data is not None and value.quantization is None:
            values[i] = b.cast(value, dtype)
        elif value.datatype is not DATATYPES.get(dtype):
            b.refuse(f"{value.datatype.name} in '{value.name}'", f"{dtype} as in the result")
    return _joined(b, values, b.axis(b.integer(node, "dim"), values[0].rank))


def _stack(b: Builder, node: fx.Node) -> Value:
    values = _operands(b, node)
    dim = b.axis(b.integer(node, "dim"), values[0].rank + 1)
    shape = (*values[0].shape[:dim], 1, *values[0].shape[dim:])
    return _joined(b, [b.reshape(value, shape) for value in values], dim)


def _repeated(b: Builder, value: Value, axis: int, times: int) -> Value:
    """The value repeated along an axis, by repeated concatenation of five copies."""
    if times <= _MAX_CONCATENATED:
        return _joined(b, [value] * times, axis)
    part = _repeated(b, value, axis, times // _MAX_CONCATENATED)
    whole, rest = _joined(b, [part] * _MAX_CONCATENATED, axis), times % _MAX_CONCATENATED
    return whole if not rest else _joined(b, [whole, _repeated(b, value, axis, rest)], axis)


def _is_broadcast(node: fx.Node) -> bool:
    """Whether all readers of an expanded value can broadcast the original instead."""
    for user in node.users:
        if not is_call(user, *_BROADCASTING):
            return False
        others = [arg for arg in user.args[:2] if isinstance(arg, fx.Node) and arg is not node]
        shapes = [list(map(str, other.meta["val"].shape)) for other in others]
        if list(map(str, user.meta["val"].shape)) not in shapes:
            return False
    return True


def _expand(b: Builder, node: fx.Node) -> Value:
    value, shape = b.input(node, "self"), b.result_shape(node)
    aligned: Shape = (1,) * (len(shape) - value.rank) + value.shape
    if aligned == shape or _is_broadcast(node):
        return b.reshape(value, aligned)
    if value.data is not None and value.quantization is None:
        if any(isinstance(size, Symbol) for size in shape):
            b.refuse(f"a constant expanded to {text_of(shape)}", "sizes known ahead of time")
        sizes = [size for size in shape if isinstance(size, int)]
        return b.derived(value, value.data.expand(sizes))
    made = b.reshape(value, aligned)
    for axis, (before, after) in enumerate(zip(aligned, shape, strict=True)):
        if before == after:
            continue
        if isinstance(after, Symbol):
            b.refuse(f"{text_of(value.shape)} expanded to {text_of(shape)}", "known sizes")
        made = _repeated(b, made, axis, after)
    return made


def _repeat(b: Builder, node: fx.Node) -> Value:
    value, times = b.input(node, "self"), b.integers(node, "repeats")
    made = b.reshape(value, (1,) * (len(times) - value.rank) + value.shape)
    for axis, count in enumerate(times):
        if count < 1:
            b.refuse(f"repeats={times}", "at least once")
        made = _repeated(b, made, axis, count) if count > 1 else made
    return made


def _pad(b: Builder, node: fx.Node) -> Value:
    value, pads = b.input(node, "self"), b.integers(node, "pad")
    if any(pad < 0 for pad in pads):
        b.refuse(f"pad={pads}", "no negative numbers")
    if not any(pads):
        return value
    n = value.rank - len(pads) // 2
    before = [0] * n + pads[0::2][::-1]
    after = [0] * n + pads[1::2][::-1]
    return b.emit(
        NodeKind.STATIC_CONSTANT_PAD,
        [value],
        shape=b.result_shape(node),
        before=tuple(before),
        after=tuple(after),
        padding_value=b.number(node, "value"),
    )


def _roll(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    dims = b.integers(node, "dims")
    if not dims:
        b.refuse("a roll of the flattened tensor", "dims")
    for dim, shift in zip(dims, b.integers(node, "shifts"), strict=True):
        axis = b.axis(dim, value.rank)
        size = _known(b, value, axis)
        start = -shift % size
        if start:
            parts = [b.slice(value, axis, start, size - start), b.slice(value, axis, 0, start)]
            value = _joined(b, parts, axis)
    return value


def _full(b: Builder, node: fx.Node) -> Value:
    """A constant made by the graph; constant folding leaves few of them."""
    shape, example = b.result_shape(node), node.meta["val"]
    if any(isinstance(size, Symbol) for size in shape):
        b.refuse(f"a constant of {text_of(shape)}", "sizes known ahead of time")
    filled = torch.full(list(example.shape), b.number(node, "fill_value"), dtype=example.dtype)
    return b.constant(filled, node.name)


_RESHAPES = (
    "_unsafe_view",
    "flatten.using_ints",
    "reshape",
    "squeeze_copy",
    "squeeze_copy.dim",
    "squeeze_copy.dims",
    "unsqueeze_copy",
    "view_copy",
)
_COPIES = (
    "aten::_to_copy",
    "aten::alias_copy",
    "aten::clone",
    "aten::detach_copy",
    "aten::lift_fresh_copy",
    "dim_order_ops::_clone_dim_order",
    "dim_order_ops::_to_dim_order_copy",
)

VISITORS: dict[str, Visitor] = {
    **{f"aten::{name}": _reshape for name in _RESHAPES},
    **{key: _same for key in _COPIES},
    "aten::as_strided_copy": _as_strided,
    "aten::cat": _cat,
    "aten::chunk": _chunk,
    "aten::constant_pad_nd": _pad,
    "aten::expand_copy": _expand,
    "aten::full": _full,
    "aten::full_like": _full,
    "aten::permute_copy": _permute,
    "aten::repeat": _repeat,
    "aten::roll": _roll,
    "aten::select_copy.int": _select,
    "aten::slice_copy.Tensor": _slice,
    "aten::split_copy.Tensor": partial(_split, "split_size"),
    "aten::split_with_sizes_copy": partial(_split, "split_sizes"),
    "aten::stack": _stack,
    "aten::t_copy": _t,
    "aten::transpose_copy.int": _swap,
    "aten::unbind_copy.int": _unbind,
}
