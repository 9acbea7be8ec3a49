"""Checks of products for the capability table: convolutions, linear layers, matrices, attention.

Each check reads the NodeFacts of one node and returns None, or the reason why XNNPACK cannot
compute it; see capability_checks.py.
"""

from __future__ import annotations

import torch
from torch import fx

from executorch_py.backends.xnnpack.support.capability_checks import dtype_name, dynamic_sizes
from executorch_py.backends.xnnpack.support.node_facts import NOT_LINEAR, NodeFacts, Quantized
from executorch_py.backends.xnnpack.support.weight_checks import form_refusal, transposed_integers
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key


def image_convolution(facts: NodeFacts) -> str | None:
    """Check for images of one or two dimensions."""
    dims = facts.input.dim()
    if dims not in (3, 4):
        return f"it convolves over {dims - 2} dimensions, not 1 or 2"
    if any(facts.integers(n) is None for n in ("stride", "padding", "dilation", "output_padding")):
        return "its window is found at run time"
    return None


def weights_of_convolution(facts: NodeFacts) -> str | None:
    """Check weights and bias of a convolution, which are constant."""
    return _weights(facts, facts.argument("weight"), facts.argument("bias"), computed=False)


def weights_of_linear(facts: NodeFacts) -> str | None:
    """Check weights and bias of a linear layer: constant, or computed float32."""
    return _weights(facts, facts.argument("weight"), facts.argument("bias"), _may_compute(facts))


def weights_of_mm(facts: NodeFacts) -> str | None:
    """Check weights and bias of mm and addmm, whose matrices are not transposed."""
    is_addmm = facts.key == "aten::addmm"
    bias = facts.argument("self") if is_addmm else None
    return _weights(facts, facts.argument("mat2"), bias, _may_compute(facts))


def _may_compute(facts: NodeFacts) -> bool:
    result = facts.results
    return bool(result) and result[0].dtype is torch.float32


def _weights(facts: NodeFacts, weight: fx.Node, bias: fx.Node | None, computed: bool) -> str | None:
    if facts.constant(weight) is None:
        if computed and facts.quantized(weight) is not None:
            return "its weights are quantized at run time"
        is_linear = facts.key != "aten::convolution"
        integers = transposed_integers(facts, weight) if is_linear else None
        if integers is not None:
            refusal = form_refusal(facts, integers, facts.quantized(_activation(facts, weight)))
            why: str | None = facts.node.meta.get(NOT_LINEAR)
            return refusal or why or "its weights are integers that are transposed first"
        if not computed:
            return "its weights are computed at run time"
    if bias is not None and facts.constant(bias) is None and not computed:
        return "its bias is computed at run time"
    return _precision(facts, weight)


def _precision(facts: NodeFacts, weight: fx.Node) -> str | None:
    """Check that a product multiplies integers by integers, or floats by floats."""
    activation = _activation(facts, weight)
    source = facts.around[activation].before_moves
    how = facts.quantized(source)
    if how is Quantized.DYNAMIC and source is not activation:
        return "its input is quantized at run time and then moved"
    if facts.quantized(weight) is None:
        return None if how is not Quantized.DYNAMIC else "its input alone is quantized"
    if facts.key == "aten::linear":
        refusal = form_refusal(facts, weight, how)
        if refusal is not None or how is None:
            return refusal
    elif how is None:
        return "its weights are quantized, its input is not"
    if how is Quantized.STATIC and facts.quantized_result is None:
        return "its weights and input are quantized, its result is not"
    if how is Quantized.DYNAMIC and not _is_dynamic_product(facts):
        return "it is quantized at run time, which is for rows and images, not depthwise"
    if how is Quantized.DYNAMIC and channels_axis(weight) not in (None, output_axis(facts.node)):
        return "its weights have scales for other channels than its result's"
    return None


def channels_axis(weight: fx.Node) -> int | None:
    """The dimension along which a constant has scales; None for one scale or groups."""
    is_per_channel = op_key(weight.target) == "quantized_decomposed::dequantize_per_channel"
    return int(argument(weight, "axis")) if is_per_channel else None


def output_axis(node: fx.Node) -> int:
    """The dimension of a product's weights that holds the output channels."""
    key = op_key(node.target)
    transposed = key == "aten::convolution" and argument(node, "transposed")
    return 1 if transposed or key in ("aten::mm", "aten::addmm") else 0


def _activation(facts: NodeFacts, weight: fx.Node) -> fx.Node:
    """The operand that a product multiplies by its weights."""
    names = ("input", "mat1", "self")
    for name in names if facts.key != "aten::addmm" else ("mat1",):
        try:
            found: fx.Node = facts.argument(name)
        except KeyError:
            continue
        return found
    return next(arg for arg in facts.operands if arg is not weight)


def _is_dynamic_product(facts: NodeFacts) -> bool:
    if facts.key != "aten::convolution":
        return True
    weight = facts.constant(facts.argument("weight"))
    deep = weight is not None and weight.shape[1] == 1 and not facts.argument("transposed")
    return facts.input.dim() == 4 and not deep


def matching_batches(facts: NodeFacts) -> str | None:
    """Check that both operands are batches of one size, or that the second is a matrix."""
    left = facts.input
    right = facts.example(facts.node.args[1])
    if right is None or left.dim() < 2 or right.dim() < 2:
        return "it multiplies a vector"
    if right.dim() == 2 and left.dim() > 2 and facts.constant(facts.node.args[1]) is None:
        return "its weights are computed at run time"
    if right.dim() != 2 and list(map(str, left.shape[:-2])) != list(map(str, right.shape[:-2])):
        return "its operands are batches of different sizes"
    return None


def attention_shapes(facts: NodeFacts) -> str | None:
    """Check that queries, keys and values are of one batch; heads may share keys."""
    query, key, value = (facts.example(facts.argument(name)) for name in ("query", "key", "value"))
    assert query is not None and key is not None and value is not None
    if facts.argument("dropout_p"):
        return f"its dropout_p is {facts.argument('dropout_p')}, not 0"
    if query.dim() not in (3, 4) or not isinstance(query.shape[-1], int):
        return dynamic_sizes("a query of 3 or 4 dimensions", query)
    if list(map(str, key.shape[:-2])) != list(map(str, value.shape[:-2])):
        return "its keys and values are batches of different sizes"
    if list(map(str, query.shape[:-2])) != list(map(str, key.shape[:-2])):
        known = all(isinstance(n, int) for n in (*query.shape[1:], key.shape[1]))
        if not (facts.argument("enable_gqa") and query.dim() == 4 and known):
            return "its queries and keys are batches of different sizes"
    return None


def attention_mask(facts: NodeFacts) -> str | None:
    """Check for a mask of floats, a constant one of bools, or a causal one of known size."""
    query, key = facts.example(facts.argument("query")), facts.example(facts.argument("key"))
    assert query is not None and key is not None
    if facts.argument("is_causal"):
        known = isinstance(query.shape[-2], int) and isinstance(key.shape[-2], int)
        return None if known else dynamic_sizes("a causal mask", query)
    mask = facts.argument("attn_mask")
    example = facts.example(mask)
    if example is None or facts.constant(mask) is not None:
        return None
    before = isinstance(facts.node.target, torch._ops.OpOverload)
    if example.dtype is torch.bool and before:
        return None  # it becomes numbers before partitioning
    if example.dtype is not query.dtype:
        return f"its mask is {dtype_name(example.dtype)}, computed at run time"
    return None
