"""The capability table: edge operator → element types and checks of what a payload can express.

A check reads the NodeFacts of one node and returns None, or the reason why the node cannot be
delegated. `reason` applies the checks of all operators, then those of the operator's row.
Partitioner, summary and quantizer read this table; the visitors (ops/) have a table of the
operators that can be serialized.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from executorch_py.backends.xnnpack.ops import VISITORS
from executorch_py.backends.xnnpack.support import capability_checks as check
from executorch_py.backends.xnnpack.support import product_checks as products
from executorch_py.backends.xnnpack.support.capability_checks import dtype_name
from executorch_py.backends.xnnpack.support.node_facts import (
    Check,
    NodeFacts,
    Options,
    Quantization,
    Quantized,
    Role,
    Rule,
    is_dense,
    size_sources,
)
from executorch_py.exir.ir.graph import nodes_in
from executorch_py.exir.ir.op_traits import is_scalar_op, op_key

MAX_DIMENSIONS = 6  # XNN_MAX_TENSOR_DIMS


def _rules(names: str, *checks: Check, **facts: object) -> dict[str, Rule]:
    """One rule for several operators, whose names have the namespace `aten` unless given."""
    rule = Rule(checks, **facts)  # type: ignore[arg-type]
    return {name if "::" in name else f"aten::{name}": rule for name in names.split()}


_STATIC = {"quantization": Quantization.STATIC}
_GEMM = {"quantization": Quantization.GEMM}
_BF16 = {"in_bf16": True}
_MOVE = {"role": Role.MOVE, "quantization": Quantization.STATIC}

RULES: dict[str, Rule] = {
    # Element-wise
    **_rules("abs ceil cos exp floor log neg rsqrt sin sqrt square reciprocal"),
    **_rules("sigmoid tanh", **_BF16),
    **_rules("gelu hardswish hardsigmoid mish silu"),
    **_rules("relu relu6", **_STATIC, **_BF16),
    **_rules("clamp hardtanh", check.bounds, **_STATIC, **_BF16),
    **_rules("clamp_min clamp_max", check.bounds),
    **_rules("leaky_relu", check.numbers("negative_slope")),
    **_rules("elu", check.numbers("alpha"), check.unscaled_elu),
    **_rules("prelu _prelu_kernel", check.constant("weight"), check.slopes_of_channels),
    **_rules("pow.Tensor_Scalar", check.known_power),
    **_rules(
        "add.Tensor sub.Tensor", check.numbers("alpha"), check.operand_types, **_STATIC, **_BF16
    ),
    **_rules("mul.Tensor", check.operand_types, **_STATIC, **_BF16),
    **_rules("div.Tensor maximum minimum", check.operand_types),
    **_rules("add.Scalar sub.Scalar rsub.Scalar", check.numbers("other", "alpha")),
    **_rules("mul.Scalar div.Scalar", check.numbers("other")),
    # Over rows and images
    **_rules("_softmax", check.same_type_softmax),
    **_rules("_log_softmax", check.same_type_softmax, check.known_dimension),
    **_rules("glu", check.known_dimension),
    **_rules("mean.dim", check.mean_dims, check.same_type_result, **_STATIC),
    **_rules("sum.dim_IntList", check.mean_dims, check.same_type_result),
    **_rules("amax amin", check.max_min_dims),
    **_rules("max.dim min.dim", check.max_min_dims, check.indices_with_elements),
    **_rules("max_pool2d", check.rank(4), check.pool_window, check.complete_windows, **_STATIC),
    **_rules(
        "max_pool2d_with_indices",
        check.rank(4),
        check.pool_window,
        check.complete_windows,
        check.results_unread(1),
    ),
    **_rules("avg_pool2d", check.rank(4), check.pool_window, check.unpadded_average),
    **_rules("_adaptive_avg_pool2d adaptive_avg_pool2d", check.rank(4), check.global_average),
    **_rules("upsample_bilinear2d upsample_bilinear2d.vec", check.rank(4), check.known_image),
    **_rules("pixel_shuffle pixel_unshuffle", check.rank(4), check.known_image),
    # Products
    **_rules("convolution", products.image_convolution, products.weights_of_convolution, **_GEMM),
    **_rules("linear", products.weights_of_linear, **_GEMM, **_BF16),
    **_rules("mm", products.weights_of_mm, **_GEMM, **_BF16),
    **_rules("addmm", products.weights_of_mm, check.numbers("alpha", "beta"), **_GEMM, **_BF16),
    **_rules("bmm matmul", products.matching_batches),
    **_rules("baddbmm", check.numbers("alpha", "beta")),
    **_rules(
        "scaled_dot_product_attention",
        products.attention_shapes,
        products.attention_mask,
        other_types=frozenset({"attn_mask"}),
    ),
    # Normalizations
    **_rules("native_layer_norm", check.known_layers, check.results_unread(1, 2)),
    **_rules("layer_norm", check.known_layers),
    **_rules("native_group_norm", check.known_channels, check.results_unread(1, 2)),
    **_rules("group_norm", check.known_channels),
    **_rules(
        "_native_batch_norm_legit_no_training",
        check.constant("running_mean", "running_var", "weight", "bias"),
        check.results_unread(1, 2),
    ),
    **_rules(
        "_native_batch_norm_legit.no_stats",
        check.known_channels,
        check.one_sample,
        check.results_unread(1, 2),
    ),
    # Moves of elements
    **_rules("view_copy _unsafe_view reshape flatten.using_ints", check.reshape, **_MOVE),
    **_rules("squeeze_copy squeeze_copy.dim squeeze_copy.dims", check.reshape, **_MOVE),
    **_rules("unsqueeze_copy", check.reshape, **_MOVE),
    **_rules("permute_copy transpose_copy.int t_copy", **_MOVE),
    **_rules("slice_copy.Tensor", check.whole_slice, **_MOVE),
    **_rules("select_copy.int", check.known_dimension, check.numbers("index"), **_MOVE),
    **_rules(
        "split_copy.Tensor split_with_sizes_copy unbind_copy.int", check.known_dimension, **_MOVE
    ),
    **_rules("chunk", check.known_dimension, **_MOVE),
    **_rules("cat", check.joined_types, **_MOVE),
    **_rules("stack", role=Role.MOVE),
    **_rules("expand_copy", check.known_expansion, role=Role.MOVE),
    **_rules("repeat roll", check.known_result, role=Role.MOVE),
    **_rules("constant_pad_nd", check.added_padding, role=Role.MOVE),
    **_rules("alias_copy clone detach_copy lift_fresh_copy", **_MOVE),
    **_rules(
        "dim_order_ops::_clone_dim_order dim_order_ops::_to_dim_order_copy _to_copy",
        check.float_cast,
        **_MOVE,
    ),
    # Conversions between floats and integers
    **_rules("quantized_decomposed::quantize_per_tensor", check.int8_scale, role=Role.CONVERT),
    **_rules(
        "quantized_decomposed::dequantize_per_tensor",
        check.int8_scale,
        role=Role.CONVERT,
        other_types=frozenset({"input"}),
    ),
}
# Conversions of weights, and conversions with scales found at run time. They are delegated with the
# operator that reads them; XNNPACK has no node for them alone.
COMPANIONS = frozenset(
    {
        "quantized_decomposed::dequantize_per_channel",
        "quantized_decomposed::dequantize_per_channel_group",
        "quantized_decomposed::quantize_per_tensor.tensor",
        "quantized_decomposed::dequantize_per_tensor.tensor",
        "quantized_decomposed::quantize_per_token",
        "quantized_decomposed::dequantize_per_token",
        "quantized_decomposed::choose_qparams.tensor",
        "quantized_decomposed::choose_qparams_per_token_asymmetric",
        "torchao::choose_qparams_affine",
        "torchao::quantize_affine",
        "torchao::dequantize_affine",
    }
)
NO_FORM = "no XNNPACK form written"
# Reasons of single operators. A cache of keys and values is written in every layer, between the
# projections and the attention that reads it, so that a decoder has at least one delegate more than
# layers.
_WHY_NO_FORM = {
    "aten::index_put": "it writes into state, which no delegate keeps",
    **{
        f"aten::{name}": "no node of XNNPACK looks elements up by index"
        for name in ("embedding", "gather", "index.Tensor", "index_select")
    },
}


def serializable() -> frozenset[str]:
    """The operators that have visitors, which write them to the payload."""
    return frozenset(VISITORS)


class GraphFacts(dict[fx.Node, NodeFacts]):
    """The facts of a graph's nodes, made on first access; the graph must not change meanwhile."""

    def __init__(
        self, constants: Mapping[str, torch.Tensor], options: Options | None = None
    ) -> None:
        super().__init__()
        self._constants, self._options = constants, options or Options()

    def __missing__(self, node: fx.Node) -> NodeFacts:
        key = op_key(node.target) if node.op == "call_function" else ""
        rule = RULES.get(key)
        made = NodeFacts(
            node, key, rule, _role(node, key, rule), self._constants, self._options, self
        )
        self[node] = made
        return made


