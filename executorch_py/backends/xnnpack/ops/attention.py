"""Scaled dot-product attention as products, a mask and a softmax.

Where a query has no key at all left by the mask, eager torch gives NaN or zeros; the mask here is a
large negative number instead of minus infinity, so that such a row is an average of its values.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from executorch_py.backends.xnnpack.builder import FLOATS, Builder, Visitor
from executorch_py.backends.xnnpack.graph import Symbol, Value, text_of
from executorch_py.backends.xnnpack.serialize import NodeKind
from executorch_py.exir.ir.match import argument

# exp of this is 0 beside any score, in half precision too; kernels may make NaN of infinities.
_MASKED = -30000.0


def _mask(b: Builder, node: fx.Node, query: Value, key: Value) -> Value | None:
    """What is added to the scores."""
    dtype, given = FLOATS[query.datatype], argument(node, "attn_mask")
    if argument(node, "is_causal"):
        rows, columns = query.shape[-2], key.shape[-2]
        if isinstance(rows, Symbol) or isinstance(columns, Symbol):
            b.refuse(f"a causal mask over {text_of((rows, columns))}", "known lengths")
        hidden = torch.ones(rows, columns, dtype=torch.bool).triu(1)
        return b.constant(hidden.to(dtype) * _MASKED, "causal_mask")
    if given is None:
        return None
    value = b.value(given)
    if value.data is None:
        b.require_float(value)
        return value
    if value.data.dtype is torch.bool:
        return b.derived(value, (~value.data).to(dtype) * _MASKED)
    return b.derived(value, value.data.to(dtype).clamp(min=_MASKED))


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
        scores = b.binary(NodeKind.ADD, b.reshape(scores, score_shape), mask)
    weights = b.emit(NodeKind.SOFTMAX, [scores])
    if grouped:
        weights = b.reshape(weights, (*query.shape[:-1], key.shape[-2]))
    result = _product(b, weights, value)
    return b.reshape(result, (*shape[:-1], value.shape[-1]))


def _by_key_heads(b: Builder, query: Value, key: Value) -> Value:
    """Queries of all heads that share a key, one below the other."""
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
