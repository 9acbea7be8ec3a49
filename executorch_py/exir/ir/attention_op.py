"""The operator `executorch_py::scaled_dot_product_attention`: torch's, with an out variant.

Torch's operator is composite and has none. Attention that stays whole in a program calls this one's
out variant; only this project's runtime has a kernel for it (csrc/kernels/op/attention/sdpa.c).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.library import Library, register_fake

LIBRARY, NAME = "executorch_py", "scaled_dot_product_attention"
# Torch's arguments, and `unseen_is_nan`: a query that may see no key gives NaN, as a softmax does,
# instead of 0.
_ARGUMENTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
    "bool is_causal=False, *, float? scale=None, bool enable_gqa=False, bool unseen_is_nan=False"
)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    unseen_is_nan: bool = False,
) -> torch.Tensor:
    result = torch.ops.aten.scaled_dot_product_attention.default(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    if unseen_is_nan and attn_mask is not None:
        hidden = ~attn_mask if attn_mask.dtype == torch.bool else attn_mask == -math.inf
        result = result.masked_fill(hidden.all(-1, keepdim=True), math.nan)
    return result.contiguous()


def _shape(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *_: Any,
    enable_gqa: bool = False,
    **__: Any,
) -> torch.Tensor:
    leading = query.shape[:-2]
    if not enable_gqa:
        leading = torch.broadcast_shapes(leading, key.shape[:-2], value.shape[:-2])
    return query.new_empty((*leading, query.shape[-2], value.shape[-1]))


def _attention_out(*args: Any, out: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    result = _attention(*args, **kwargs)
    return out.resize_(result.shape).copy_(result)


def _out_shape(*_: Any, out: torch.Tensor, **__: Any) -> torch.Tensor:
    return out


@cache
def _library() -> Library:
    """The library that defines the operator; torch drops the operator with this object."""
    library = Library(LIBRARY, "FRAGMENT")
    library.define(f"{NAME}({_ARGUMENTS}) -> Tensor")
    library.define(f"{NAME}.out({_ARGUMENTS}, Tensor(a!) out) -> Tensor(a!)")
    library.impl(NAME, _attention, "CPU")
    library.impl(f"{NAME}.out", _attention_out, "CPU")
    register_fake(f"{LIBRARY}::{NAME}", _shape, lib=library)
    register_fake(f"{LIBRARY}::{NAME}.out", _out_shape, lib=library)
    return library


def attention_op() -> OpOverload:
    """The functional overload."""
    _library()
    op: OpOverload = torch.ops.executorch_py.scaled_dot_product_attention.default
    return op


def attention_out() -> OpOverload:
    """The out overload."""
    _library()
    op: OpOverload = torch.ops.executorch_py.scaled_dot_product_attention.out
    return op
