"""Mean and sum over dimensions.

A mean over the last dimension is a product with a column of 1 / n. A mean over consecutive
dimensions before it is a global average pooling of the view [before, n, 1, after]. Dimensions that
are not consecutive are averaged in turn.
"""

from __future__ import annotations

from torch import fx

from executorch_py.backends.xnnpack.ops.mean import (
    consecutive,
    counted,
    image_mean,
    last_dim_mean,
    last_dim_sum,
    merged,
    reduced_dims,
)
from executorch_py.backends.xnnpack.payload.graph import Needs, Shape, Value
from executorch_py.backends.xnnpack.payload.graph_builder import FLOATS, Builder, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.exir.ir.match import argument


def _mean_of(b: Builder, value: Value, dims: list[int]) -> Value:
    """The mean over dimensions, which are kept with size 1."""
    for first, last in reversed(consecutive(dims)):
        value = _mean_of_consecutive(b, value, list(range(first, last + 1)))
    return value


def _mean_of_consecutive(b: Builder, value: Value, dims: list[int]) -> Value:
    first, last = dims[0], dims[-1]
    kept = tuple(1 if d in dims else size for d, size in enumerate(value.shape))
    if value.rank == 4 and dims == [2, 3]:
        return image_mean(b, value, kept)
    if last == value.rank - 1:
        flat = value
        if len(dims) > 1 or first == 0:
            before: Shape = value.shape[:first] or (1,)
            flat = b.reshape(value, (*before, merged(b, value.shape[first:])))
        return b.reshape(last_dim_mean(b, flat), kept)
    if value.rank == 4 and dims == [1, 2]:
        image = value
    else:
        before, over, after = (
            value.shape[:first],
            value.shape[first : last + 1],
            value.shape[last + 1 :],
        )
        image_shape = (merged(b, before) if before else 1, merged(b, over), 1, merged(b, after))
        image = b.reshape(value, image_shape)
    pooled = image_mean(b, image, (image.shape[0], 1, 1, image.shape[3]), needs=Needs.NATURAL)
    return b.reshape(pooled, kept)


def _mean(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    if FLOATS.get(value.datatype) is not node.meta["val"].dtype:
        b.refuse(f"a mean with dtype={node.meta['val'].dtype}", "the element type of its input")
    mean = _mean_of(b, value, reduced_dims(b, node, value.rank))
    return mean if argument(node, "keepdim") else b.reshape(mean, b.result_shape(node))


def _sum(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    if FLOATS.get(value.datatype) is not node.meta["val"].dtype:
        b.refuse(f"a sum with dtype={node.meta['val'].dtype}", "the element type of its input")
    dims = reduced_dims(b, node, value.rank)
    if dims == [value.rank - 1] and value.rank > 1:
        total = last_dim_sum(b, value, 1.0) if value.datatype is Datatype.FP32 else None
    else:
        total = None
    if total is None:
        count = counted(b, tuple(value.shape[d] for d in dims))
        mean = _mean_of(b, value, dims)
        total = b.binary(NodeKind.MULTIPLY, mean, b.scalar(float(count), mean))
    return total if argument(node, "keepdim") else b.reshape(total, b.result_shape(node))


VISITORS: dict[str, Visitor] = {
    "aten::mean.dim": _mean,
    "aten::sum.dim_IntList": _sum,
}