def _role(node: fx.Node, key: str, rule: Rule | None) -> Role | None:
    """The role of a node in a delegate; None if it has none."""
    if key in COMPANIONS:
        return Role.CONVERT
    if node.op == "call_function" and is_scalar_op(node.target):
        return Role.SIZES
    return None if rule is None else rule.role


def reason(facts: NodeFacts, forms: frozenset[str] | None = None) -> str | None:
    """Why a node cannot be delegated; None if it can, together with its conversions.

    forms: the operators that can be written, by default those of all visitors.
    """
    key, rule = facts.key, facts.rule
    if rule is None or key not in (serializable() if forms is None else forms):
        return _WHY_NO_FORM.get(key, NO_FORM)
    for general in (_types, _shapes, _orders, _sizes):
        found = general(facts, rule)
        if found is not None:
            return found
    for particular in rule.checks:
        found = particular(facts)
        if found is not None:
            return found
    return _conversions(facts, rule)


# ---- checks of all operators


def _types(facts: NodeFacts, rule: Rule) -> str | None:
    """Operands are floats; integers only where they are quantized or constant."""
    allowed = rule.dtypes
    if facts.options.bf16 and rule.in_bf16:
        allowed = (*allowed, torch.bfloat16)
    if rule.role is Role.CONVERT:
        return None
    free = {facts.argument(name) for name in rule.other_types}
    for arg in facts.operands:
        example = facts.example(arg)
        assert example is not None
        constant = facts.constant(arg) is not None
        if arg in free or constant or example.dtype in allowed:
            continue
        wanted = " or ".join(map(dtype_name, allowed))
        return f"'{arg.name}' is {dtype_name(example.dtype)}, not {wanted}"
    if not any(facts.constant(arg) is None for arg in facts.operands) and facts.operands:
        return "it depends on constants only, so it is computed at export"
    return None


