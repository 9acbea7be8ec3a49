"""Traits of operators that passes need: names, schemas, purity, views, quantisation, out variants.

Every fact about an operator that more than one pass needs is stated here, once. Targets of nodes
may be torch OpOverloads or dialect wrappers with the overload in `._op`; both are read through
`op_overload`. Relies on torch's schema registry; knows nothing of graphs.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from executorch_py.exir.ir.prim_ops import is_size_arithmetic

# Same bytes in the same order as their input, other sizes. Row-major input and output are required
# for the result to share the input's memory.
RESHAPES = frozenset(
    {
        "aten::view_copy",
        "aten::_unsafe_view",
        "aten::unsqueeze_copy",
        "aten::squeeze_copy",
        "aten::squeeze_copy.dim",
        "aten::squeeze_copy.dims",
        "aten::alias_copy",
        "aten::detach_copy",
        "aten::lift_fresh_copy",
    }
)
# Reshapes of the input for some arguments only (unit dimensions moved, nothing expanded, nothing
# copied).
SOMETIMES_RESHAPES = frozenset(
    {
        "aten::permute_copy",
        "aten::transpose_copy.int",
        "aten::t_copy",
        "aten::expand_copy",
        "aten::as_strided_copy",
        "aten::clone",
        "aten::_to_copy",
        "dim_order_ops::_clone_dim_order",
        "dim_order_ops::_to_dim_order_copy",
    }
)
TURNS = frozenset({"aten::permute_copy", "aten::transpose_copy.int", "aten::t_copy"})
# Each element of the result is one of the operand, or of the padding.
PARTS = frozenset(
    {
        "aten::slice_copy.Tensor",
        "aten::select_copy.int",
        "aten::expand_copy",
        "aten::flip",
        "aten::index_select",
        "aten::pixel_shuffle",
        "aten::pixel_unshuffle",
        "aten::roll",
        "aten::constant_pad_nd",
    }
)
# Operators that move or copy elements and compute nothing.
MOVES = RESHAPES | SOMETIMES_RESHAPES | PARTS
# Moves in graphs of torch.export: views, and composite operators that become them. Padding adds
# elements, casts change them, and strides are those of one layout.
_NO_ATEN_MOVES = {
    "aten::constant_pad_nd",
    "aten::_to_copy",
    "aten::as_strided_copy",
    "dim_order_ops::_to_dim_order_copy",
}
ATEN_MOVES = frozenset(key.replace("_copy", "") for key in MOVES - _NO_ATEN_MOVES) | {
    "aten::reshape",
    "aten::flatten.using_ints",
    "aten::unflatten.int",
    "aten::movedim.int",
    "aten::contiguous",
    "aten::narrow",
    "aten::chunk",
    "aten::split.Tensor",
    "aten::split_with_sizes",
    "aten::unbind.int",
}
QUANTIZE = frozenset(
    f"quantized_decomposed::{name}"
    for name in (
        "quantize_per_tensor",
        "quantize_per_tensor.tensor",
        "quantize_per_channel",
        "quantize_per_token",
        "quantize_per_channel_group",
    )
) | {"torchao::quantize_affine"}
DEQUANTIZE = frozenset(
    f"quantized_decomposed::{name}"
    for name in (
        "dequantize_per_tensor",
        "dequantize_per_tensor.tensor",
        "dequantize_per_channel",
        "dequantize_per_token",
        "dequantize_per_channel_group",
    )
) | {"torchao::dequantize_affine"}
CHOOSE_QPARAMS = frozenset(
    {
        "quantized_decomposed::choose_qparams.tensor",
        "quantized_decomposed::choose_qparams_per_token_asymmetric",
        "torchao::choose_qparams_affine",
    }
)
QUANT_OPS = QUANTIZE | DEQUANTIZE | CHOOSE_QPARAMS

# Assertions of the graph; no runtime evaluates them.
ASSERTIONS = frozenset(
    {
        "aten::_assert_async",
        "aten::_assert_async.msg",
        "aten::_assert_scalar",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "aten::_assert_tensor_metadata",
    }
)

# Kernels whose number of result elements depends on values, by the shape symbol they bind.
DATA_DEPENDENT_SIZE = frozenset(
    {
        "aten::_unique2",
        "aten::nonzero",
        "aten::unique_consecutive",
        "aten::unique_dim",
        "aten::masked_select",
        "aten::index.Tensor",
        "aten::repeat_interleave.Tensor",
    }
)

SYM_SHAPE_READS = frozenset(
    {
        "aten::sym_size.int",
        "aten::sym_stride.int",
        "aten::sym_numel",
        "aten::sym_storage_offset",
        "aten::_local_scalar_dense",
    }
)

CONTROL_FLOW = frozenset({"cond", "map_impl", "scan", "while_loop"})


def op_overload(target: Any) -> OpOverload | None:
    """The torch operator behind a node's target; None for functions and higher-order operators."""
    if isinstance(target, OpOverload):
        return target
    inner = getattr(target, "_op", None)
    return inner if isinstance(inner, OpOverload) else None


