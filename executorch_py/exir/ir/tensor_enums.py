"""Upstream's import path of TensorSpec and its helpers; the code is in ir/tensor_spec.py."""

from __future__ import annotations

import torch

from executorch_py.exir.ir.scalar_type import dtype_of_number, scalar_type_number
from executorch_py.exir.ir.tensor_spec import (
    ALIGNMENT,
    TensorSpec,
    contiguous_stride_from_shape,
    dim_order_from_stride,
    num_bytes_from_shape_and_dtype,
    stride_from_dim_order,
)
from executorch_py.exir.schema import ScalarType, TensorShapeDynamism


def scalar_type_enum(dtype: torch.dtype) -> ScalarType:
    """The file format's name of a dtype."""
    return ScalarType(scalar_type_number(dtype))


def get_scalar_type(enum: ScalarType) -> torch.dtype:
    """The dtype of one of the file format's names."""
    return dtype_of_number(int(enum))


def determine_tensor_dynanism(shape: torch.Size) -> TensorShapeDynamism:
    """Whether a shape has symbols in it."""
    static = all(isinstance(size, int) for size in shape)
    return TensorShapeDynamism.STATIC if static else TensorShapeDynamism.DYNAMIC_BOUND


__all__ = [
    "ALIGNMENT",
    "TensorSpec",
    "contiguous_stride_from_shape",
    "determine_tensor_dynanism",
    "dim_order_from_stride",
    "dtype_of_number",
    "get_scalar_type",
    "num_bytes_from_shape_and_dtype",
    "scalar_type_enum",
    "scalar_type_number",
    "stride_from_dim_order",
]
