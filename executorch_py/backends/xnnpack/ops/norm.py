"""Layer, group, instance and batch normalization, as means, squares and products.

Means of rows are products with a constant column, and means of images are global poolings, so that
no normalization requires a memory layout.
"""

from __future__ import annotations

import torch
from torch import fx

from executorch_py.backends.xnnpack.ops.mean import image_mean, last_dim_mean
from executorch_py.backends.xnnpack.payload.graph import Needs, Value, is_static, text_of, upper
from executorch_py.backends.xnnpack.payload.graph_builder import FLOATS, Builder, Made, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.exir.ir.match import argument


def _affine(b: Builder, value: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        value = b.binary(NodeKind.MULTIPLY, value, weight)
    return value if bias is None else b.binary(NodeKind.ADD, value, bias)


def _layer_norm(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "input")
    weight, bias = b.optional(node, "weight"), b.optional(node, "bias")
    b.require_float(value)
    n_last = len(list(argument(node, "normalized_shape")))
    shape = value.shape
    if not is_static(shape[-n_last:]):
        b.refuse(f"layers of {text_of(shape[-n_last:])}", "sizes known ahead of time")
    count = int(torch.Size(upper(shape[-n_last:])).numel())
    if n_last > 1:
        value = b.reshape(value, (*shape[:-n_last], count))
        weight, bias = (None if v is None else b.reshape(v, (count,)) for v in (weight, bias))
    centered = b.binary(NodeKind.SUBTRACT, value, last_dim_mean(b, value))
    squares = b.emit(NodeKind.SQUARE, [centered])
    variance = last_dim_mean(b, squares, plus=float(argument(node, "eps")))
    factor = b.emit(NodeKind.RECIPROCAL_SQUARE_ROOT, [variance])
    result = _affine(b, b.binary(NodeKind.MULTIPLY, centered, factor), weight, bias)
    return b.reshape(result, shape)


def _native_layer_norm(b: Builder, node: fx.Node) -> Made:
    return _layer_norm(b, node), None, None


def _channel_mean(b: Builder, image: Value, groups: int, plus: float = 0.0) -> Value:
    """The mean over each group of channels, repeated for each of its channels: [N, C, 1, 1]."""
    channels = int(upper(image.shape)[1])
    shape = (*image.shape[:2], 1, 1)
    pooled = image_mean(b, image, shape)
    if groups == channels:
        return b.binary(NodeKind.ADD, pooled, b.scalar(plus, pooled)) if plus else pooled
    size = channels // groups
    mixing = torch.block_diag(*[torch.full((size, size), 1.0 / size)] * groups)
    dtype = FLOATS[image.datatype]
    weight = b.weight(b.constant(mixing.to(dtype), f"means_of_{groups}_groups"))
    bias = b.weight(b.constant(torch.full((channels,), plus, dtype=dtype), f"{plus:g}"))
    return b.emit(NodeKind.FULLY_CONNECTED, [pooled, weight, bias], needs=Needs.IMAGE)


def _group_norm_of(
    b: Builder, image: Value, groups: int, eps: float, weight: Value | None, bias: Value | None
) -> Value:
    shape = image.shape
    b.require_float(image)
    if image.rank == 3:
        image = b.reshape(image, (*shape, 1))
    if image.rank != 4 or not is_static(shape[1:2]):
        b.refuse(f"groups of channels of {text_of(shape)}", "rank 3 or 4, channels known")
    channels = int(upper(shape)[1])
    weight, bias = (
        None if v is None else b.reshape(v, (1, channels, 1, 1)) for v in (weight, bias)
    )
    centered = b.binary(NodeKind.SUBTRACT, image, _channel_mean(b, image, groups))
    variance = _channel_mean(b, b.emit(NodeKind.SQUARE, [centered]), groups, plus=eps)
    factor = b.emit(NodeKind.RECIPROCAL_SQUARE_ROOT, [variance])
    if weight is not None:
        factor = b.binary(NodeKind.MULTIPLY, factor, weight)
    result = _affine(b, b.binary(NodeKind.MULTIPLY, centered, factor), None, bias)
    return b.reshape(result, shape)


def _native_group_norm(b: Builder, node: fx.Node) -> Made:
    value, groups = b.input(node, "input"), b.integer(node, "group")
    weight, bias = b.optional(node, "weight"), b.optional(node, "bias")
    eps = b.number(node, "eps")
    return _group_norm_of(b, value, groups, eps, weight, bias), None, None


def _group_norm(b: Builder, node: fx.Node) -> Value:
    value, groups = b.input(node, "input"), b.integer(node, "num_groups")
    weight, bias = b.optional(node, "weight"), b.optional(node, "bias")
    return _group_norm_of(b, value, groups, b.number(node, "eps"), weight, bias)


def _instance_norm(b: Builder, node: fx.Node) -> Made:
    value = b.input(node, "input")
    groups = int(upper(value.shape)[1])
    weight, bias = b.optional(node, "weight"), b.optional(node, "bias")
    eps = b.number(node, "eps")
    return _group_norm_of(b, value, groups, eps, weight, bias), None, None


def _batch_norm(b: Builder, node: fx.Node) -> Made:
    """A batch norm that is not folded: a depthwise convolution of one pixel, or x * a + b."""
    value = b.input(node, "input")
    b.require_float(value)
    names = ("running_mean", "running_var", "weight", "bias")
    found = [b.optional(node, name) for name in names]
    if any(v is not None and v.data is None for v in found):
        b.refuse("statistics computed at run time", "constants")
    data = [None if v is None or v.data is None else v.data.double() for v in found]
    mean, variance, weight, bias = data
    assert mean is not None and variance is not None
    factor = torch.rsqrt(variance + b.number(node, "eps"))
    factor = factor if weight is None else factor * weight
    shift = -mean * factor if bias is None else bias - mean * factor
    dtype = torch.float32 if value.rank == 4 else FLOATS.get(value.datatype, torch.float32)
    factor, shift = factor.to(dtype), shift.to(dtype)
    channels = int(factor.numel())
    if value.rank != 4:
        shape = (channels, *([1] * (value.rank - 2)))
        scale = b.constant(factor.reshape(shape), f"{node.name}_scale")
        return (
            _affine(b, value, scale, b.constant(shift.reshape(shape), f"{node.name}_shift")),
            None,
            None,
        )
    kernel = b.weight(b.constant(factor.reshape(1, 1, 1, channels), f"{node.name}_scale"))
    return (
        b.emit(
            NodeKind.DEPTHWISE_CONV_2D,
            [value, kernel, b.weight(b.constant(shift, f"{node.name}_shift"))],
            kernel=(1, 1),
            stride=(1, 1),
            padding=(0, 0),
            dilation=(1, 1),
            adjustment=(0, 0),
            group_input_channels=1,
            group_output_channels=1,
            groups=channels,
        ),
        None,
        None,
    )


VISITORS: dict[str, Visitor] = {
    "aten::_native_batch_norm_legit.no_stats": _instance_norm,
    "aten::_native_batch_norm_legit_no_training": _batch_norm,
    "aten::group_norm": _group_norm,
    "aten::layer_norm": _layer_norm,
    "aten::native_group_norm": _native_group_norm,
    "aten::native_layer_norm": _native_layer_norm,
}
