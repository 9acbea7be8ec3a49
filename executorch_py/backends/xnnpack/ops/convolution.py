"""Convolutions of one or two dimensions: dense, grouped, depthwise and transposed.

A row of pixels is an image of height 1. Weights are arranged in the memory order of their nodes.
"""

from __future__ import annotations

import torch
from torch import fx

from executorch_py.backends.xnnpack.payload.graph import PerChannel, PerTensor, Value, text_of
from executorch_py.backends.xnnpack.payload.graph_builder import Builder, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.backends.xnnpack.payload.quantization import dequantized
from executorch_py.exir.ir.match import argument


def _two(values: list[int], rank: int, missing: int) -> list[int]:
    """An argument for height and width, from one per dimension or one for all dimensions."""
    values = values * (rank - 2) if len(values) == 1 else values
    return [missing] * (2 - len(values)) + values


def _arranged(b: Builder, weight: Value, groups: int, transposed: bool, depthwise: bool) -> Value:
    """The weight in its node's order: [out, h, w, in / groups], or [1, h, w, out] if depthwise."""
    assert weight.data is not None
    data, how = weight.data, weight.quantization
    if data.dim() == 3:
        data = data.unsqueeze(2)
    if transposed:
        n_in, per_group, height, width = data.shape
        axis = 0
        if groups == 1:
            data = data.permute(1, 2, 3, 0)
        else:
            data = data.reshape(groups, n_in // groups, per_group, height, width)
            data = data.permute(0, 2, 3, 4, 1)
            data = data.reshape(groups * per_group, height, width, n_in // groups)
    elif depthwise:
        data, axis = data.permute(1, 2, 3, 0), 3
    else:
        data, axis = data.permute(0, 2, 3, 1), 0
    made = b.weight(b.derived(weight, data))
    made.quantization, made.datatype = how, weight.datatype
    if isinstance(how, PerChannel):
        # Weights of transposed convolutions are [in, out / groups, …]: groups share scales.
        scales = how.scales.repeat(groups) if transposed else how.scales
        made.quantization = PerChannel(scales, axis)
    elif how is None:
        # Half-precision images are convolved with weights of full precision.
        made.data, made.datatype = data.to(torch.float32), Datatype.FP32
    return made


def _per_output(b: Builder, weight: Value, transposed: bool) -> Value:
    """The weight, dequantized unless its scales are per tensor or per output channel."""
    how = weight.quantization
    fits = how is None or isinstance(how, PerTensor)
    if isinstance(how, PerChannel):
        fits = how.axis == (1 if transposed else 0)
    return weight if fits else b.derived(weight, dequantized(weight))


def _convolution(b: Builder, node: fx.Node) -> Value:
    x, weight, bias = b.input(node, "input"), b.input(node, "weight"), b.optional(node, "bias")
    b.require_float(x)
    weight = _per_output(b, weight, bool(argument(node, "transposed")))
    if weight.data is None or (bias is not None and bias.data is None):
        b.refuse("weights or a bias computed at run time", "constants")
    if x.rank not in (3, 4):
        b.refuse(f"an image of {text_of(x.shape)}", "rank 3 or 4")
    transposed, groups = bool(argument(node, "transposed")), b.integer(node, "groups")
    stride, padding, dilation, adjustment = (
        _two(b.integers(node, name), x.rank, missing)
        for name, missing in (
            ("stride", 1),
            ("padding", 0),
            ("dilation", 1),
            ("output_padding", 0),
        )
    )
    depthwise = not transposed and weight.shape[1] == 1 and groups > 1
    kernel = _two([int(n) for n in weight.data.shape[2:]], x.rank, 1)
    n_out = int(weight.data.shape[0])
    n_in = int(weight.data.shape[1]) * groups
    if transposed:
        n_in, n_out = n_out, n_in
    kind = NodeKind.CONV_TRANSPOSE_2D if transposed else NodeKind.CONV_2D
    if bias is not None:
        bias = b.weight(bias if bias.quantization else b.cast(bias, torch.float32))
    return b.emit(
        NodeKind.DEPTHWISE_CONV_2D if depthwise else kind,
        [x, _arranged(b, weight, groups, transposed, depthwise), bias],
        shape=b.result_shape(node),
        kernel=tuple(kernel),
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        adjustment=tuple(adjustment),
        group_input_channels=n_in // groups,
        group_output_channels=n_out // groups,
        groups=groups,
    )


VISITORS: dict[str, Visitor] = {"aten::convolution": _convolution}
