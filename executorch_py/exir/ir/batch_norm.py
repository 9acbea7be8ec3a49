"""Batch norm in inference as part of the convolution before it.

`(conv(x) - mean) / sqrt(variance + eps) * gamma + beta` is again a convolution, with each output
channel's weights scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["NormNumbers", "folded"]


@dataclass(frozen=True)
class NormNumbers:
    """The constants of a batch norm in inference; gamma and beta may be absent."""

    mean: torch.Tensor
    variance: torch.Tensor
    eps: float
    gamma: torch.Tensor | None = None
    beta: torch.Tensor | None = None


def folded(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm: NormNumbers,
    *,
    transposed: bool,
    groups: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of a convolution with a batch norm folded in, of the weight's type.

    Scales are computed in double precision.
    """

    def double(value: torch.Tensor | None, default: float) -> torch.Tensor:
        return torch.tensor(default) if value is None else value.detach().double()

    scale = torch.rsqrt(double(norm.variance, 1.0) + norm.eps) * double(norm.gamma, 1.0)
    shift = (double(bias, 0.0) - double(norm.mean, 0.0)) * scale + double(norm.beta, 0.0)
    weight = weight.detach()
    per_channel = scale
    shape = [-1] + [1] * (weight.dim() - 1)
    if transposed:  # weights are [in, out / groups, ...]
        n_inputs = weight.shape[0] // groups
        by_group = scale.reshape(groups, 1, -1).expand(-1, n_inputs, -1)
        shape[0], shape[1] = weight.shape[0], by_group.shape[-1]
        per_channel = by_group.reshape(shape)
    scaled = weight * per_channel.reshape(shape).to(weight.dtype)
    return scaled, shift.to(weight.dtype)
