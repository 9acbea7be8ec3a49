"""Tensors of the file format made of specs, and tables of its numbers, for scripts for upstream.

Names and arguments are upstream's. The emitter has its own (emit/emit_constants.py), which checks
more.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from executorch_py.exir.error import internal_assert
from executorch_py.exir.ir.scalar_type import dtype_of_number, scalar_type_number
from executorch_py.exir.ir.tensor_spec import TensorSpec, align_up
from executorch_py.exir.schema import (
    AllocationDetails,
    DeviceType,
    ExtraTensorInfo,
    ScalarType,
    Tensor,
)

__all__ = [
    "AddressSpaceOverflowException",
    "calculate_aligned_num_bytes",
    "check_spec",
    "enum_to_scalar_map",
    "layout_enum",
    "make_allocation_info",
    "make_tensor_value",
    "memory_format_enum",
    "scalar_type_table",
]


class AddressSpaceOverflowException(Exception):
    """An offset of planned memory that has more than 64 bits."""


def _dtypes() -> dict[ScalarType, torch.dtype]:
    found = {}
    for number in ScalarType:
        try:
            found[number] = dtype_of_number(int(number))
        except ValueError:
            continue  # a type of packed bits
    return found | {ScalarType.QUINT4x2: torch.quint4x2}


enum_to_scalar_map: dict[ScalarType, torch.dtype] = _dtypes()
scalar_type_table: dict[torch.dtype, ScalarType] = {
    dtype: number for number, dtype in enum_to_scalar_map.items()
}
_LAYOUTS = {torch.strided: 0, torch.sparse_coo: 1}
_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1}


def layout_enum(layout: torch.layout) -> int:
    """The file format's number of a layout; KeyError for other than strided and sparse_coo."""
    return _LAYOUTS[layout]


def memory_format_enum(memory_format: torch.memory_format) -> int:
    """The file format's number of a memory format; KeyError for channels-last formats."""
    internal_assert(
        isinstance(memory_format, torch.memory_format),
        f"memory_format: expected a torch.memory_format, got {memory_format!r}",
    )
    return _MEMORY_FORMATS[memory_format]


def calculate_aligned_num_bytes(num: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `num`."""
    return align_up(num, alignment)


def make_allocation_info(mem_id: int, mem_offset: int) -> AllocationDetails:
    """The place of a planned tensor; its offset is written in two halves of 32 bits."""
    if mem_offset < 0:
        raise ValueError(f"mem_offset: expected 0 or more, got {mem_offset}")
    if mem_offset >= 1 << 64:
        raise AddressSpaceOverflowException(f"mem_offset: expected 64 bits, got {mem_offset}")
    return AllocationDetails(mem_id, mem_offset & 0xFFFFFFFF, mem_offset >> 32)


def make_tensor_value(
    data_buffer_idx: int, allocation_info: AllocationDetails | None, spec: TensorSpec
) -> Tensor:
    """The file format's tensor of a spec: a constant, or planned memory."""
    extra = spec.extra_tensor_info
    if spec.device is not DeviceType.CPU:
        place: dict[str, Any] = {"device_type": spec.device, "device_index": spec.device_index}
        extra = dataclasses.replace(extra or ExtraTensorInfo(), **place)
    return Tensor(
        scalar_type=ScalarType(scalar_type_number(spec.scalar_type)),
        storage_offset=0,
        sizes=list(spec.shape),
        dim_order=list(spec.dim_order),
        requires_grad=spec.requires_grad,
        layout=layout_enum(spec.layout),
        data_buffer_idx=data_buffer_idx,
        allocation_info=allocation_info,
        shape_dynamism=spec.shape_dynamism,
        extra_tensor_info=extra,
    )


def check_spec(tensor: torch.Tensor, spec: TensorSpec) -> None:
    """InternalError unless the tensor has the kind, shape and dtype of the spec."""
    found = (tensor.is_sparse, list(tensor.shape), tensor.dtype)
    wanted = (spec.is_sparse, list(spec.shape), spec.dtype)
    for name, mine, other in zip(("is_sparse", "shape", "dtype"), wanted, found, strict=True):
        internal_assert(mine == other, f"tensor: expected {name} {mine}, got {other}")
