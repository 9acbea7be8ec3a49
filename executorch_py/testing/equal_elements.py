"""Operators that leave the order of equal elements open, with the order of a stable sort.

Eager torch gives equal elements in an order that depends on its algorithm and the processor. The
runtime gives that of a stable sort (docs/numerics.md). A router of experts on quantized values has
many equal ones, so the file may take another expert than eager torch, and both are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from executorch_py.exir.ir.op_traits import op_key

Pair = tuple[torch.Tensor, torch.Tensor]


def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Pair:
    found = torch.sort(x, dim=dim, descending=descending, stable=True)
    return found.values, found.indices


def _argsort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> torch.Tensor:
    return _sort(x, dim, descending)[1]


def _topk(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Pair:
    values, indices = _sort(x, dim, largest)
    return (
        (values, indices) if x.dim() == 0 else (values.narrow(dim, 0, k), indices.narrow(dim, 0, k))
    )


def _kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    values, indices = _sort(x, dim)
    if x.dim() == 0:
        return values, indices
    values, indices = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


_STABLE: Mapping[str, Callable[..., Any]] = {
    "aten::sort": _sort,
    "aten::argsort": _argsort,
    "aten::topk": _topk,
    "aten::kthvalue": _kthvalue,
}


def in_stable_order(target: Any) -> Callable[..., Any]:
    """The operator, or its form that keeps the order of equal elements."""
    return _STABLE.get(op_key(target), target)
