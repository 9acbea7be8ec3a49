"""Sums and means over the last dimension, for whatever operator needs one, and merged sizes."""

from __future__ import annotations

import math

import torch

from executorch_py.backends.xnnpack.payload.graph import (
    Needs,
    Shape,
    Size,
    Symbol,
    Value,
    is_static,
    text_of,
)
from executorch_py.backends.xnnpack.payload.graph_builder import Builder
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind

KEEP_DIMS = 64


def product(sizes: Shape) -> Size | None:
    """The number of elements; None if it is neither a number nor one of the sizes."""
    numbers = math.prod(size for size in sizes if not isinstance(size, Symbol))
    symbols = [size for size in sizes if isinstance(size, Symbol)]
    if not symbols:
        return numbers
    return symbols[0] if len(symbols) == 1 and numbers == 1 else None


def merged(b: Builder, sizes: Shape) -> Size:
    size = product(sizes)
    if size is not None:
        return size
    most = math.prod(s.upper if isinstance(s, Symbol) else s for s in sizes)
    return Symbol("*".join(s.text if isinstance(s, Symbol) else str(s) for s in sizes), most)


def counted(b: Builder, shape: Shape) -> int:
    count = product(shape)
    if not isinstance(count, int):
        b.refuse(f"a reduction over {text_of(shape)}", "sizes known ahead of time")
    return count


def neighbours(dims: list[int]) -> list[tuple[int, int]]:
    """Dimensions in order as runs that follow each other, the first and last of each."""
    starts = [d for d in dims if d - 1 not in dims]
    ends = [d for d in dims if d + 1 not in dims]
    return list(zip(starts, ends, strict=True))


def image_mean(b: Builder, image: Value, shape: Shape, needs: Needs | None = None) -> Value:
    """The mean over the rows and columns of images, of that shape.

    XNNPACK has room for sums of halves as the first call needs it, and writes beyond it when a
    batch grows; means of float32 need none.
    """

    def mean(value: Value) -> Value:
        kind = NodeKind.GLOBAL_AVG_POOLING_2D
        return b.emit(kind, [value], shape=shape, needs=needs, flags=KEEP_DIMS)

    return mean(image) if is_static(image.shape) else b.in_float32(image, mean)


def last_dim_sum(b: Builder, value: Value, factor: float, plus: float = 0.0) -> Value:
    """factor * (sum over the last dimension) + plus, keeping the dimension."""
    count = counted(b, value.shape[-1:])
    column = b.weight(b.constant(torch.full((1, count), factor), f"column_of_{factor:g}"))
    bias = b.weight(b.constant(torch.full((1,), plus), f"{plus:g}")) if plus else None
    return b.emit(NodeKind.FULLY_CONNECTED, [value, column, bias], shape=(*value.shape[:-1], 1))


def last_dim_mean(b: Builder, value: Value, plus: float = 0.0) -> Value:
    """The mean over the last dimension, keeping it, plus a number.

    Half precision cannot hold 1 / n well; it is averaged by pooling, which adds in float32.
    """
    if value.datatype is Datatype.FP32:
        return last_dim_sum(b, value, 1.0 / counted(b, value.shape[-1:]), plus)
    rows = b.reshape(value, (merged(b, value.shape[:-1]), value.shape[-1], 1, 1))
    pooled = image_mean(b, rows, (rows.shape[0], 1, 1, 1), needs=Needs.NATURAL)
    mean = b.reshape(pooled, (*value.shape[:-1], 1))
    return b.binary(NodeKind.ADD, mean, b.scalar(plus, mean)) if plus else mean
