"""What XNNPACK's payload can express, as data: edge operator → element types and checks.

A check reads one node (site.py) and answers None or, in words, why the node cannot be delegated.
`reason` applies what holds for all operators, then the operator's row. Partitioner, summary and
quantizer read this table; which of its operators are written is the visitors' own table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from executorch_py.backends.xnnpack.ops import VISITORS
from executorch_py.backends.xnnpack.support import capability_checks as check
from executorch_py.backends.xnnpack.support.node_facts import (
    FLOATS,
    Options,
    Quantized,
    Site,
    is_dequantize,
    is_quantize,
    size_sources,
)
from executorch_py.exir.ir.graph import nodes_in
from executorch_py.exir.ir.op_traits import is_getitem, is_scalar_op, op_key

Check = Callable[[Site], str | None]

MOST_DIMENSIONS = 6  # XNN_MAX_TENSOR_DIMS


class Role(Enum):
    """What a node is to a delegate."""

    COMPUTE = 1
    MOVE = 2  # elements in another place or shape: worth taking along, not worth a delegate
    CONVERT = 3  # to and from integers
    SIZES = 4  # arithmetic on sizes, which the runtime infers again


class Quantization(Enum):
    """Ways in which an operator may read and make integers."""

    NONE = 0  # computes in floats; conversions stay conversions
    STATIC = 1
    GEMM = 2  # static, and dynamic too


@dataclass(frozen=True)
class Rule:
    """One operator: element types of what it computes with, checks, and how it may be quantized."""

    checks: tuple[Check, ...] = ()
    dtypes: tuple[torch.dtype, ...] = FLOATS
    role: Role = Role.COMPUTE
    quantization: Quantization = Quantization.NONE
    # Whether upstream's runtime computes it with bfloat16, for those who ask for that.
    in_bf16: bool = False
    # Operands whose element type is no matter of the operator's, by name.
    other_types: frozenset[str] = field(default=frozenset())


def _rules(names: str, *checks: Check, **facts: object) -> dict[str, Rule]:
    """One rule for several operators, written as in `aten::`."""
    rule = Rule(checks, **facts)  # type: ignore[arg-type]
    return {name if "::" in name else f"aten::{name}": rule for name in names.split()}


_STATIC = {"quantization": Quantization.STATIC}
_GEMM = {"quantization": Quantization.GEMM}
_BF16 = {"in_bf16": True}
_MOVE = {"role": Role.MOVE, "quantization": Quantization.STATIC}

RULES: dict[str, Rule] = {
    # Element by element
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
    **_rules("amax amin", check.extreme_dims),
    **_rules("max.dim min.dim", check.extreme_dims, check.elements_with_places),
    **_rules("max_pool2d", check.rank(4), check.pool_window, check.complete_windows, **_STATIC),
    **_rules(
        "max_pool2d_with_indices",
        check.rank(4),
        check.pool_window,
        check.complete_windows,
        check.results_unread(1),
    ),
    **_rules("avg_pool2d", check.rank(4), check.pool_window, check.plain_average),
    **_rules("_adaptive_avg_pool2d adaptive_avg_pool2d", check.rank(4), check.global_average),
    **_rules("upsample_bilinear2d upsample_bilinear2d.vec", check.rank(4), check.known_image),
    **_rules("pixel_shuffle pixel_unshuffle", check.rank(4), check.known_image),
    # Products
    **_rules("convolution", check.image_convolution, check.weights_of_convolution, **_GEMM),
    **_rules("linear", check.weights_of_linear, **_GEMM, **_BF16),
    **_rules("mm", check.weights_of_mm, **_GEMM, **_BF16),
    **_rules("addmm", check.weights_of_mm, check.numbers("alpha", "beta"), **_GEMM, **_BF16),
    **_rules("bmm matmul", check.matching_batches),
    **_rules("baddbmm", check.numbers("alpha", "beta")),
    **_rules(
        "scaled_dot_product_attention",
        check.attention_shapes,
        check.attention_mask,
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
    **_rules("_native_batch_norm_legit.no_stats", check.known_channels, check.results_unread(1, 2)),
    # Elements in other places
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
    # Numbers and integers
    **_rules("quantized_decomposed::quantize_per_tensor", check.int8_scale, role=Role.CONVERT),
    **_rules(
        "quantized_decomposed::dequantize_per_tensor",
        check.int8_scale,
        role=Role.CONVERT,
        other_types=frozenset({"input"}),
    ),
}
# Converted weights and conversions with scales found at run time go with the operator that reads
# them; alone they are nothing to XNNPACK.
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
# Where more is to be said. A cache of keys and values is written in every layer, between the
# projections and what reads it, so that a decoder has one delegate more than layers at the least.
_WHY_NO_FORM = {
    "aten::index_put": "it writes into state, which no delegate keeps",
    **{
        f"aten::{name}": "no node of XNNPACK looks elements up by index"
        for name in ("embedding", "gather", "index.Tensor", "index_select")
    },
}


def written() -> frozenset[str]:
    """The operators that the payload writer has visitors for."""
    return frozenset(VISITORS)


def rule_of(node: fx.Node) -> Rule | None:
    """The rule of the operator that a node calls."""
    return RULES.get(op_key(node.target)) if node.op == "call_function" else None


def role_of(node: fx.Node) -> Role | None:
    """What a node can be to a delegate; None if nothing."""
    if node.op != "call_function":
        return None
    key = op_key(node.target)
    if key in COMPANIONS:
        return Role.CONVERT
    if is_scalar_op(node.target):
        return Role.SIZES
    rule = RULES.get(key)
    return None if rule is None else rule.role


def reason(
    node: fx.Node,
    constants: Mapping[str, torch.Tensor],
    options: Options | None = None,
    forms: frozenset[str] | None = None,
) -> str | None:
    """Why a node cannot be delegated; None if it can, with what belongs to it.

    `forms` are the operators that can be written, all visitors' by default.
    """
    key = op_key(node.target)
    rule = RULES.get(key)
    if rule is None or key not in (written() if forms is None else forms):
        return _WHY_NO_FORM.get(key, NO_FORM)
    site = Site(node, dict(constants), options)
    for general in (_types, _shapes, _orders, _sizes):
        found = general(site, rule)
        if found is not None:
            return found
    for particular in rule.checks:
        found = particular(site)
        if found is not None:
            return found
    return _conversions(site, rule)


# ---- what holds for all operators


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _types(site: Site, rule: Rule) -> str | None:
    """Floats of one type, integers only where they are quantized or constant."""
    allowed = rule.dtypes
    if site.options.bf16 and rule.in_bf16:
        allowed = (*allowed, torch.bfloat16)
    if rule.role is Role.CONVERT:
        return None
    free = {site.argument(name) for name in rule.other_types}
    for arg in site.operands():
        example = site.fake(arg)
        assert example is not None
        constant = site.constant(arg) is not None
        if arg in free or constant or example.dtype in allowed:
            continue
        return f"'{arg.name}' is {_name(example.dtype)}, not {' or '.join(map(_name, allowed))}"
    if not any(site.constant(arg) is None for arg in site.operands()) and site.operands():
        return "it depends on constants only, so it is computed at export"
    return None


def _shapes(site: Site, rule: Rule) -> str | None:
    examples = [(arg.name, site.fake(arg)) for arg in site.operands()]
    examples += [("its result", result) for result in site.results()]
    for name, example in examples:
        assert example is not None
        if example.dim() > MOST_DIMENSIONS:
            return f"{name} has {example.dim()} dimensions, more than {MOST_DIMENSIONS}"
        if any(isinstance(size, int) and size == 0 for size in example.shape):
            return f"{name} has no elements"
        if free_unbacked_symbols(example.shape):
            return f"the shape of {name} depends on values"
    if any(result.dim() == 0 for result in site.results()):
        return "its result has no dimensions, and upstream's runtime takes none such back"
    return None


def _orders(site: Site, rule: Rule) -> str | None:
    """Edge operators read what their operands' copies lay out; before, views may lie anyhow."""
    if isinstance(site.node.target, torch._ops.OpOverload):
        return None
    for arg in site.operands():
        example = site.fake(arg)
        assert example is not None
        if site.constant(arg) is None and not _is_plain(example):
            return f"'{arg.name}' lies in memory neither row by row nor channels-last"
    return None


