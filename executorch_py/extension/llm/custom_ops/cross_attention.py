"""`executorch::update_cross_attn_cache`, for eager runs and for export, registered on import.

The operator writes keys or values of an encoder to the start of a cache, and returns a copy of the
cache. Its schema names no mutation, so that branches of torch.cond may call it. No runtime has a
kernel for it.
"""

from __future__ import annotations

import torch
from torch.library import Library, register_fake

_NAME = "update_cross_attn_cache"
_LIBRARY = Library("executorch", "FRAGMENT")


def _check(value: torch.Tensor, cache: torch.Tensor) -> None:
    same = value.dim() == cache.dim() == 4 and value.dtype == cache.dtype
    same = same and all(value.size(d) == cache.size(d) for d in (0, 1, 3))
    torch._check(
        same and value.size(2) <= cache.size(2),
        lambda: (
            "expected a value [batch, head, position, dim] of the cache's dtype and sizes, with "
            f"no more positions, got {tuple(value.shape)} {value.dtype} for "
            f"{tuple(cache.shape)} {cache.dtype}"
        ),
    )


def _update(value: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    _check(value, cache)
    cache[:, :, : value.size(2)].copy_(value)
    return cache.clone()


def _shape(value: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    _check(value, cache)
    return torch.empty_like(cache)


if not torch._C._jit_get_schemas_for_operator(f"executorch::{_NAME}"):
    _LIBRARY.define(f"{_NAME}(Tensor value, Tensor cache) -> Tensor")
    _LIBRARY.impl(_NAME, _update, "CompositeExplicitAutograd")
    register_fake(f"executorch::{_NAME}", _shape, lib=_LIBRARY)
