"""Matrix products: linear layers, with constant or computed weights, and products of batches."""

from __future__ import annotations

import torch
from torch import fx

from executorch_py.backends.xnnpack.payload.graph import Shape, Value, text_of
from executorch_py.backends.xnnpack.payload.graph_builder import Builder, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.exir.ir.match import argument

TRANSPOSE_WEIGHTS = 1


def fully_connected(
    b: Builder, x: Value, weight: Value, bias: Value | None, transposed: bool = False
) -> Value:
    """The product of x and weight [out, in], or [in, out] if `transposed`, plus a bias."""
    b.require_float(x)
    arranged = weight.data is not None and not weight.data.is_contiguous()
    if transposed and (arranged or weight.quantization is not None):
        weight, transposed = b.transpose(weight, (1, 0)), False
    n_out, n_in = weight.shape[::-1] if transposed else weight.shape
    if weight.rank != 2 or x.shape[-1] != n_in:
        b.refuse(f"{text_of(x.shape)} times {text_of(weight.shape)}", "matching inner sizes")
    shape: Shape = (*x.shape[:-1], n_out)
    flags = TRANSPOSE_WEIGHTS if transposed else 0
    if bias is not None and bias.data is not None and x.datatype is Datatype.BF16:
        bias = b.cast(bias, torch.float32)
    operands = [x, b.weight(weight), None if bias is None else b.weight(bias)]
    return b.emit(NodeKind.FULLY_CONNECTED, operands, shape=shape, flags=flags)


def _linear(b: Builder, node: fx.Node) -> Value:
    x, weight = b.input(node, "input"), b.input(node, "weight")
    return fully_connected(b, x, weight, b.optional(node, "bias"))


def _mm(b: Builder, node: fx.Node) -> Value:
    return fully_connected(b, b.input(node, "self"), b.input(node, "mat2"), None, transposed=True)


def _addmm(b: Builder, node: fx.Node) -> Value:
    x, weight, bias = b.input(node, "mat1"), b.input(node, "mat2"), b.input(node, "self")
    beta, alpha = b.number(node, "beta"), b.number(node, "alpha")
    if bias.rank == 1 and beta == alpha == 1:
        return fully_connected(b, x, weight, bias, transposed=True)
    product = fully_connected(b, x, weight, None, transposed=True)
    return _plus(b, product, bias, beta, alpha)


def _plus(b: Builder, product: Value, added: Value, beta: float, alpha: float) -> Value:
    """The sum alpha * product + beta * added."""
    if alpha != 1:
        product = b.binary(NodeKind.MULTIPLY, product, b.scalar(alpha, product))
    if beta != 1 and added.data is not None:
        added = b.derived(added, added.data * beta)
    elif beta != 1:
        added = b.binary(NodeKind.MULTIPLY, added, b.scalar(beta, added))
    return b.binary(NodeKind.ADD, product, added)


def batch_product(b: Builder, left: Value, right: Value) -> Value:
    """The product of two batches of matrices with equal batch sizes."""
    b.require_float(left)
    b.require_float(right)
    if left.shape[:-2] != right.shape[:-2] or left.shape[-1] != right.shape[-2]:
        b.refuse(f"{text_of(left.shape)} times {text_of(right.shape)}", "matching sizes")
    shape = (*left.shape[:-1], right.shape[-1])
    return b.emit(NodeKind.BATCH_MATRIX_MULTIPLY, [left, right], shape=shape)


def _bmm(b: Builder, node: fx.Node) -> Value:
    return batch_product(b, b.input(node, "self"), b.input(node, "mat2"))


def _baddbmm(b: Builder, node: fx.Node) -> Value:
    product = batch_product(b, b.input(node, "batch1"), b.input(node, "batch2"))
    beta, alpha = b.number(node, "beta"), b.number(node, "alpha")
    return _plus(b, product, b.input(node, "self"), beta, alpha)


def _matmul(b: Builder, node: fx.Node) -> Value:
    left, right = b.input(node, "self"), b.value(argument(node, "other"))
    if right.rank == 2:
        return fully_connected(b, left, right, None, transposed=True)
    if left.rank != right.rank or left.rank < 3:
        b.refuse(f"{text_of(left.shape)} times {text_of(right.shape)}", "operands of one rank")
    return batch_product(b, left, right)


VISITORS: dict[str, Visitor] = {
    "aten::addmm": _addmm,
    "aten::baddbmm": _baddbmm,
    "aten::bmm": _bmm,
    "aten::linear": _linear,
    "aten::matmul": _matmul,
    "aten::mm": _mm,
}
