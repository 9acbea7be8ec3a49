"""Sums, means and reduced dimensions, shared by reductions, normalizations and activations."""

from __future__ import annotations

import math

import torch
from torch import fx

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
from executorch_py.exir.ir.match import argument

KEEP_DIMS = 64


def reduced_dims(b: Builder, node: fx.Node, rank: int) -> list[int]:
    """The reduced dimensions of a node in order; all if its `dim` is absent."""
    arg = argument(node, "dim")
    if arg is None or arg == []:
        return list(range(rank))
    return sorted(b.axis(dim, rank) for dim in b.integers(node, "dim"))


def product(sizes: Shape) -> Size | None:
    """The product of sizes; None if it is neither a number nor one of the sizes."""
    numbers = math.prod(size for size in sizes if not isinstance(size, Symbol))
    symbols = [size for size in sizes if isinstance(size, Symbol)]
    if not symbols:
        return numbers
    return symbols[0] if len(symbols) == 1 and numbers == 1 else None


def merged(b: Builder, sizes: Shape) -> Size:
    """The size of merged dimensions, a new symbol if need be."""
    size = product(sizes)
    if size is not None:
        return size
    most = math.prod(s.upper if isinstance(s, Symbol) else s for s in sizes)
    return Symbol("*".join(s.text if isinstance(s, Symbol) else str(s) for s in sizes), most)


def counted(b: Builder, shape: Shape) -> int:
    """The number of elements, which has to be known ahead of time."""
    count = product(shape)
    if not isinstance(count, int):
        b.refuse(f"a reduction over {text_of(shape)}", "sizes known ahead of time")
    return count


def consecutive(dims: list[int]) -> list[tuple[int, int]]:
    """The first and last dimension of each run of consecutive dimensions."""
    starts = [d for d in dims if d - 1 not in dims]
    ends = [d for d in dims if d + 1 not in dims]
    return list(zip(starts, ends, strict=True))


def image_mean(b: Builder, image: Value, shape: Shape, needs: Needs | None = None) -> Value:
    """The mean over the rows and columns of images, with the given shape.

    XNNPACK allocates sums of float16 for the batch of the first call and writes out of bounds when
    the batch grows. Means of float32 need no such memory, so dynamic shapes use float32.
    """

    def mean(value: Value) -> Value:
        kind = NodeKind.GLOBAL_AVG_POOLING_2D
        return b.emit(kind, [value], shape=shape, needs=needs, flags=KEEP_DIMS)

    return mean(image) if is_static(image.shape) else b.in_float32(image, mean)


def last_dim_sum(b: Builder, value: Value, factor: float, plus: float = 0.0) -> Value:
    """The sum over the last dimension, kept with size 1, times `factor` plus `plus`."""
    count = counted(b, value.shape[-1:])
    column = b.weight(b.constant(torch.full((1, count), factor), f"column_of_{factor:g}"))
    bias = b.weight(b.constant(torch.full((1,), plus), f"{plus:g}")) if plus else None
    return b.emit(NodeKind.FULLY_CONNECTED, [value, column, bias], shape=(*value.shape[:-1], 1))


def last_dim_mean(b: Builder, value: Value, plus: float = 0.0) -> Value:
    """The mean over the last dimension, kept with size 1, plus a number.

    float16 cannot represent 1 / n accurately; it is averaged by pooling, which adds in float32.
    """
    if value.datatype is Datatype.FP32:
        return last_dim_sum(b, value, 1.0 / counted(b, value.shape[-1:]), plus)
    rows = b.reshape(value, (merged(b, value.shape[:-1]), value.shape[-1], 1, 1))
    pooled = image_mean(b, rows, (rows.shape[0], 1, 1, 1), needs=Needs.NATURAL)
    mean = b.reshape(pooled, (*value.shape[:-1], 1))
    return b.binary(NodeKind.ADD, mean, b.scalar(plus, mean)) if plus else mean