def _is_plain(example: torch.Tensor) -> bool:
    return bool(example.is_contiguous()) or (
        example.dim() == 4 and bool(example.is_contiguous(memory_format=torch.channels_last))
    )


def _sizes(site: Site, rule: Rule) -> str | None:
    """Sizes given as arguments are read from tensors that a delegate can have as inputs."""
    for tensor in size_sources(site.node)[1]:
        example = site.fake(tensor)
        if example is None or example.dtype not in rule.dtypes or not _is_plain(example):
            return f"a size is computed from '{tensor.name}', which a delegate cannot read"
    return None


def _conversions(site: Site, rule: Rule) -> str | None:
    """Operands with scales found at run time are for products alone."""
    if rule.quantization is Quantization.GEMM or rule.role is Role.CONVERT:
        return None
    for arg in nodes_in(site.node.args):
        if site.quantized(arg) is Quantized.DYNAMIC:
            return f"'{arg.name}' is quantized at run time, which products alone can read"
    return None


def is_conversion(node: fx.Node) -> bool:
    """Whether a node is part of how numbers are quantized, not of what is computed."""
    return is_quantize(node) or is_dequantize(node) or op_key(node.target) in COMPANIONS


def is_counted(node: fx.Node) -> bool:
    """Whether summaries count a node: calls of operators, no plumbing."""
    return node.op == "call_function" and not is_getitem(node.target)