def _shapes(facts: NodeFacts, rule: Rule) -> str | None:
    examples = [(arg.name, facts.example(arg)) for arg in facts.operands]
    examples += [("its result", result) for result in facts.results]
    for name, example in examples:
        assert example is not None
        if example.dim() > MAX_DIMENSIONS:
            return f"{name} has {example.dim()} dimensions, more than {MAX_DIMENSIONS}"
        if any(isinstance(size, int) and size == 0 for size in example.shape):
            return f"{name} has no elements"
        if free_unbacked_symbols(example.shape):
            return f"the shape of {name} depends on values"
    if any(result.dim() == 0 for result in facts.results):
        return "its result has no dimensions, which upstream's runtime cannot return"
    return None


def _orders(facts: NodeFacts, rule: Rule) -> str | None:
    """Operands are contiguous or channels-last; edge operators copy views into that order."""
    views_are_copies = not isinstance(facts.node.target, torch._ops.OpOverload)
    for arg in facts.operands:
        example = facts.example(arg)
        assert example is not None
        if facts.constant(arg) is not None or is_dense(example):
            continue
        if views_are_copies or facts.around[arg].order_is_its_own:
            return f"'{arg.name}' is neither contiguous nor channels-last in memory"
    return None


def _sizes(facts: NodeFacts, rule: Rule) -> str | None:
    """Sizes given as arguments come from tensors that a delegate can have as inputs."""
    for tensor in size_sources(facts.node):
        example = facts.example(tensor)
        if example is None or example.dtype not in rule.dtypes or not is_dense(example):
            return f"a size is computed from '{tensor.name}', which a delegate cannot read"
    return None


def _conversions(facts: NodeFacts, rule: Rule) -> str | None:
    """Operands with scales found at run time are read by products only."""
    if rule.quantization is Quantization.GEMM or rule.role is Role.CONVERT:
        return None
    for arg in nodes_in(facts.node.args):
        if facts.quantized(arg) is Quantized.DYNAMIC:
            return f"'{arg.name}' is quantized at run time, which products alone can read"
    return None
