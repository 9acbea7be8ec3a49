"""Quantized weights that XNNPACK has kernels for in linear layers, by the input's quantization.

input                      weights
int8, static scales        int8, one scale or one per row
int8, dynamic scales       the same, or 4 bits with scales per row or per group (32, 64, …)
float                      8 or 4 bits, one scale or one per row
"""

from __future__ import annotations

import torch
from torch import fx

from executorch_py.backends.xnnpack.ops.quantize import has_four_bits
from executorch_py.backends.xnnpack.support.node_facts import NodeFacts, Quantized
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key

GROUP_MULTIPLE = 32
_TRANSPOSES = ("aten::permute_copy", "aten::t_copy", "aten::transpose_copy.int")


def form_refusal(facts: NodeFacts, weight: fx.Node, how: Quantized | None) -> str | None:
    """Why integers behind a dequantize node cannot be a linear layer's weights.

    how: the quantization of the layer's input.
    """
    values = facts.constant(weight)
    assert values is not None
    if how is None and facts.input.dtype is not torch.float32:
        return f"its weights are quantized, its input is {facts.input.dtype}, not float32"
    if values.dtype is not torch.int8:
        return None  # dequantized at export
    if _has_zero_points(facts, weight):
        return "its weights have zero points, which XNNPACK has for activations only"
    small = has_four_bits(argument(weight, "quant_min"), argument(weight, "quant_max"))
    size, n_columns = _group_size(weight, values), values.shape[-1]
    if size == 0:
        return "its weights are quantized in blocks other than rows and parts of rows"
    if size < n_columns:
        if not small or how is not Quantized.DYNAMIC:
            return (
                f"its weights have scales for groups of {size}, which XNNPACK multiplies in 4 bits "
                "with inputs that are quantized at run time, and no others"
            )
        if size % GROUP_MULTIPLE or n_columns % size:
            return f"its weights have groups of {size}, not of a multiple of {GROUP_MULTIPLE}"
    elif small and how is Quantized.STATIC:
        return "its weights have 4 bits, its input a scale known ahead of time"
    return None


def transposed_integers(facts: NodeFacts, weight: fx.Node) -> fx.Node | None:
    """The dequantize node of a constant behind a transposition."""
    if op_key(weight.target) not in _TRANSPOSES:
        return None
    source = weight.args[0]
    is_integers = isinstance(source, fx.Node) and facts.quantized(source) is Quantized.CONSTANT
    return source if is_integers else None


def _has_zero_points(facts: NodeFacts, dequantize: fx.Node) -> bool:
    try:
        given = argument(dequantize, "zero_point")
    except KeyError:
        given = argument(dequantize, "zero_points")
    if isinstance(given, fx.Node):
        found = facts.constants.get(given.name)
        return found is None or bool(found.any())
    return bool(given)


def _group_size(dequantize: fx.Node, values: torch.Tensor) -> int:
    """The number of columns of a row that share a scale; 0 for blocks other than parts of rows."""
    key, n_columns = op_key(dequantize.target), int(values.shape[-1])
    if key == "torchao::dequantize_affine":
        block = list(argument(dequantize, "block_size"))
        if block == list(values.shape):
            return n_columns
        return int(block[1]) if len(block) == 2 and block[0] == 1 else 0
    if key == "quantized_decomposed::dequantize_per_channel_group":
        return int(argument(dequantize, "group_size"))
    if key == "quantized_decomposed::dequantize_per_channel":
        return n_columns if argument(dequantize, "axis") % values.dim() == 0 else 0
    return n_columns
