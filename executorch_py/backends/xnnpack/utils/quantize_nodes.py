"""Facts about quantize and dequantize nodes by name, under upstream's names for users' passes.

Relies on the arguments of `quantized_decomposed` and `torchao` operators. The partitioner of this
package has its own facts (support/node_facts.py).
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.op_traits import CHOOSE_QPARAMS, DEQUANTIZE, QUANTIZE, op_key

__all__ = [
    "IS_IMPLICIT_Q_DQ_TAG",
    "extract_qdq_affine_op_args_for_decomposed_ops",
    "is_affine_qdq",
    "is_dequant",
    "is_dynamic_qdq",
    "is_per_channel",
    "is_per_channel_group",
    "is_per_tensor",
    "is_per_token",
    "is_qparam",
    "is_quant",
    "is_tagged_as_implicit_q_dq",
    "is_tensor_subnormal",
    "tag_as_implicit_q_dq",
    "validate_quant_scales",
    "validate_quant_zeropoints",
]

IS_IMPLICIT_Q_DQ_TAG = "IS_IMPLICIT_Q_DQ_TAG"


def tag_as_implicit_q_dq(node: fx.Node) -> None:
    """Mark a node as part of the operator beside it."""
    node.meta[IS_IMPLICIT_Q_DQ_TAG] = True


def is_tagged_as_implicit_q_dq(node: fx.Node) -> bool:
    """Whether a node is marked as part of the operator beside it."""
    return bool(node.meta.get(IS_IMPLICIT_Q_DQ_TAG, False))


def _key(node: fx.Node) -> str:
    return op_key(node.target) if node.op == "call_function" else ""


def is_qparam(node: fx.Node) -> bool:
    """Whether a node finds scale and zero point at run time."""
    return _key(node) in CHOOSE_QPARAMS


def is_quant(node: fx.Node) -> bool:
    """Whether a node quantizes."""
    return _key(node) in QUANTIZE


def is_dequant(node: fx.Node) -> bool:
    """Whether a node dequantizes."""
    return _key(node) in DEQUANTIZE


def _is_conversion(node: fx.Node) -> bool:
    return is_quant(node) or is_dequant(node)


def is_affine_qdq(node: fx.Node) -> bool:
    """Whether a node is torchao's quantize_affine or dequantize_affine."""
    return _is_conversion(node) and "quantize_affine" in _key(node)


def is_dynamic_qdq(node: fx.Node) -> bool:
    """Whether a conversion has a scale and a zero point that are found at run time."""
    if not _is_conversion(node):
        return False
    numbers = node.args[2:4] if is_affine_qdq(node) else node.args[1:3]
    return all(
        isinstance(number, fx.Node)
        and number.target is operator.getitem
        and is_qparam(number.all_input_nodes[0])
        for number in numbers
    )


def is_per_channel(node: fx.Node) -> bool:
    """Whether a conversion has a scale for each channel, or for groups of each."""
    return _is_conversion(node) and ("per_channel" in _key(node) or is_per_channel_group(node))


def is_per_tensor(node: fx.Node) -> bool:
    """Whether a conversion has one scale."""
    return _is_conversion(node) and "per_tensor" in _key(node)


def is_per_token(node: fx.Node) -> bool:
    """Whether a conversion has a scale for each row."""
    if not is_affine_qdq(node):
        return _is_conversion(node) and "per_token" in _key(node)
    block, value, scales = _affine_parts(node)
    whole_rows = all(size == 1 for size in block[:-1]) and bool(value.shape[-1] == block[-1])
    return whole_rows and bool(scales.numel() == prod(value.shape[:-1]))


def is_per_channel_group(node: fx.Node) -> bool:
    """Whether a conversion has a scale for each group of a row of a matrix."""
    if not is_affine_qdq(node):
        return _is_conversion(node) and "per_channel_group" in _key(node)
    block, value, scales = _affine_parts(node)
    if not all(isinstance(size, int) for size in (*value.shape, *scales.shape)):
        return False
    return len(block) == 2 and block[0] == 1 and value.numel() == block[1] * scales.numel()


def _affine_parts(node: fx.Node) -> tuple[Any, Any, Any]:
    """Block sizes, converted value and scales of torchao's operators."""
    source: Any = node.args[0]
    scales: Any = node.args[2]
    sizes: Any = node.args[1]
    block = [b.meta["val"] if isinstance(b, fx.Node) else b for b in sizes]
    return block, source.meta["val"], scales.meta["val"]


def extract_qdq_affine_op_args_for_decomposed_ops(node: fx.Node) -> Any:
    """Arguments of torchao's operator in the order of `quantized_decomposed`.

    (None, None) for other operators, and for other types than int8.
    """
    if not is_affine_qdq(node) or node.args[4] != torch.int8:
        return None, None
    block: Any = node.args[1]
    dtype = node.args[4]
    given = len(node.args) > 6
    limits = list(node.args[5:7]) if given else [-128, 127]
    group = [block[-1]] if is_per_channel_group(node) else []
    return [node.args[0], node.args[2], node.args[3], *limits, dtype, *group, node.args[-1]]


def is_tensor_subnormal(tensor: torch.Tensor) -> torch.Tensor:
    """For each element, whether it lies below the least normal number, zero included."""
    return (tensor >= 0) & (tensor.abs() < torch.finfo(tensor.dtype).smallest_normal)


def validate_quant_scales(scales: float | torch.Tensor) -> None:
    """ValueError unless all scales are finite and normal."""
    values = scales if isinstance(scales, torch.Tensor) else torch.tensor([scales])
    wrong = torch.isinf(values) | torch.isnan(values) | is_tensor_subnormal(values)
    _refuse("scale", "finite and normal numbers", values, wrong)


def validate_quant_zeropoints(zp: float | torch.Tensor, dtype: torch.dtype, is_4bit: bool) -> None:
    """ValueError unless all zero points are integers of the type."""
    values = zp if isinstance(zp, torch.Tensor) else torch.tensor([zp])
    if dtype in (torch.int8, torch.qint8):
        low, high = (0, 15) if is_4bit else (-128, 127)
    elif dtype in (torch.uint8, torch.quint8):
        low, high = 0, 255
    elif dtype == torch.int32:
        low, high = 0, 0
    else:
        raise ValueError(f"zero point: expected int8, uint8 or int32 values, got {dtype}")
    _refuse("zero point", f"{low} to {high}", values, (values < low) | (values > high))


def _refuse(what: str, expected: str, values: torch.Tensor, wrong: torch.Tensor) -> None:
    for index in wrong.nonzero().tolist():
        found = values[tuple(index)].item()
        raise ValueError(f"{what} at {tuple(index)}: expected {expected}, got {found}")
