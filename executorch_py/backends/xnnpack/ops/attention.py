"""Scaled dot-product attention as products, a mask and a softmax.

Kernels may turn infinities into NaN, so that minus infinity in a mask becomes a large negative
number. A query whose keys are all masked would then get an average of the values, where eager torch
gives zeros. So if a mask is computed at run time, or masks a whole row, results are multiplied by 1
where a key is seen and by 0 elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import fx

from executorch_py.backends.xnnpack.ops.mean import last_dim_sum
from executorch_py.backends.xnnpack.payload.graph import Symbol, Value, text_of
from executorch_py.backends.xnnpack.payload.graph_builder import FLOATS, Builder, Visitor
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind
from executorch_py.exir.ir.match import argument

# exp of this is 0 beside any score, and scores added to it stay finite.
_HIDDEN = {
    Datatype.FP32: torch.finfo(torch.float32).min,
    Datatype.FP16: -30000.0,
    Datatype.BF16: -30000.0,
}


@dataclass(frozen=True)
class _Mask:
    """A mask to be added to the scores, and factors for rows of results or for weights."""

    added: Value
    of_rows: Value | None = None
    of_weights: Value | None = None


def _causal(b: Builder, query: Value, key: Value) -> _Mask:
    """A causal mask: each query sees the keys up to its own position, at least the first one."""
    rows, columns = query.shape[-2], key.shape[-2]
    if isinstance(rows, Symbol) or isinstance(columns, Symbol):
        b.refuse(f"a causal mask over {text_of((rows, columns))}", "known lengths")
    hidden = torch.ones(rows, columns, dtype=torch.bool).triu(1)
    added = torch.zeros(rows, columns, dtype=FLOATS[query.datatype])
    return _Mask(b.constant(added.masked_fill(hidden, _HIDDEN[query.datatype]), "causal_mask"))


def _known(b: Builder, mask: Value, query: Value) -> _Mask:
    """A constant mask; fully masked rows, if any, are multiplied by zero."""
    assert mask.data is not None
    dtype, given = FLOATS[query.datatype], mask.data
    if given.dtype is torch.bool:
        added, hidden = torch.zeros(given.shape, dtype=dtype), ~given
    else:
        added, hidden = given.to(dtype), given == -math.inf
    added = added.masked_fill(hidden, -math.inf).clamp(min=_HIDDEN[query.datatype])
    seen = ~hidden.all(-1, keepdim=True)
    rows = None if bool(seen.all()) else b.derived(mask, seen.to(dtype))
    return _Mask(b.derived(mask, added), of_rows=rows)


def _computed(b: Builder, mask: Value) -> _Mask:
    """A float mask computed at run time; only -inf masks a key, as in eager torch."""
    b.require_float(mask)
    finite = torch.finfo(FLOATS[mask.datatype]).min
    clamped = b.emit(NodeKind.CLAMP, [mask], clamp=(finite, math.inf))
    # The difference is 0 where the mask is finite and -inf elsewhere, which gives 1 and 0.
    infinite = b.binary(NodeKind.SUBTRACT, mask, clamped)
    seen = b.emit(NodeKind.ADD, [infinite, b.scalar(1.0, mask)], clamp=(0.0, 1.0))
    added = b.emit(NodeKind.CLAMP, [mask], clamp=(_HIDDEN[mask.datatype], math.inf))
    if mask.datatype is not Datatype.FP32 or isinstance(mask.shape[-1], Symbol):
        return _Mask(added, of_weights=seen)
    rows = last_dim_sum(b, seen, 1.0)
    return _Mask(added, of_rows=b.emit(NodeKind.CLAMP, [rows], clamp=(0.0, 1.0)))


def _mask(b: Builder, node: fx.Node, query: Value, key: Value) -> _Mask | None:
    if argument(node, "is_causal"):
        return _causal(b, query, key)
    given = argument(node, "attn_mask")
    if given is None:
        return None
    mask = b.value(given)
    if mask.data is not None:
        return _known(b, mask, query)
    return b.once(("mask", mask), lambda: _computed(b, mask))


def _attention(b: Builder, node: fx.Node) -> Value:
    query, key, value = (b.input(node, name) for name in ("query", "key", "value"))
    for operand in (query, key, value):
        b.require_float(operand)
    if argument(node, "dropout_p"):
        b.refuse(f"dropout_p={argument(node, 'dropout_p')}", "0")
    width = query.shape[-1]
    if isinstance(width, Symbol) or query.rank not in (3, 4):
        b.refuse(f"queries of {text_of(query.shape)}", "rank 3 or 4 and a known last size")
    scale = argument(node, "scale")
    scale = 1.0 / math.sqrt(width) if scale is None else float(scale)
    shape = query.shape
    query = b.binary(NodeKind.MULTIPLY, query, b.scalar(scale, query))
    grouped = query.shape[:-2] != key.shape[:-2]
    if grouped:
        query = _by_key_heads(b, query, key)
    last = key.rank - 1
    perm = (*range(last - 1), last, last - 1)
    scores = _product(b, query, b.transpose(key, perm))
    mask = _mask(b, node, b.value(argument(node, "query")), key)
    score_shape = (*shape[:-1], key.shape[-2])
    if mask is not None:
        scores = b.binary(NodeKind.ADD, b.reshape(scores, score_shape), mask.added)
    weights = b.emit(NodeKind.SOFTMAX, [scores])
    if mask is not None and mask.of_weights is not None:
        weights = b.binary(NodeKind.MULTIPLY, weights, mask.of_weights)
    if grouped:
        weights = b.reshape(weights, (*query.shape[:-1], key.shape[-2]))
    result = b.reshape(_product(b, weights, value), (*shape[:-1], value.shape[-1]))
    if mask is not None and mask.of_rows is not None:
        result = b.binary(NodeKind.MULTIPLY, result, mask.of_rows)
    return result


def _by_key_heads(b: Builder, query: Value, key: Value) -> Value:
    """Queries of all heads that share a key head, as rows of one matrix (grouped queries)."""
    heads, shared, length = query.shape[1], key.shape[1], query.shape[2]
    known = all(isinstance(size, int) for size in (heads, shared, length))
    if query.rank != 4 or query.shape[0] != key.shape[0] or not known:
        b.refuse(
            f"queries of {text_of(query.shape)} for keys of {text_of(key.shape)}",
            "equal batch sizes, or groups of heads and known lengths",
        )
    assert isinstance(heads, int) and isinstance(shared, int) and isinstance(length, int)
    return b.reshape(query, (query.shape[0], shared, heads // shared * length, query.shape[3]))


def _product(b: Builder, left: Value, right: Value) -> Value:
    shape = (*left.shape[:-1], right.shape[-1])
    return b.emit(NodeKind.BATCH_MATRIX_MULTIPLY, [left, right], shape=shape)


VISITORS: dict[str, Visitor] = {"aten::scaled_dot_product_attention": _attention}
