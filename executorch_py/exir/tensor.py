"""Upstream's import path of TensorSpec and its helpers; the code is in ir/tensor_spec.py."""

from executorch_py.exir.ir.scalar_type import dtype_of_number, scalar_type_number
from executorch_py.exir.ir.tensor_spec import (
    ALIGNMENT,
    TensorSpec,
    contiguous_stride_from_shape,
    dim_order_from_stride,
    num_bytes_from_shape_and_dtype,
    stride_from_dim_order,
)

__all__ = [
    "ALIGNMENT",
    "TensorSpec",
    "contiguous_stride_from_shape",
    "dim_order_from_stride",
    "dtype_of_number",
    "num_bytes_from_shape_and_dtype",
    "scalar_type_number",
    "stride_from_dim_order",
]
