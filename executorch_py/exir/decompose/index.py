"""Decompositions of scatters and other indexing operators into those that have kernels.

Scatters with a reduction other than `scatter_reduce`, means by index, `put`, writes into views,
`embedding_renorm`, and uninitialized memory. Each rule is the operator's definition, in the dtypes
and rounding of eager torch. Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
_BY_NAME = {"add": "sum", "multiply": "prod"}


def _divided(total: Tensor, counts: Tensor) -> Tensor:
    counts = counts.masked_fill(counts == 0, 1)
    if total.dtype.is_floating_point:
        return total / counts
    return torch.div(total, counts, rounding_mode="floor")


def _scatter_mean(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean":
        return NotImplemented
    total = _aten.scatter_reduce.two(x, dim, index, src, "sum", include_self=include_self)
    start = torch.ones_like(x) if include_self else torch.zeros_like(x)
    return _divided(total, start.scatter_add(dim, index, torch.ones_like(src)))


def _index_mean(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean":
        return NotImplemented
    cleared = x if include_self else x.index_fill(dim, index, 0)
    start = torch.ones_like(x) if include_self else torch.zeros_like(x)
    total = cleared.index_add(dim, index, source)
    return _divided(total, start.index_add(dim, index, torch.ones_like(source)))


def _scatter_named(x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    result: Tensor = _aten.scatter_reduce.two(x, dim, index, src, _BY_NAME[reduce])
    return result


def _scatter_number(x: Tensor, dim: int, index: Tensor, value: Any, *, reduce: str) -> Tensor:
    src = torch.full(index.shape, value, dtype=x.dtype, device=x.device)
    return _scatter_named(x, dim, index, src, reduce=reduce)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    places, values = index.reshape(-1), source.reshape(-1)
    return x.reshape(-1).index_put([places], values, accumulate).reshape(x.shape)


def _as_strided_scatter(
    x: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """Tensors of a program are row-major here, and have no storage offset."""
    places = torch.full([1] * len(size), storage_offset or 0, device=x.device, dtype=torch.int64)
    for dim, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[dim] = n
        places = places + (torch.arange(n, device=x.device) * step).reshape(shape)
    flat = x.reshape(-1).index_put([places.reshape(-1)], src.reshape(-1))
    return flat.reshape(x.shape)


def _diagonal_scatter(
    x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    last = x.movedim((dim1, dim2), (-2, -1))
    steps = torch.arange(src.shape[-1], device=x.device)
    places: list[Any] = [None] * (x.dim() - 2)
    places += [steps + max(-offset, 0), steps + max(offset, 0)]
    return _aten.index_put.default(last, places, src).movedim((-2, -1), (dim1, dim2))


def _nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of the first `size` nonzero elements, and the fill value after the last."""
    if x.dim() == 0 or any(isinstance(n, int) and n == 0 for n in x.shape):
        return x.new_full((size, x.dim()), fill_value, dtype=torch.int64)
    found = (x != 0).reshape(-1)
    rank = torch.where(found, torch.cumsum(found, 0) - 1, size)
    # Indices beyond `size` are all written to the last row, which is dropped.
    rows = torch.full((size + 1,), -1, dtype=torch.int64, device=x.device)
    flat = rows.scatter(
        0, torch.clamp(rank, max=size), torch.arange(found.shape[0], device=x.device)
    )[:size]
    columns, rest = [], flat
    for n in reversed(x.shape):
        columns.append(torch.where(flat < 0, fill_value, rest % n))
        rest = torch.div(rest, n, rounding_mode="floor")
    return torch.stack(columns[::-1], 1)


def _unique_dim(
    x: Tensor,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Unique slices of another dimension by those of the first, which a kernel finds."""
    if dim % max(x.dim(), 1) == 0:
        return NotImplemented
    moved = x.movedim(dim, 0).contiguous()
    result, *rest = _aten.unique_dim.default(moved, 0, sorted, return_inverse, return_counts)
    return (result.movedim(0, dim), *rest)


def _unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    if dim is None or dim % max(x.dim(), 1) == 0:
        return NotImplemented
    moved = x.movedim(dim, 0).contiguous()
    result, *rest = _aten.unique_consecutive.default(moved, return_inverse, return_counts, 0)
    return (result.movedim(0, dim), *rest)


def _resize(x: Tensor, size: Sequence[int], *, memory_format: Any = None) -> Tensor:
    """The first elements stay; new elements are undefined in eager torch, and 0 here."""
    wanted, kept = 1, x.reshape(-1)
    for n in size:
        wanted *= n
    if wanted > x.numel():
        kept = torch.cat([kept, kept.new_zeros(wanted - x.numel())])
    return kept[:wanted].reshape(size)


def _empty(
    size: Sequence[int],
    layout_of_dimensions: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Tensor:
    """An uninitialized tensor; the memory planner decides its layout."""
    result: Tensor = _aten.empty.memory_format(size, dtype=dtype, device=device)
    return result


def _new_empty_strided(
    x: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Tensor:
    return _empty(size, stride, dtype=dtype or x.dtype, device=device or x.device)


def _embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    norms = torch.linalg.vector_norm(weight, norm_type, 1, keepdim=True)
    used = weight.new_zeros(weight.shape[:1], dtype=torch.bool)
    used = used.index_fill(0, indices.reshape(-1), 1).unsqueeze(1)
    return torch.where(used & (norms > max_norm), weight * (max_norm / (norms + 1e-7)), weight)


def index_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator → rule; a rule that returns NotImplemented leaves the call as it is."""
    return {
        _aten.as_strided_scatter.default: _as_strided_scatter,
        _aten.diagonal_scatter.default: _diagonal_scatter,
        _aten.embedding_renorm.default: _embedding_renorm,
        _aten.empty_permuted.default: _empty,
        _aten.empty_strided.default: _empty,
        _aten.index_reduce.default: _index_mean,
        _aten.new_empty_strided.default: _new_empty_strided,
        _aten.nonzero_static.default: _nonzero_static,
        _aten.put.default: _put,
        _aten.resize.default: _resize,
        _aten.scatter.reduce: _scatter_named,
        _aten.scatter.value_reduce: _scatter_number,
        _aten.scatter_reduce.two: _scatter_mean,
        _aten.unique_consecutive.default: _unique_consecutive,
        _aten.unique_dim.default: _unique_dim,
    }
