"""Pooling of images: maximum, average, and adaptive average to one pixel."""

from __future__ import annotations

import math

from torch import fx

from executorch_py.backends.xnnpack.ops.mean import KEEP_DIMS, image_mean
from executorch_py.backends.xnnpack.payload.graph import Symbol, Value, is_static, text_of
from executorch_py.backends.xnnpack.payload.graph_builder import Builder, Made, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.exir.ir.match import argument


def _window(b: Builder, node: fx.Node, name: str, default: list[int] | None = None) -> list[int]:
    arg = argument(node, name)
    if not arg and arg != 0:
        assert default is not None
        return default
    values = b.integers(node, name)
    return values * 2 if len(values) == 1 else values


def _image(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    if value.rank != 4:
        b.refuse(f"an image of {text_of(value.shape)}", "rank 4")
    return value


def _ceil_padding(
    b: Builder, value: Value, sizes: list[int], windows: list[list[int]]
) -> list[int]:
    """The padding below and to the right that completes the last window of ceil_mode."""
    added = []
    kernel, stride, padding, dilation = windows
    for i, size in enumerate(value.shape[2:]):
        if isinstance(size, Symbol):
            b.refuse(f"ceil_mode over {text_of(value.shape)}", "sizes known ahead of time")
        covered = (sizes[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
        added.append(max(padding[i], covered - size - padding[i]))
    return added


def _max_pool(b: Builder, node: fx.Node) -> Value:
    value = _image(b, node)
    kernel = _window(b, node, "kernel_size")
    stride = _window(b, node, "stride", kernel)
    padding, dilation = _window(b, node, "padding"), _window(b, node, "dilation")
    if any(s > k for s, k in zip(stride, kernel, strict=True)):
        b.refuse(f"stride {stride} beyond kernel {kernel}", "strides up to the kernel size")
    example = node.meta["val"]
    example = example[0] if isinstance(example, (list, tuple)) else example
    shape = b.shape_of(example)
    padding_end = padding
    if argument(node, "ceil_mode"):
        sizes = [s.upper if isinstance(s, Symbol) else s for s in shape[2:]]
        padding_end = _ceil_padding(b, value, sizes, [kernel, stride, padding, dilation])
    return b.emit(
        NodeKind.MAX_POOLING_2D,
        [value],
        shape=shape,
        flags=KEEP_DIMS,
        clamp=(-math.inf, math.inf),
        kernel=tuple(kernel),
        stride=tuple(stride),
        padding=tuple(padding),
        padding_end=tuple(padding_end),
        dilation=tuple(dilation),
    )


def _max_pool_with_indices(b: Builder, node: fx.Node) -> Made:
    return _max_pool(b, node), None


def _avg_pool(b: Builder, node: fx.Node) -> Value:
    value = _image(b, node)
    kernel = _window(b, node, "kernel_size")
    stride = _window(b, node, "stride", kernel)
    padding = _window(b, node, "padding")
    if argument(node, "ceil_mode"):
        b.refuse("ceil_mode=True", "ceil_mode=False")
    if any(padding) and argument(node, "count_include_pad"):
        b.refuse(f"padding {padding} in the average", "count_include_pad=False")
    divisor = argument(node, "divisor_override")
    if divisor is not None and divisor != kernel[0] * kernel[1]:
        b.refuse(f"divisor_override={divisor}", "the size of the window")
    if any(s > k for s, k in zip(stride, kernel, strict=True)):
        b.refuse(f"stride {stride} beyond kernel {kernel}", "strides up to the kernel size")
    if is_static(value.shape[2:]) and tuple(kernel) == value.shape[2:] and not any(padding):
        return image_mean(b, value, b.result_shape(node))
    return b.emit(
        NodeKind.AVG_POOLING_2D,
        [value],
        shape=b.result_shape(node),
        flags=KEEP_DIMS,
        kernel=tuple(kernel),
        stride=tuple(stride),
        padding=tuple(padding),
        padding_end=tuple(padding),
        dilation=(0, 0),
    )


def _adaptive_avg_pool(b: Builder, node: fx.Node) -> Value:
    value = _image(b, node)
    if list(b.integers(node, "output_size")) != [1, 1]:
        b.refuse(f"output_size={argument(node, 'output_size')}", "[1, 1]")
    shape = (*value.shape[:2], 1, 1)
    return image_mean(b, value, shape)


VISITORS: dict[str, Visitor] = {
    "aten::_adaptive_avg_pool2d": _adaptive_avg_pool,
    "aten::adaptive_avg_pool2d": _adaptive_avg_pool,
    "aten::avg_pool2d": _avg_pool,
    "aten::max_pool2d": _max_pool,
    "aten::max_pool2d_with_indices": _max_pool_with_indices,
}
