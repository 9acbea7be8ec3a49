"""Maximum and minimum over dimensions, with or without indices, by max pooling.

Height and width of an image are pooled in place. Other dimensions are viewed as images of one
column, [before, n, 1, after] in memory, whose channels are the dimensions behind the reduced ones.
Behind the last dimension there are none, so that it is moved to the front. Indices are int32 in the
delegate and only reshaped, since no kernel permutes them. They are computed together with their
elements only: XNNPACK's kernel writes both, and in upstream's runtime results that are not read
have no memory (in ours they have).
"""

from __future__ import annotations

import math
from functools import partial

from torch import fx

from executorch_py.backends.xnnpack.ops.mean import (
    KEEP_DIMS,
    consecutive,
    counted,
    merged,
    reduced_dims,
)
from executorch_py.backends.xnnpack.payload.graph import Needs, Symbol, Value, text_of
from executorch_py.backends.xnnpack.payload.graph_builder import Builder, Made, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.exir.ir.op_traits import is_getitem


def _column(b: Builder, value: Value, first: int, last: int) -> Value:
    """The value as images whose only column are the dimensions first to last.

    Pooling is fast over channels and slow over batches. Only the number of batches may be dynamic,
    because pooling in older XNNPACK does not notice a changed number of channels.
    """
    over = counted(b, value.shape[first : last + 1])
    before = merged(b, value.shape[:first]) if first else 1
    if last < value.rank - 1:
        return b.reshape(value, (before, over, 1, counted(b, value.shape[last + 1 :])))
    if isinstance(before, Symbol):
        return b.reshape(value, (before, over, 1, 1))
    rows = b.reshape(value, (before, over))
    return b.reshape(b.transpose(rows, (1, 0)), (1, over, 1, before))


def _pooled(b: Builder, image: Value, window: tuple[int, int], needs: Needs) -> Value:
    rows, columns = (
        (1 if k > 1 else size) for k, size in zip(window, image.shape[2:], strict=True)
    )
    shape = (*image.shape[:2], rows, columns)
    if needs is Needs.NATURAL:
        shape = (image.shape[0], 1, 1, image.shape[3])
    return b.emit(
        NodeKind.MAX_POOLING_2D,
        [image],
        shape=shape,
        needs=needs,
        flags=KEEP_DIMS,
        clamp=(-math.inf, math.inf),
        kernel=window,
        stride=window,
        padding=(0, 0),
        padding_end=(0, 0),
        dilation=(1, 1),
    )


def _largest(b: Builder, value: Value, dims: list[int]) -> Value:
    """The maximum over dimensions, which are kept with size 1."""
    if value.rank == 4 and set(dims) <= {2, 3}:
        sizes = [counted(b, value.shape[d : d + 1]) if d in dims else 1 for d in (2, 3)]
        return value if sizes == [1, 1] else _pooled(b, value, (sizes[0], sizes[1]), Needs.IMAGE)
    for first, last in reversed(consecutive(dims)):
        kept = (*value.shape[:first], *[1] * (last + 1 - first), *value.shape[last + 1 :])
        over = counted(b, value.shape[first : last + 1])
        if over > 1:
            image = _column(b, value, first, last)
            value = _pooled(b, image, (over, 1), Needs.NATURAL)
        value = b.reshape(value, kept)
    return value


def _signed(b: Builder, value: Value, sign: int) -> Value:
    return value if sign > 0 else b.emit(NodeKind.NEGATE, [value])


def _extreme(sign: int, b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    found = _largest(b, _signed(b, value, sign), reduced_dims(b, node, value.rank))
    return b.reshape(_signed(b, found, sign), b.result_shape(node))


def _max_with_index(b: Builder, node: fx.Node, sign: int) -> tuple[Value, Value]:
    """The largest (sign 1) or smallest (-1) elements over a dimension, and their indices."""
    value = b.input(node, "self")
    b.require_float(value)
    dims = reduced_dims(b, node, value.rank)
    over = counted(b, value.shape[dims[0] : dims[-1] + 1])
    if over == 1:
        b.refuse(f"an index in dimension {dims} of {text_of(value.shape)}", "two elements there")
    wide = value
    if value.datatype is Datatype.FP16:
        wide = b.emit(NodeKind.CONVERT, [value], datatype=Datatype.FP32)
    image = _column(b, _signed(b, wide, sign), dims[0], dims[-1])
    shape = (image.shape[0], 1, 1, image.shape[3])
    found, index = (Value(node.name, shape, t) for t in (Datatype.FP32, Datatype.INT32))
    made = b.emit_all(NodeKind.ARG_MAX_POOLING_2D, [image], [found, index])
    made.attributes.update(kernel=(over, 1), padding=(0, 0))
    made.needs = Needs.NATURAL
    found = _signed(b, found, sign)
    if value.datatype is Datatype.FP16:
        found = b.emit(NodeKind.CONVERT, [found], datatype=Datatype.FP16)
    return found, index


def _with_index(sign: int, b: Builder, node: fx.Node) -> Made:
    shape = b.shape_of(node.meta["val"][0])
    if any(is_getitem(user.target) and user.args[1] == 1 for user in node.users):
        found, index = _max_with_index(b, node, sign)
        return b.reshape(found, shape), b.reshape(index, shape)
    value = b.input(node, "self")
    b.require_float(value)
    found = _largest(b, _signed(b, value, sign), reduced_dims(b, node, value.rank))
    return b.reshape(_signed(b, found, sign), shape), None


VISITORS: dict[str, Visitor] = {
    "aten::amax": partial(_extreme, 1),
    "aten::amin": partial(_extreme, -1),
    "aten::max.dim": partial(_with_index, 1),
    "aten::min.dim": partial(_with_index, -1),
}