@cache
def _qualified_name(op: OpOverload) -> str:
    return str(op._schema.name) + (
        f".{op._schema.overload_name}" if op._schema.overload_name else ""
    )


def op_key(target: Any) -> str:
    """`namespace::name.overload` (no overload for the default one); "" if the target is no
    operator.
    """
    op = op_overload(target)
    return "" if op is None else _qualified_name(op)


def higher_order_name(target: Any) -> str:
    """`cond`, `map_impl`, `scan`, `while_loop`, `executorch_call_delegate` …, or "" for anything
    else.
    """
    if isinstance(target, torch._ops.HigherOrderOperator):
        return str(target.name()) if callable(target.name) else str(target.name)
    return ""


def is_delegate_call(target: Any) -> bool:
    """Whether a call target runs a lowered module."""
    return higher_order_name(target) == "executorch_call_delegate"


def is_getitem(target: Any) -> bool:
    """Whether a call target picks one of several results."""
    return target is operator.getitem


@cache
def mutated_positions(op: OpOverload) -> tuple[int, ...]:
    """Positions of the schema arguments that the operator writes to."""
    return tuple(
        i
        for i, arg in enumerate(op._schema.arguments)
        if arg.alias_info is not None and arg.alias_info.is_write
    )


@cache
def out_arguments(op: OpOverload) -> tuple[str, ...]:
    """Names of the keyword-only written arguments of an out variant."""
    return tuple(
        arg.name
        for arg in op._schema.arguments
        if arg.kwarg_only and arg.alias_info is not None and arg.alias_info.is_write
    )


def is_out_variant(target: Any) -> bool:
    """Whether an operator writes its results to keyword arguments."""
    op = op_overload(target)
    return op is not None and bool(out_arguments(op))


def is_inplace(target: Any) -> bool:
    """Whether the operator's results are ordinary arguments that it writes to.

    An operator that updates an argument and returns something else is not: its result needs memory.
    """
    op = op_overload(target)
    if op is None or not mutated_positions(op) or out_arguments(op):
        return False
    return None not in aliased_argument_of_returns(op)


@cache
def aliased_argument_of_returns(op: OpOverload) -> tuple[int | None, ...]:
    """For each return, the position of the argument it is the same tensor as."""
    positions: dict[str, int] = {}
    for i, arg in enumerate(op._schema.arguments):
        if arg.alias_info is not None and arg.alias_info.is_write:
            for name in arg.alias_info.before_set:
                positions[name] = i
    return tuple(
        next((positions[n] for n in ret.alias_info.before_set if n in positions), None)
        if ret.alias_info is not None
        else None
        for ret in op._schema.returns
    )


@cache
def is_random(op: OpOverload) -> bool:
    """Whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in op.tags


def is_executorch_prim(target: Any) -> bool:
    """Whether an operator calculates with sizes and numbers."""
    return op_key(target).startswith("executorch_prim::")


def is_scalar_op(target: Any) -> bool:
    """Whether the target computes a number, not a tensor (shape reads and arithmetic on sizes)."""
    if op_key(target) in SYM_SHAPE_READS or is_executorch_prim(target):
        return True
    return is_size_arithmetic(target)
