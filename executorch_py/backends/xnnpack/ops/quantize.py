"""Quantize and dequantize operators, with static or dynamic scales.

The visitors emit explicit conversions and quantized constants. The pass fold_quantization folds
them into the nodes between.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_py.backends.xnnpack.payload.graph import (
    Dynamic,
    PerChannel,
    PerGroup,
    PerTensor,
    Value,
    text_of,
)
from executorch_py.backends.xnnpack.payload.graph_builder import DATATYPES, Builder, Made, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.backends.xnnpack.payload.quantization import dequantized
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key


def has_four_bits(low: Any, high: Any) -> bool:
    """Whether integers within these limits fit in 4 bits."""
    return low is not None and high is not None and low >= -8 and high <= 7


_SUMS = ("aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor")


def _choose(b: Builder, node: fx.Node) -> Made:
    """A placeholder for scale and zero point of a value that is quantized at run time."""
    placeholder = Value(node.name, (), Datatype.INVALID, Dynamic(1))
    return placeholder, placeholder


def _is_dynamic(b: Builder, scale: Any) -> bool:
    return isinstance(scale, fx.Node) and isinstance(b.value(scale).quantization, Dynamic)


def _per_tensor(b: Builder, node: fx.Node) -> PerTensor:
    scale, zero_point = b.number(node, "scale"), int(b.number(node, "zero_point"))
    if not 1.2e-38 <= scale < float("inf"):
        b.refuse(f"scale={scale}", "a normal positive number")
    return PerTensor(scale, zero_point)


def _quantize(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "input")
    b.require_float(value)
    by_token = op_key(node.target) == _name("quantize", "per_token")
    if _is_dynamic(b, argument(node, "scales" if by_token else "scale")):
        made = b.emit(NodeKind.CONVERT, [value], datatype=Datatype.QDINT8)
        made.quantization = Dynamic(1)
        return made
    dtype = node.meta["val"].dtype
    if by_token:
        b.refuse(f"'{value.name}' quantized with scales per row", "scales chosen at run time")
    if dtype not in (torch.int8, torch.uint8):
        b.refuse(f"quantization to {dtype}", "int8")
    made = b.emit(NodeKind.CONVERT, [value], datatype=DATATYPES[dtype])
    made.quantization = _per_tensor(b, node)
    return made


def _dequantize(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "input")
    if isinstance(value.quantization, Dynamic):
        return b.emit(NodeKind.CONVERT, [value], datatype=DATATYPES[node.meta["val"].dtype])
    if op_key(node.target) == _name("dequantize", "per_token"):
        b.refuse(f"'{value.name}' with scales per row", "scales chosen at run time")
    how = _per_tensor(b, node)
    if value.data is not None and how.zero_point and not _is_operand_of_sums(node):
        made = b.derived(value, value.data)
        made.quantization = how
        return b.derived(value, dequantized(made))
    if value.data is not None:
        return _constant(b, value, how, argument(node, "quant_min"), argument(node, "quant_max"))
    if value.datatype not in (Datatype.QINT8, Datatype.QUINT8):
        b.refuse(f"quantized elements of {value.datatype.name}", "int8")
    if value.quantization is None:
        value.quantization = how
    if value.quantization != how:
        b.refuse(f"'{value.name}' with {value.quantization} and {how}", "one scale and zero point")
    return b.emit(NodeKind.CONVERT, [value], datatype=DATATYPES[node.meta["val"].dtype])


def _is_operand_of_sums(node: fx.Node) -> bool:
    """Whether all readers of a constant allow a zero point, as weighted nodes do not."""
    return all(op_key(user.target) in _SUMS for user in node.users)


def _constant(b: Builder, value: Value, how: Any, low: Any, high: Any) -> Value:
    """A quantized constant, or its floats if no node reads its element type."""
    assert value.data is not None
    made = b.derived(value, value.data)
    made.quantization = how
    four_bits = has_four_bits(low, high) or isinstance(how, PerGroup)
    if value.data.dtype is not torch.int8:
        return b.derived(value, dequantized(made))
    if isinstance(how, PerTensor):
        made.datatype = Datatype.QINT8
    elif isinstance(how, PerChannel):
        made.datatype = Datatype.QCINT4 if four_bits else Datatype.QCINT8
    else:
        made.datatype = Datatype.QBINT4
    return made


def _all_zero(b: Builder, arg: Any) -> bool:
    if arg is None:
        return True
    value = b.value(arg)
    return value.data is not None and not bool(value.data.any())


def _floats(b: Builder, arg: Any) -> torch.Tensor:
    value = b.value(arg)
    if value.data is None:
        b.refuse(f"'{value.name}' as scales, computed at run time", "constant scales")
    return value.data.detach().to(torch.float32)


def _dequantize_per_channel(b: Builder, node: fx.Node) -> Value:
    value, axis = b.input(node, "input"), b.integer(node, "axis")
    if value.data is None:
        b.refuse(f"'{value.name}' with scales per channel", "a constant")
    if not _all_zero(b, argument(node, "zero_points")):
        b.refuse("zero points other than 0 per channel", "0")
    scales = _floats(b, argument(node, "scales")).reshape(-1)
    how = PerChannel(scales, b.axis(axis, value.rank))
    return _constant(b, value, how, argument(node, "quant_min"), argument(node, "quant_max"))


def _dequantize_groups(b: Builder, node: fx.Node) -> Value:
    value, size = b.input(node, "input"), b.integer(node, "group_size")
    if value.data is None or value.rank != 2:
        b.refuse(f"'{value.name}' with scales per group", "a constant matrix")
    if not _all_zero(b, argument(node, "zero_points")):
        b.refuse("zero points other than 0 per group", "0")
    scales = _floats(b, argument(node, "scales"))
    return _grouped(
        b, value, scales, size, argument(node, "quant_min"), argument(node, "quant_max")
    )


def _grouped(
    b: Builder, value: Value, scales: torch.Tensor, size: int, low: Any, high: Any
) -> Value:
    """A matrix with a scale for each `size` columns of a row."""
    assert value.data is not None
    rows, columns = value.data.shape
    scales = scales.reshape(rows, -1)
    fits = columns % size == 0 and scales.shape[1] == columns // size
    # Scales of groups have 16 bits, scales of rows 32.
    exact = size < columns or torch.equal(scales, scales.to(torch.bfloat16).to(torch.float32))
    if has_four_bits(low, high) and fits and size % 32 == 0 and exact:
        return _constant(b, value, PerGroup(scales, size), low, high)
    if size == columns:
        return _constant(b, value, PerChannel(scales.reshape(-1), 0), low, high)
    b.refuse(
        f"groups of {size} of {columns} columns, values {low} to {high}",
        "4-bit groups of a multiple of 32 that divides the columns, or whole rows",
    )


def _dequantize_affine(b: Builder, node: fx.Node) -> Value:
    value = b.input(node, "input")
    scale = argument(node, "scale")
    if isinstance(value.quantization, Dynamic) or _is_dynamic(b, scale):
        return b.emit(NodeKind.CONVERT, [value], datatype=DATATYPES[node.meta["val"].dtype])
    if value.data is None:
        b.refuse(f"'{value.name}' computed at run time", "a constant, or scales chosen at run time")
    if not _all_zero(b, argument(node, "zero_point")):
        b.refuse("zero points other than 0", "0")
    scales, block = _floats(b, scale), b.integers(node, "block_size")
    low, high = argument(node, "quant_min"), argument(node, "quant_max")
    shape = list(value.data.shape)
    if block == shape:
        return _constant(b, value, PerTensor(float(scales.item()), 0), low, high)
    if len(shape) == 2 and block[0] == 1 and has_four_bits(low, high):
        return _grouped(b, value, scales, block[1], low, high)
    axes = [d for d, n in enumerate(block) if n != shape[d]]
    if len(axes) == 1 and block[axes[0]] == 1:
        return _constant(b, value, PerChannel(scales.reshape(-1), axes[0]), low, high)
    b.refuse(f"blocks of {block} in {text_of(value.shape)}", "rows, groups of columns, or all")


def _name(verb: str, what: str) -> str:
    return f"quantized_decomposed::{verb}_{what}"


_ONE_SCALE = ("per_tensor", "per_tensor.tensor", "per_token")

VISITORS: dict[str, Visitor] = {
    **{_name("quantize", what): _quantize for what in _ONE_SCALE},
    **{_name("dequantize", what): _dequantize for what in _ONE_SCALE},
    _name("dequantize", "per_channel"): _dequantize_per_channel,
    _name("dequantize", "per_channel_group"): _dequantize_groups,
    "quantized_decomposed::choose_qparams.tensor": _choose,
    "quantized_decomposed::choose_qparams_per_token_asymmetric": _choose,
    "torchao::choose_qparams_affine": _choose,
    "torchao::dequantize_affine": _dequantize_affine,
    "torchao::quantize_affine": _quantize,
}
