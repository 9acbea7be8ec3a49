"""The `llama::` operators for eager runs and for export, registered with torch on import.

    import executorch_py.extension.llm.custom_ops.custom_ops
    torch.ops.llama.update_cache(key, key_cache, start_pos)
    y = torch.ops.llama.custom_sdpa(query, key_cache, value_cache, start_pos, None, 0.0, True)

Tensors are [batch, position, head, dim]. Several query heads may share a key/value head. Without a
mask, attention covers the keys up to the last query's position; if is_causal, each query attends to
keys up to its own position. A mask is [queries, whole cache] and replaces start_pos. A cache update
returns a dummy tensor of one undefined element. The kernels are in
csrc/kernels/op/attention/custom_sdpa.c.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from executorch_py.extension.llm.custom_ops import cross_attention as cross_attention
from executorch_py.extension.llm.custom_ops import mixing as mixing
from executorch_py.extension.llm.custom_ops import op_fallback as op_fallback
from executorch_py.extension.llm.custom_ops import quantized_moe as quantized_moe
from executorch_py.extension.llm.custom_ops.registry import Operator, register

FLOATS = (torch.float32, torch.float16, torch.bfloat16)

# ---- caches


def _check_cache(value: torch.Tensor, cache: torch.Tensor) -> None:
    torch._check(
        value.dim() == 4 and cache.dim() == 4,
        lambda: f"expected value and cache of rank 4, got {value.dim()} and {cache.dim()}",
    )
    torch._check(
        value.dtype == cache.dtype,
        lambda: f"value: expected {cache.dtype} as in the cache, got {value.dtype}",
    )
    for d in (0, 2, 3):
        torch._check(
            value.size(d) == cache.size(d),
            lambda d=d: f"value: expected size {cache.size(d)} in dim {d}, got {value.size(d)}",
        )


def _check_position(start_pos: Any, count: Any, cache: torch.Tensor) -> None:
    torch._check(start_pos >= 0, lambda: f"start_pos: expected 0 or more, got {start_pos}")
    torch._check(
        start_pos + count <= cache.size(1),
        lambda: (
            f"expected positions up to {cache.size(1)}, the size of the cache, got start_pos "
            f"{start_pos} and {count} positions"
        ),
    )


def _dummy(value: torch.Tensor) -> torch.Tensor:
    return torch.empty((1,), dtype=value.dtype, device=value.device)


def _update_cache_shape(value: torch.Tensor, cache: torch.Tensor, start_pos: Any) -> torch.Tensor:
    _check_cache(value, cache)
    _check_position(start_pos, value.size(1), cache)
    return _dummy(value)


def _update_cache(value: torch.Tensor, cache: torch.Tensor, start_pos: int) -> torch.Tensor:
    _update_cache_shape(value, cache, start_pos)
    cache[:, start_pos : start_pos + value.size(1)] = value
    return _dummy(value)


def _update_cache_with_indices_shape(
    value: torch.Tensor, cache: torch.Tensor, start_pos: Any, indices: torch.Tensor
) -> torch.Tensor:
    _check_cache(value, cache)
    torch._check(
        indices.dtype == torch.int64 and indices.dim() == 2,
        lambda: f"indices: expected int64 of rank 2, got {indices.dtype} of rank {indices.dim()}",
    )
    for d in (0, 1):
        torch._check(
            indices.size(d) == value.size(d),
            lambda d=d: f"indices: expected size {value.size(d)} in dim {d}, got {indices.size(d)}",
        )
    return _dummy(value)


def _update_cache_with_indices(
    value: torch.Tensor, cache: torch.Tensor, start_pos: int, indices: torch.Tensor
) -> torch.Tensor:
    _update_cache_with_indices_shape(value, cache, start_pos, indices)
    if bool(((indices < 0) | (indices >= cache.size(1))).any()):
        raise IndexError(
            f"indices: expected positions below {cache.size(1)}, got {indices.tolist()}"
        )
    for batch in range(value.size(0)):
        for i, at in enumerate(indices[batch].tolist()):
            cache[batch, at] = value[batch, i]
    return _dummy(value)


# ---- attention


def _custom_sdpa_shape(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    start_pos: Any,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    ranks = (query.dim(), key.dim(), value.dim())
    torch._check(
        ranks == (4, 4, 4), lambda: f"expected query, key and value of rank 4, got ranks {ranks}"
    )
    torch._check(
        query.dtype in FLOATS and key.dtype == query.dtype and value.dtype == query.dtype,
        lambda: (
            "expected query, key and value of one floating-point type, got "
            f"{query.dtype}, {key.dtype}, {value.dtype}"
        ),
    )
    torch._check(
        query.size(3) == key.size(3) and key.shape == value.shape and query.size(0) == key.size(0),
        lambda: (
            "expected query, key and value of equal batch and dim, key and value of equal shape, "
            f"got {query.shape}, {key.shape}, {value.shape}"
        ),
    )
    torch._check(
        query.size(2) % key.size(2) == 0,
        lambda: (
            f"expected query heads in a multiple of {key.size(2)}, the number of key heads, got "
            f"{query.size(2)}"
        ),
    )
    if attn_mask is None:
        _check_position(start_pos, query.size(1), key)
        return query.new_empty(query.shape)
    mask = attn_mask
    torch._check(not is_causal, lambda: "expected attn_mask or is_causal, got both")
    torch._check(start_pos >= 0, lambda: f"start_pos: expected 0 or more, got {start_pos}")
    torch._check(
        mask.dtype in (torch.float32, torch.bool) and mask.dim() == 2,
        lambda: (
            f"attn_mask: expected float32 or bool of rank 2, got {mask.dtype} of rank {mask.dim()}"
        ),
    )
    torch._check(
        mask.size(0) == query.size(1) and mask.size(1) == key.size(1),
        lambda: f"attn_mask: expected [{query.size(1)}, {key.size(1)}], got {mask.shape}",
    )
    return query.new_empty(query.shape)


def _custom_sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    start_pos: int,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    _custom_sdpa_shape(query, key, value, start_pos, attn_mask, drpout_p, is_causal, scale)
    n_queries = query.size(1)
    n_keys = key.size(1) if attn_mask is not None else start_pos + n_queries
    group = query.size(2) // key.size(2)
    q = query.transpose(1, 2).float()
    k, v = (t[:, :n_keys].transpose(1, 2).float().repeat_interleave(group, 1) for t in (key, value))
    scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(query.size(3)) if scale is None else scale)
    mask = attn_mask
    if is_causal:
        mask = torch.ones(n_queries, n_keys, dtype=torch.bool).tril(start_pos)
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        scores = scores + mask
    result = torch.softmax(scores, -1) @ v
    return result.transpose(1, 2).contiguous().to(query.dtype)


def _sdpa_with_kv_cache_shape(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    start_pos: Any,
    seq_len: Any,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    for new, cache in ((key, key_cache), (value, value_cache)):
        _check_cache(new, cache)
        _check_position(start_pos, new.size(1), cache)
    _check_position(start_pos, seq_len, key_cache)
    torch._check(
        query.size(1) == key.size(1) and key.size(1) == value.size(1),
        lambda: (
            "expected query, key and value of equal length in dim 1, got "
            f"{query.size(1)}, {key.size(1)}, {value.size(1)}"
        ),
    )
    return _custom_sdpa_shape(
        query, key_cache, value_cache, start_pos, attn_mask, drpout_p, is_causal, scale
    )


def _sdpa_with_kv_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    start_pos: int,
    seq_len: int,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    rest = (attn_mask, drpout_p, is_causal, scale)
    _sdpa_with_kv_cache_shape(query, key, value, key_cache, value_cache, start_pos, seq_len, *rest)
    _update_cache(key, key_cache, start_pos)
    _update_cache(value, value_cache, start_pos)
    return _custom_sdpa(query, key_cache, value_cache, start_pos, *rest)


def _dequantized(
    values: torch.Tensor, zeros: torch.Tensor | None, scales: torch.Tensor | None, swap: bool
) -> torch.Tensor:
    """The tensor as floats, [batch, position, head, dim]; integers have parameters per row."""
    if zeros is not None and scales is not None:
        rows = (*values.shape[:-1], 1)
        torch._check(
            zeros.shape == scales.shape == rows,
            lambda: (
                f"expected zero points and scales of shape {rows}, got {zeros.shape} and "
                f"{scales.shape}"
            ),
        )
        values = (values.float() - zeros.float()) * scales.float()
    return values.transpose(1, 2) if swap else values


def _custom_quantized_sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    start_pos: int,
    attn_mask: torch.Tensor | None = None,
    drpout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    q_zero_points: torch.Tensor | None = None,
    q_scales: torch.Tensor | None = None,
    k_zero_points: torch.Tensor | None = None,
    k_scales: torch.Tensor | None = None,
    v_zero_points: torch.Tensor | None = None,
    v_scales: torch.Tensor | None = None,
    is_seq_at_dim_2: bool = False,
) -> torch.Tensor:
    swap = is_seq_at_dim_2
    q = _dequantized(query, q_zero_points, q_scales, swap)
    k = _dequantized(key, k_zero_points, k_scales, swap)
    v = _dequantized(value, v_zero_points, v_scales, swap)
    result = _custom_sdpa(q, k, v, start_pos, attn_mask, drpout_p, is_causal, scale)
    return result.transpose(1, 2).contiguous() if swap else result


def _custom_quantized_sdpa_shape(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **named: Any
) -> torch.Tensor:
    return query.new_empty(query.shape, dtype=torch.float32)


_QPARAMS = ", ".join(f"Tensor? {t}_zero_points=None, Tensor? {t}_scales=None" for t in "qkv")
_ATTENTION = "Tensor? attn_mask=None, float drpout_p=0.0, bool is_causal=False, float? scale=None"

for _operator in (
    Operator(
        "update_cache",
        "Tensor value, Tensor(a!) cache, SymInt start_pos",
        "out",
        _update_cache,
        _update_cache_shape,
    ),
    Operator(
        "update_cache_with_indices",
        "Tensor value, Tensor(a!) cache, SymInt start_pos, Tensor indices",
        "out",
        _update_cache_with_indices,
        _update_cache_with_indices_shape,
    ),
    Operator(
        "custom_sdpa",
        f"Tensor query, Tensor key, Tensor value, SymInt start_pos, {_ATTENTION}",
        "out",
        _custom_sdpa,
        _custom_sdpa_shape,
    ),
    Operator(
        "custom_quantized_sdpa",
        f"Tensor query, Tensor key, Tensor value, SymInt start_pos, {_ATTENTION}, {_QPARAMS}, "
        "bool is_seq_at_dim_2=False",
        "out",
        _custom_quantized_sdpa,
        _custom_quantized_sdpa_shape,
    ),
    Operator(
        "sdpa_with_kv_cache",
        "Tensor query, Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
        f"SymInt start_pos, SymInt seq_len, {_ATTENTION}",
        "out",
        _sdpa_with_kv_cache,
        _sdpa_with_kv_cache_shape,
    ),
):
    register(_operator)
