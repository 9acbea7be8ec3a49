"""Bicubic resampling as two separable passes, along the width and then along the height.

Torch's decomposition gathers sixteen neighbours for every result. The sums along a row are the same
for all results below each other, so one pass per dimension computes the same sums from eight
neighbours, in the same order and to the same bits. Relies on torch's weights. Integers are left to
torch's own rule, which rounds them as eager torch does. With antialiasing the number of taps grows
as the image shrinks, and a pass is a product with the constant matrix of all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _along(x: Tensor, dim: int, size: Any, align_corners: bool, scale: float | None) -> Tensor:
    """x resampled to `size` along a dimension, as a weighted sum of four taps."""
    from torch._decomp import decompositions as torchs

    length = x.shape[dim]
    step = torchs._compute_scale(length, size, align_corners, scale)
    places = torch.arange(size, device=x.device).to(x.dtype)
    position = torchs._compute_source_index(step, places, align_corners)
    first = position.floor()
    weights = torchs._upsample_get_cubic_coefficients((position - first).clamp(0.0, 1.0))
    trailing = x.ndim - 1 - dim
    total = None
    for offset, weight in enumerate(weights, start=-1):
        at = (first.to(torch.int64) + offset).clamp(0, length - 1)
        term = x.index_select(dim, at) * weight.reshape(-1, *[1] * trailing)
        total = term if total is None else total + term
    assert total is not None
    return total


def _bicubic(
    x: Tensor,
    output_size: Sequence[Any],
    align_corners: bool,
    scale_h: float | None = None,
    scale_w: float | None = None,
) -> Tensor:
    from torch._decomp import decompositions as torchs
    from torch._prims_common import suggest_memory_format

    if not x.dtype.is_floating_point:
        found: Tensor = torchs.upsample_bicubic2d_default(
            x, output_size, align_corners, scale_h, scale_w
        )
        return found
    height, width = output_size
    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    rows = _along(wide, 3, width, align_corners, scale_w)
    result = _along(rows, 2, height, align_corners, scale_h).to(x.dtype)
    return result.contiguous(memory_format=suggest_memory_format(x))


def _by_factors(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The rule for overloads that take a size or scale factors."""

    def resample(
        x: Tensor,
        output_size: Sequence[Any] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None = None,
    ) -> Tensor:
        scale_h, scale_w = scale_factors or (None, None)
        if output_size is None:
            assert scale_factors is not None
            output_size = [
                torch.sym_int(torch.sym_float(size) * factor)
                for size, factor in zip(x.shape[2:], scale_factors, strict=True)
            ]
        return rule(x, output_size, align_corners, scale_h, scale_w)

    return resample


def _keys(t: Tensor, a: float = -0.5) -> Tensor:
    """The cubic filter of antialiasing, which is 0 from |t| = 2 on."""
    t = t.abs()
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    return torch.where(t < 1, near, torch.where(t < 2, far, 0.0))


def _antialiased_weights(
    x: Tensor, length: Any, size: Any, align: bool, scale: float | None
) -> Tensor:
    """The matrix that resamples rows of `length` elements to `size` with antialiasing."""
    from torch._decomp import decompositions as torchs

    step = torchs._compute_scale(length, size, align, scale)
    filter_scale = torch.sym_max(step, 1.0)
    center = (torch.arange(size, device=x.device) + 0.5) * step
    taps = torch.arange(length, device=x.device).unsqueeze(1)
    first = (center - 2 * filter_scale + 0.5).to(torch.int64)
    last = (center + 2 * filter_scale + 0.5).to(torch.int64)
    weights = _keys((taps - center + 0.5) / filter_scale)
    weights = torch.where((taps >= first) & (taps < last), weights, 0.0)
    return (weights / weights.sum(0)).to(x.dtype)


def _antialiased_bicubic(
    x: Tensor,
    output_size: Sequence[Any],
    align_corners: bool,
    scale_h: float | None = None,
    scale_w: float | None = None,
) -> Tensor:
    from torch._prims_common import suggest_memory_format

    height, width = output_size
    rows = x @ _antialiased_weights(x, x.shape[3], width, align_corners, scale_w)
    columns = _antialiased_weights(x, x.shape[2], height, align_corners, scale_h)
    result = (rows.mT @ columns).mT
    return result.contiguous(memory_format=suggest_memory_format(x))


def resample_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator → rule."""
    return {
        _aten._upsample_bicubic2d_aa.default: _antialiased_bicubic,
        _aten._upsample_bicubic2d_aa.vec: _by_factors(_antialiased_bicubic),
        _aten.upsample_bicubic2d.default: _bicubic,
        _aten.upsample_bicubic2d.vec: _by_factors(_bicubic),
    }
