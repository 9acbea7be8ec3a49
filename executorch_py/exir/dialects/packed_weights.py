"""Panels of f32 weights, in which a file stores them and the kernels of this project read them
(csrc/kernels/lib/packed_weight.h): [groups, panels, terms, 16 columns], columns after the last 0.
Weights of depthwise convolutions are [1, 1, taps, channels] instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

# Columns of a panel: ETI_GEMM_STORED of csrc/kernels/micro/gemm/gemm.h.
PANEL = 16


def packed_matrices(matrices: torch.Tensor) -> torch.Tensor:
    """Matrices [groups, columns, terms] as panels."""
    groups, n, k = matrices.shape
    panels = -(-n // PANEL)
    if n != panels * PANEL:
        padded = matrices.new_zeros(groups, panels * PANEL, k)
        padded[:, :n] = matrices
        matrices = padded
    return matrices.reshape(groups, panels, PANEL, k).transpose(2, 3).contiguous()


def unpacked_matrices(packed: torch.Tensor, n: int) -> torch.Tensor:
    """Inverse of packed_matrices."""
    groups, panels, k, _ = packed.shape
    return packed.transpose(2, 3).reshape(groups, panels * PANEL, k)[:, :n]


def packed_linear_weight(weight: torch.Tensor) -> torch.Tensor:
    """A linear layer's weight [columns, terms] as panels."""
    return packed_matrices(weight.unsqueeze(0))


def unpacked_linear_weight(packed: torch.Tensor, n: int) -> torch.Tensor:
    """Inverse of packed_linear_weight."""
    return unpacked_matrices(packed, n)[0]


def is_depthwise(shape: Sequence[int], groups: int) -> bool:
    """Whether a convolution's weight has one output and one input for each group."""
    return groups > 1 and shape[0] == groups and shape[1] == 1


def packed_kernel(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """A convolution's weight [out, in / groups, *kernel] as panels; terms are taps, then inputs."""
    out, c_in, *kernel = weight.shape
    if is_depthwise(weight.shape, groups):
        return weight.reshape(1, 1, out, -1).transpose(2, 3).contiguous()
    by_group = weight.reshape(groups, out // groups, c_in, math.prod(kernel))
    return packed_matrices(by_group.transpose(2, 3).reshape(groups, out // groups, -1))


def unpacked_kernel(packed: torch.Tensor, shape: Sequence[int], groups: int) -> torch.Tensor:
    """Inverse of packed_kernel for a weight of sizes `shape`."""
    out, c_in, *kernel = shape
    if is_depthwise(shape, groups):
        return packed[0, 0].t().reshape(*shape)
    matrices = unpacked_matrices(packed, out // groups)
    by_tap = matrices.reshape(out, math.prod(kernel), c_in)
    return by_tap.transpose(1, 2).reshape(out, c_in, *kernel)
