"""Activations: clamps (which a pass fuses with the node before), leaky ReLUs, gates, softmax."""

from __future__ import annotations

import math

import torch
from torch import fx

from executorch_py.backends.xnnpack.ops.mean import last_dim_sum
from executorch_py.backends.xnnpack.payload.graph import Needs, Symbol, Value, text_of
from executorch_py.backends.xnnpack.payload.graph_builder import Builder, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.exir.ir.match import argument

# exp of this is 0 in float32.
_VANISHES = -200.0


def _clamped(b: Builder, value: Value, low: float, high: float) -> Value:
    b.require_float(value)
    return b.emit(NodeKind.CLAMP, [value], clamp=(low, high))


def _relu(b: Builder, node: fx.Node) -> Value:
    return _clamped(b, b.input(node, "self"), 0.0, math.inf)


def _relu6(b: Builder, node: fx.Node) -> Value:
    return _clamped(b, b.input(node, "self"), 0.0, 6.0)


def _hardtanh(b: Builder, node: fx.Node) -> Value:
    low, high = b.number(node, "min_val"), b.number(node, "max_val")
    return _clamped(b, b.input(node, "self"), low, high)


def _clamp(b: Builder, node: fx.Node) -> Value:
    low = -math.inf if argument(node, "min") is None else b.number(node, "min")
    high = math.inf if argument(node, "max") is None else b.number(node, "max")
    if low > high:
        b.refuse(f"a clamp to [{low:g}, {high:g}]", "min <= max")
    return _clamped(b, b.input(node, "self"), low, high)


def _clamp_below(b: Builder, node: fx.Node) -> Value:
    return _clamped(b, b.input(node, "self"), b.number(node, "min"), math.inf)


def _clamp_above(b: Builder, node: fx.Node) -> Value:
    return _clamped(b, b.input(node, "self"), -math.inf, b.number(node, "max"))


def _leaky_relu(b: Builder, node: fx.Node) -> Value:
    value, slope = b.input(node, "self"), b.number(node, "negative_slope")
    b.require_float(value)
    return b.emit(NodeKind.LEAKY_RELU, [value], negative_slope=slope)


def _elu(b: Builder, node: fx.Node) -> Value:
    value, alpha = b.input(node, "self"), b.number(node, "alpha")
    b.require_float(value)
    scales = [b.number(node, name) for name in ("scale", "input_scale")]
    if scales != [1.0, 1.0]:
        b.refuse(f"scale and input_scale {scales}", "1, the defaults of nn.ELU")
    return b.emit(NodeKind.ELU, [value], alpha=alpha)


def _prelu(b: Builder, node: fx.Node) -> Value:
    value, slope = b.input(node, "self"), b.input(node, "weight")
    b.require_float(value)
    if slope.data is None:
        b.refuse(f"'{slope.name}' as slopes, computed at run time", "constant slopes")
    if slope.data.numel() == 1:
        return b.emit(NodeKind.LEAKY_RELU, [value], negative_slope=float(slope.data.item()))
    if value.rank not in (3, 4):
        b.refuse(f"slopes per channel of {text_of(value.shape)}", "an image of rank 3 or 4")
    weights = b.constant(slope.data.reshape(-1), slope.name)
    weights.is_weight = True
    return b.emit(NodeKind.PRELU, [value, weights])


