"""Which nodes the reference delegate takes: fp32 add, sub, mul, relu on operands of one shape.

The partitioner and the backend both read this, so they cannot disagree.
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
    """The operation a node stands for, whatever its operands."""
    return _OPCODES.get(op_key(node.target)) if node.op == "call_function" else None


def is_supported(node: fx.Node) -> bool:
    """Whether the delegate computes this node: known operation, fp32, one shape, row-major."""
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
