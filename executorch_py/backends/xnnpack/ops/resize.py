"""Resizing of images: bilinear interpolation, pixel shuffle and unshuffle."""

from __future__ import annotations

from torch import fx

from executorch_py.backends.xnnpack.payload.graph import Value, is_static, text_of, upper
from executorch_py.backends.xnnpack.payload.graph_builder import Builder, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.exir.ir.match import argument

ALIGN_CORNERS = 8


def _bilinear(b: Builder, node: fx.Node) -> Value:
    value, shape = b.value(node.args[0]), b.result_shape(node)
    b.require_float(value)
    if not is_static(shape[2:]) or not is_static(value.shape[2:]):
        b.refuse(f"{text_of(value.shape)} resized to {text_of(shape)}", "sizes known ahead of time")
    flags = ALIGN_CORNERS if argument(node, "align_corners") else 0
    return b.emit(NodeKind.STATIC_RESIZE_BILINEAR_2D, [value], shape=shape, flags=flags)


def _pixel_shuffle(b: Builder, node: fx.Node) -> Value:
    value, r = b.input(node, "self"), b.integer(node, "upscale_factor")
    shape, result = value.shape, b.result_shape(node)
    if value.rank != 4 or not is_static(shape[1:]):
        b.refuse(f"an image of {text_of(shape)}", "rank 4 and sizes known ahead of time")
    _, channels, height, width = upper(shape)
    parts = b.reshape(value, (shape[0], channels // (r * r), r, r, height, width))
    return b.reshape(b.transpose(parts, (0, 1, 4, 2, 5, 3)), result)


def _pixel_unshuffle(b: Builder, node: fx.Node) -> Value:
    value, r = b.input(node, "self"), b.integer(node, "downscale_factor")
    shape, result = value.shape, b.result_shape(node)
    if value.rank != 4 or not is_static(shape[1:]):
        b.refuse(f"an image of {text_of(shape)}", "rank 4 and sizes known ahead of time")
    _, channels, height, width = upper(shape)
    parts = b.reshape(value, (shape[0], channels, height // r, r, width // r, r))
    return b.reshape(b.transpose(parts, (0, 1, 3, 5, 2, 4)), result)


VISITORS: dict[str, Visitor] = {
    "aten::pixel_shuffle": _pixel_shuffle,
    "aten::pixel_unshuffle": _pixel_unshuffle,
    "aten::upsample_bilinear2d": _bilinear,
    "aten::upsample_bilinear2d.vec": _bilinear,
}