def _silu(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    return b.binary(NodeKind.MULTIPLY, value, b.emit(NodeKind.SIGMOID, [value]))


def _hardswish(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    return b.emit(NodeKind.HARDSWISH, [value])


def _hardsigmoid(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    sixth = b.binary(NodeKind.MULTIPLY, value, b.scalar(1 / 6, value))
    shifted = b.binary(NodeKind.ADD, sixth, b.scalar(0.5, value))
    return b.emit(NodeKind.CLAMP, [shifted], clamp=(0.0, 1.0))


def _mish(b: Builder, node: fx.Node) -> Value:
    """Mish: x * tanh(log(1 + e)) with e = exp(x) equals x * n / (n + 2) with n = e * (e + 2).

    Above 20 the quotient is 1 in float32, so that x is clamped to 20 before exp overflows.
    """
    value = b.input(node, "self")
    b.require_float(value)
    return b.in_float32(value, lambda x: _mish_of(b, x))


def _mish_of(b: Builder, value: Value) -> Value:
    exp = b.emit(NodeKind.EXP, [_clamped(b, value, -math.inf, 20.0)])
    n = b.binary(NodeKind.MULTIPLY, exp, b.binary(NodeKind.ADD, exp, b.scalar(2.0, exp)))
    below = b.binary(NodeKind.ADD, n, b.scalar(2.0, n))
    return b.binary(NodeKind.MULTIPLY, value, b.binary(NodeKind.DIV, n, below))


def _softmax_over(b: Builder, value: Value, dim: int) -> Value:
    """Softmax over any dimension: channels are last in images, other dimensions are transposed."""
    b.require_float(value)
    dim = b.axis(dim, value.rank)
    if dim == value.rank - 1:
        return b.emit(NodeKind.SOFTMAX, [value])
    if dim == 1 and value.rank == 4:
        return b.emit(NodeKind.SOFTMAX, [value], needs=Needs.IMAGE)
    perm = [d for d in range(value.rank) if d != dim] + [dim]
    back = [perm.index(d) for d in range(value.rank)]
    return b.transpose(b.emit(NodeKind.SOFTMAX, [b.transpose(value, perm)]), back)


def _softmax(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    if argument(node, "half_to_float", False) is True:
        b.refuse("a softmax that changes the element type", "half_to_float=False")
    return _softmax_over(b, value, b.integer(node, "dim"))


def _log_softmax(b: Builder, node: fx.Node) -> Value:
    """Log-softmax: x - c - log(sum(exp(x - c))) for any number c near the largest element.

    No node finds the largest element of a row. The mean of a row weighted with its softmax is at
    most log(n) below it, so that exp neither overflows nor underflows to zero everywhere. -inf is
    clamped before products.
    """
    value = b.input(node, "self")
    if argument(node, "half_to_float", False) is True:
        b.refuse("a softmax that changes the element type", "half_to_float=False")
    b.require_float(value)
    dim = b.axis(b.integer(node, "dim"), value.rank)
    perm = [d for d in range(value.rank) if d != dim] + [dim]
    back = [perm.index(d) for d in range(value.rank)]
    rows = b.transpose(value, perm)
    return b.transpose(b.in_float32(rows, lambda x: _log_softmax_of(b, x)), back)


def _log_softmax_of(b: Builder, rows: Value) -> Value:
    finite = _clamped(b, rows, torch.finfo(torch.float32).min, math.inf)
    weighted = b.binary(NodeKind.MULTIPLY, b.emit(NodeKind.SOFTMAX, [finite]), finite)
    center = last_dim_sum(b, weighted, 1.0)
    near = b.emit(NodeKind.SUBTRACT, [finite, center], clamp=(_VANISHES, math.inf))
    total = last_dim_sum(b, b.emit(NodeKind.EXP, [near]), 1.0)
    centered = b.binary(NodeKind.SUBTRACT, rows, center)
    return b.binary(NodeKind.SUBTRACT, centered, b.emit(NodeKind.LOG, [total]))


def _glu(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    dim = b.axis(b.integer(node, "dim"), value.rank)
    size = value.shape[dim]
    if isinstance(size, Symbol):
        b.refuse(f"halves of {text_of(value.shape)}", "a size known ahead of time")
    first, second = (b.slice(value, dim, start, size // 2) for start in (0, size // 2))
    return b.binary(NodeKind.MULTIPLY, first, b.emit(NodeKind.SIGMOID, [second]))


VISITORS: dict[str, Visitor] = {
    "aten::_log_softmax": _log_softmax,
    "aten::_softmax": _softmax,
    "aten::clamp": _clamp,
    "aten::clamp_max": _clamp_above,
    "aten::clamp_min": _clamp_below,
    "aten::elu": _elu,
    "aten::glu": _glu,
    "aten::hardsigmoid": _hardsigmoid,
    "aten::hardswish": _hardswish,
    "aten::hardtanh": _hardtanh,
    "aten::leaky_relu": _leaky_relu,
    "aten::mish": _mish,
    "aten::prelu": _prelu,
    "aten::_prelu_kernel": _prelu,
    "aten::relu": _relu,
    "aten::relu6": _relu6,
    "aten::silu": _silu,
    "aten::softmax.int": _softmax,
}
