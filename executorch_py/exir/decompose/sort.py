"""Decompositions of order statistics into a stable sort: medians, the k-th value, the mode.

`bucketize` is decomposed too. Each rule follows eager torch, NaN rules included. Among equal
elements, where eager leaves the index open, it is that of the first (of the last for `mode`). Knows
nothing of graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
Pair = tuple[Tensor, Tensor]


def _sorted(x: Tensor, dim: int) -> Pair:
    values, indices = _aten.sort.stable(x, stable=True, dim=dim)
    return values, indices


def _pick(ordered: Pair, at: Tensor, dim: int, keepdim: bool) -> Pair:
    """The elements at indices `at`, which has size 1 along `dim`."""
    values, indices = (_aten.gather.default(t, dim, at) for t in ordered)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _with_dimension(rule: Callable[..., Pair]) -> Callable[..., Pair]:
    """The rule for tensors of any rank: a 0-d tensor counts as one element."""

    def wrapped(x: Tensor, *args: Any, **kwargs: Any) -> Pair:
        if x.dim() > 0:
            return rule(x, *args, **kwargs)
        values, indices = rule(x.unsqueeze(0), *args, **kwargs)
        return values.reshape([]), indices.reshape([])

    return wrapped


def _median_index(x: Tensor, dim: int, ignore_nan: bool) -> Tensor | int:
    """The index of the median along the sorted `dim`: the lower of two, or of the first NaN."""
    n = x.shape[dim]
    if not x.dtype.is_floating_point:
        return (n - 1) // 2
    numbers = torch.eq(x, x).sum(dim, keepdim=True)
    if ignore_nan:
        return torch.clamp(torch.div(numbers - 1, 2, rounding_mode="floor"), min=0)
    return torch.where(numbers < n, numbers, (n - 1) // 2)


def _median_of(ignore_nan: bool) -> Callable[..., Pair]:
    @_with_dimension
    def median(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
        place = _median_index(x, dim, ignore_nan)
        if isinstance(place, Tensor):
            return _pick(_sorted(x, dim), place, dim, keepdim)
        return _kth(x, place, dim, keepdim)

    return median


def _median_of_all(ignore_nan: bool) -> Callable[[Tensor], Tensor]:
    median = _median_of(ignore_nan)

    def median_of_all(x: Tensor) -> Tensor:
        if isinstance(x.numel(), int) and x.numel() == 0:
            return torch.full((), math.nan, device=x.device).to(x.dtype)
        return median(x.reshape(-1), 0)[0]

    return median_of_all


def _kth(x: Tensor, place: int, dim: int, keepdim: bool) -> Pair:
    values, indices = (t.narrow(dim, place, 1) for t in _sorted(x, dim))
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@_with_dimension
def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    return _kth(x, k - 1, dim, keepdim)


@_with_dimension
def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
    """The last element of the first of the longest runs of equal elements; NaN equals nothing."""
    ordered = _sorted(x, dim)
    values, n = ordered[0], x.shape[dim]
    differs = values.narrow(dim, 1, n - 1) != values.narrow(dim, 0, n - 1)
    starts = torch.cat([torch.ones_like(values.narrow(dim, 0, 1), dtype=torch.bool), differs], dim)
    shape = [1] * x.dim()
    shape[dim] = n
    places = torch.arange(n, device=x.device).reshape(shape)
    begun = torch.cummax(torch.where(starts, places, 0), dim)[0]
    return _pick(ordered, (places - begun).argmax(dim, keepdim=True), dim, keepdim)


def _bucketize(
    x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Torch's binary search, which takes neither 0-d tensors nor empty boundaries."""
    from torch._decomp import get_decompositions

    op = _aten.bucketize.Tensor
    if boundaries.shape[0] == 0:
        dtype = torch.int32 if out_int32 else torch.int64
        return torch.zeros(x.shape, dtype=dtype, device=x.device)
    line = x.reshape(1) if x.dim() == 0 else x
    found: Tensor = get_decompositions([op])[op](line, boundaries, out_int32=out_int32, right=right)
    return found.reshape(x.shape)


def _bucketize_number(
    x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    number = torch.full((), x, device=boundaries.device)
    return _bucketize(number, boundaries, out_int32=out_int32, right=right)


def sort_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator → rule; the rules end in sorting, gathering and comparing."""
    return {
        _aten.bucketize.Scalar: _bucketize_number,
        _aten.bucketize.Tensor: _bucketize,
        _aten.kthvalue.default: _kthvalue,
        _aten.median.default: _median_of_all(ignore_nan=False),
        _aten.median.dim: _median_of(ignore_nan=False),
        _aten.mode.default: _mode,
        _aten.nanmedian.default: _median_of_all(ignore_nan=True),
        _aten.nanmedian.dim: _median_of(ignore_nan=True),
    }
