"""Support of the reference delegate: fp32 add, sub, mul and relu on operands of one shape.

Partitioner and backend both read this module, so that they cannot disagree.
"""

from __future__ import annotations

import torch
from torch import fx

from executorch_py.backends.reference.payload import Opcode
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key

_OPCODES = {
    "aten::add.Tensor": Opcode.ADD,
    "aten::sub.Tensor": Opcode.SUB,
    "aten::mul.Tensor": Opcode.MUL,
    "aten::relu": Opcode.RELU,
}


def opcode_of(node: fx.Node) -> Opcode | None:
    """The opcode of a node's operator, regardless of its operands; None for other operators."""
    return _OPCODES.get(op_key(node.target)) if node.op == "call_function" else None


def is_supported(node: fx.Node) -> bool:
    """Whether the delegate computes a node: a known operator on fp32 of one shape, contiguous."""
    code = opcode_of(node)
    if code is None:
        return False
    if code in (Opcode.ADD, Opcode.SUB) and argument(node, "alpha", 1) != 1:
        return False
    operands = node.args[:1] if code is Opcode.RELU else node.args[:2]
    values = [arg.meta.get("val") if isinstance(arg, fx.Node) else None for arg in operands]
    result = node.meta.get("val")
    return all(_like(value, result) for value in [result, *values])


def _like(value: object, result: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and isinstance(result, torch.Tensor)
        and value.dtype is torch.float32
        and value.dim() == result.dim()
        and all(str(a) == str(b) for a, b in zip(value.shape, result.shape, strict=True))
        and value.is_contiguous()
    )
