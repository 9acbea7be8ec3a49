"""Element-wise operators: sums, products, quotients, maxima and minima, powers, functions.

Constant operands are cast to the element type of the result ahead of time, among them whole
numbers, which torch writes as 0-d int64 tensors.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import fx

from executorch_py.backends.xnnpack.payload.graph import PerTensor, Value
from executorch_py.backends.xnnpack.payload.graph_builder import DATATYPES, FLOATS, Builder, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.backends.xnnpack.payload.quantization import dequantized
from executorch_py.exir.ir.match import argument


def _operand(b: Builder, node: fx.Node, name: str, dtype: torch.dtype) -> Value:
    """The value of a tensor or number argument, of type `dtype`."""
    arg = argument(node, name)
    if isinstance(arg, (int, float)):
        return b.constant(torch.tensor([float(arg)], dtype=dtype), f"{float(arg):g}")
    value = b.value(arg)
    if value.data is not None and value.data.dtype is not dtype and value.quantization is None:
        return b.derived(value, value.data.to(dtype))
    if value.is_constant and isinstance(value.quantization, PerTensor):
        return value  # a pass decides whether the node reads integers or floats
    if value.datatype is not DATATYPES[dtype]:
        b.refuse(f"{value.datatype.name} in '{value.name}'", f"{dtype} as in the result")
    return value


def _operands(b: Builder, node: fx.Node) -> tuple[Value, Value]:
    dtype = node.meta["val"].dtype
    if DATATYPES.get(dtype) not in FLOATS:
        b.refuse(f"a result of {dtype}", "float32 or float16")
    return _operand(b, node, "self", dtype), _operand(b, node, "other", dtype)


def _scaled_by_alpha(b: Builder, node: fx.Node, other: Value) -> Value:
    alpha = b.number(node, "alpha")
    if alpha == 1:
        return other
    if other.data is not None:
        return b.derived(other, dequantized(other) * alpha)
    return b.binary(NodeKind.MULTIPLY, other, b.scalar(alpha, other))


def _sum(kind: NodeKind, b: Builder, node: fx.Node) -> Value:
    left, right = _operands(b, node)
    return b.binary(kind, left, _scaled_by_alpha(b, node, right))


def _rsub(b: Builder, node: fx.Node) -> Value:
    left, right = _operands(b, node)
    return b.binary(NodeKind.SUBTRACT, right, _scaled_by_alpha(b, node, left))


def _binary(kind: NodeKind, b: Builder, node: fx.Node) -> Value:
    return b.binary(kind, *_operands(b, node))


def _unary(kind: NodeKind, b: Builder, node: fx.Node) -> Value:
    """One node over the first argument."""
    value = b.value(node.args[0])
    b.require_float(value)
    return b.emit(kind, [value])


def _gelu(b: Builder, node: fx.Node) -> Value:
    """GELU: one node for the exact form; the tanh form is x * sigmoid(x * (a + c * x^2))."""
    value = b.input(node, "self")
    b.require_float(value)
    if argument(node, "approximate") != "tanh":
        return b.in_float32(value, lambda x: b.emit(NodeKind.GELU, [x]))
    twice = 2.0 * (2.0 / torch.pi) ** 0.5
    square = b.emit(NodeKind.SQUARE, [value])
    cubic = b.binary(NodeKind.MULTIPLY, square, b.scalar(twice * 0.044715, value))
    inner = b.binary(NodeKind.ADD, cubic, b.scalar(twice, value))
    gate = b.emit(NodeKind.SIGMOID, [b.binary(NodeKind.MULTIPLY, inner, value)])
    return b.binary(NodeKind.MULTIPLY, value, gate)


def _power(b: Builder, node: fx.Node) -> Value:
    value, exponent = b.input(node, "self"), b.number(node, "exponent")
    b.require_float(value)
    if exponent == 2:
        return b.emit(NodeKind.SQUARE, [value])
    if exponent == 3:
        return b.binary(NodeKind.MULTIPLY, b.emit(NodeKind.SQUARE, [value]), value)
    if exponent == 4:
        return b.emit(NodeKind.SQUARE, [b.emit(NodeKind.SQUARE, [value])])
    if exponent == 0.5:
        return b.emit(NodeKind.SQUARE_ROOT, [value])
    if exponent == -0.5:
        return b.emit(NodeKind.RECIPROCAL_SQUARE_ROOT, [value])
    if exponent == -1:
        return b.binary(NodeKind.DIV, b.scalar(1.0, value), value)
    b.refuse(f"the exponent {exponent:g}", "2, 3, 4, 0.5, -0.5 or -1")


def _reciprocal(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "self")
    b.require_float(value)
    return b.binary(NodeKind.DIV, b.scalar(1.0, value), value)


_UNARY = {
    "aten::abs": NodeKind.ABS,
    "aten::ceil": NodeKind.CEILING,
    "aten::cos": NodeKind.COS,
    "aten::exp": NodeKind.EXP,
    "aten::floor": NodeKind.FLOOR,
    "aten::log": NodeKind.LOG,
    "aten::neg": NodeKind.NEGATE,
    "aten::rsqrt": NodeKind.RECIPROCAL_SQUARE_ROOT,
    "aten::sigmoid": NodeKind.SIGMOID,
    "aten::sin": NodeKind.SIN,
    "aten::sqrt": NodeKind.SQUARE_ROOT,
    "aten::square": NodeKind.SQUARE,
    "aten::tanh": NodeKind.TANH,
}
_BINARY = {
    "aten::div.Scalar": NodeKind.DIV,
    "aten::div.Tensor": NodeKind.DIV,
    "aten::maximum": NodeKind.MAXIMUM,
    "aten::minimum": NodeKind.MINIMUM,
    "aten::mul.Scalar": NodeKind.MULTIPLY,
    "aten::mul.Tensor": NodeKind.MULTIPLY,
}
_SUMS = {
    "aten::add.Scalar": NodeKind.ADD,
    "aten::add.Tensor": NodeKind.ADD,
    "aten::sub.Scalar": NodeKind.SUBTRACT,
    "aten::sub.Tensor": NodeKind.SUBTRACT,
}

VISITORS: dict[str, Visitor] = {
    **{key: partial(_unary, kind) for key, kind in _UNARY.items()},
    **{key: partial(_binary, kind) for key, kind in _BINARY.items()},
    **{key: partial(_sum, kind) for key, kind in _SUMS.items()},
    "aten::gelu": _gelu,
    "aten::pow.Tensor_Scalar": _power,
    "aten::reciprocal": _reciprocal,
    "aten::rsub.Scalar": _rsub,
}
