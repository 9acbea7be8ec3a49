"""Translation between memory formats and dim orders, under upstream's import path."""

from __future__ import annotations

import torch

from executorch_py.exir.dialects.dim_order import (
    contiguous_dim_order,
    dim_order_of_format,
    format_of_dim_order,
)

get_dim_order = dim_order_of_format
get_memory_format = format_of_dim_order

__all__ = [
    "get_dim_order",
    "get_memory_format",
    "is_channel_last_dim_order",
    "is_contiguous_dim_order",
]


def is_channel_last_dim_order(tensor: torch.Tensor) -> bool:
    """Whether a 4-d tensor is stored channels-last."""
    order = dim_order_of_format(torch.channels_last, 4)
    return tensor.dim() == 4 and list(tensor.dim_order()) == order


def is_contiguous_dim_order(tensor: torch.Tensor) -> bool:
    """Whether the tensor's dimensions are stored in order, outermost first."""
    return list(tensor.dim_order()) == contiguous_dim_order(tensor.dim())
