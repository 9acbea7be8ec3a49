"""Decompositions of arithmetic outside the core operator set, for this runtime and upstream's.

Each rule rounds where eager torch rounds. Functions for which that is impossible have kernels
instead. Knows nothing of graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _of_floats(x: Tensor) -> Tensor:
    return x if x.dtype.is_floating_point or x.dtype.is_complex else x.to(torch.get_default_dtype())


def _exp2(x: Tensor) -> Tensor:
    return torch.pow(2.0, _of_floats(x))


def _unless_nan(better: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """maximum or minimum that returns the other operand where one is NaN."""

    def rule(a: Tensor, b: Tensor) -> Tensor:
        result = better(a, b)
        if not result.dtype.is_floating_point:
            return result
        return torch.where(torch.isnan(a), b, torch.where(torch.isnan(b), a, result))

    return rule


def _round_decimals(x: Tensor, *, decimals: int) -> Tensor:
    if not x.dtype.is_floating_point:
        return x.clone()
    factor = torch.full((), 10.0 ** abs(decimals), dtype=x.dtype, device=x.device)
    return (x * factor).round() / factor if decimals >= 0 else (x / factor).round() * factor


def _angle(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        parts = torch.view_as_real(x)
        return torch.atan2(parts.select(-1, 1), parts.select(-1, 0))
    x = _of_floats(x)
    return torch.where(torch.isnan(x), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


def _remainder_of_number(number: Any, x: Tensor) -> Tensor:
    dtype = torch.result_type(x, number)
    return torch.remainder(torch.full((), number, dtype=dtype, device=x.device), x)


def _addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """A sum over the batch as one product, with the batch as part of the inner dimension.

    Eager truncates float factors for integers, where addmm would refuse them.
    """
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        beta, alpha = int(beta), int(alpha)
    rows, columns = a.shape[1], b.shape[2]
    wide = a.transpose(0, 1).reshape(rows, a.shape[0] * a.shape[2])
    tall = b.reshape(b.shape[0] * b.shape[1], columns)
    return torch.addmm(x, wide, tall, beta=beta, alpha=alpha)


def _bilinear(a: Tensor, weight: Tensor, b: Tensor) -> Tensor:
    """`torch.bilinear`, the only use that torch makes of `_trilinear`, as two matrix products."""
    n_out, n_a, n_b = weight.shape
    by_row = a @ weight.transpose(0, 1).reshape(n_a, n_out * n_b)
    return torch.bmm(by_row.reshape(a.shape[0], n_out, n_b), b.unsqueeze(-1)).squeeze(-1)


def _trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand_a: Sequence[int],
    expand_b: Sequence[int],
    expand_c: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    if (expand_a, expand_b, expand_c, sumdim) == ([1, 3], [0], [1, 2], [2, 3]):
        return _bilinear(a, b, c)
    for dim in sorted(expand_a):
        a = a.unsqueeze(dim)
    for dim in sorted(expand_b):
        b = b.unsqueeze(dim)
    for dim in sorted(expand_c):
        c = c.unsqueeze(dim)
    product = a * b * c
    return product.sum(list(sumdim), dtype=product.dtype) if sumdim else product


def _fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """Frequencies of a discrete Fourier transform; those from the middle on are negative."""
    result_type = dtype or torch.get_default_dtype()
    positive, negative = torch.arange((n + 1) // 2), torch.arange(-(n // 2), 0)
    return torch.cat([positive, negative]).to(result_type) * (1.0 / (n * d))


def _rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    result_type = dtype or torch.get_default_dtype()
    return torch.arange(n // 2 + 1, dtype=result_type) * (1.0 / (n * d))


def _product_by_group(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Grouped matrix product: rows of group i, which end before ends[i], times its matrix.

    For few rows the matrix of each row is gathered. Many rows are multiplied by every matrix, with
    zeros for rows of other groups: more products, but no copy of the weights.
    """
    n_rows, n_groups = rows.shape[0], weights.shape[0]
    group = (torch.arange(n_rows, device=rows.device)[:, None] >= ends).sum(1)
    if isinstance(n_rows, int) and n_rows <= n_groups:
        of_row = weights.index_select(0, group.clamp(max=n_groups - 1))
        product = torch.bmm(rows[:, None], of_row)[:, 0]
        return torch.where((group < n_groups)[:, None], product, 0.0).to(rows.dtype)
    result = rows.new_zeros(n_rows, weights.shape[2])
    for i in range(n_groups):
        own = torch.where((group == i)[:, None], rows, 0.0).to(rows.dtype)
        result = result + own @ weights[i]
    return result


def _grouped_mm(
    a: Tensor,
    b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    if bias is not None or out_dtype not in (None, a.dtype):
        return NotImplemented
    if offs is None:
        return torch.bmm(a, b)
    return _product_by_group(a, b, offs) if (a.dim(), b.dim()) == (2, 3) else NotImplemented


def library_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator → rule, for operators that model libraries register when they are imported."""
    mixture = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return {} if mixture is None else {mixture.default: _product_by_group}


def arithmetic_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator → rule."""
    from torch._decomp import get_decompositions

    return {
        **get_decompositions([_aten.addmv.default, _aten.dist.default]),
        _aten._grouped_mm.default: _grouped_mm,
        _aten._is_all_true.default: torch.all,
        _aten._is_any_true.default: torch.any,
        _aten._trilinear.default: _trilinear,
        _aten.addbmm.default: _addbmm,
        _aten.angle.default: _angle,
        _aten.exp2.default: _exp2,
        _aten.fft_fftfreq.default: _fftfreq,
        _aten.fft_rfftfreq.default: _rfftfreq,
        _aten.fmax.default: _unless_nan(torch.maximum),
        _aten.fmin.default: _unless_nan(torch.minimum),
        _aten.remainder.Scalar_Tensor: _remainder_of_number,
        _aten.round.decimals: _round_decimals,
    }
