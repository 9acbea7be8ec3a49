"""TensorLayout: dtype, sizes and dim order of a tensor in a data file."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from executorch_py.exir.ir.scalar_type import scalar_type_number
from executorch_py.exir.ir.tensor_spec import dim_order_from_stride
from executorch_py.exir.schema import ScalarType


@dataclass
class TensorLayout:
    """Element type, sizes and order of dimensions of a tensor stored by name."""

    scalar_type: ScalarType
    sizes: list[int]
    dim_order: list[int]

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> TensorLayout:
        """The layout of a contiguous or channels-last tensor."""
        channels_last = tensor.dim() == 4 and tensor.is_contiguous(
            memory_format=torch.channels_last
        )
        if not (tensor.is_contiguous() or channels_last):
            raise ValueError(
                f"a tensor with strides {tuple(tensor.stride())} has no layout in a data file; "
                "call .contiguous() on it first"
            )
        order = dim_order_from_stride(tensor.stride(), tensor.shape)
        number = ScalarType(scalar_type_number(tensor.dtype))
        return cls(number, list(tensor.shape), list(order))
