"""Bytes of weights, constants and initial states, each stored once in the whole program.

Three tables with numberings of their own: constants of the program, initial states of mutable
buffers, and weights kept in separate data files. Entry 0 of the first two is a placeholder. Bytes
are held by reference (StoredTensor). Knows nothing of graphs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from executorch_py.exir import schema
from executorch_py.exir.ir.scalar_type import scalar_type_number
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.serialize.cord import StoredTensor

Buffers = list[schema.Buffer]


class TensorBuffer(schema.Buffer):
    """A buffer that holds a tensor; its bytes are copied whenever `storage` is read."""

    def __init__(self, stored: StoredTensor) -> None:
        object.__setattr__(self, "_stored", stored)

    @property
    def storage(self) -> bytes:
        return bytes(self.piece())

    def piece(self) -> StoredTensor:
        stored: StoredTensor = self.__dict__["_stored"]
        return stored

    def __eq__(self, other: object) -> bool:
        return isinstance(other, schema.Buffer) and self.piece() == other.piece()


def _with_placeholder() -> Buffers:
    return [schema.Buffer(b"")]


@dataclass
class ConstantStore:
    """Buffers by content; the indices given out are what tensors of the file refer to."""

    constant_buffer: Buffers = field(default_factory=_with_placeholder)
    mutable_buffer: Buffers = field(default_factory=_with_placeholder)
    external_buffer: list[StoredTensor] = field(default_factory=list)
    external_map: dict[str, dict[str, int]] = field(default_factory=dict)
    _constants: dict[StoredTensor, int] = field(default_factory=dict)
    _states: dict[StoredTensor, int] = field(default_factory=dict)
    _externals: dict[StoredTensor, int] = field(default_factory=dict)

    def constant(self, tensor: torch.Tensor, name: str) -> int:
        """Index of a constant; 0, which means no data, for a tensor without elements."""
        return self._add(self.constant_buffer, self._constants, tensor, name)

    def initial_state(self, tensor: torch.Tensor, name: str) -> int:
        """Index of the bytes that a mutable buffer starts with."""
        return self._add(self.mutable_buffer, self._states, tensor, name)

    def external(self, tensor: torch.Tensor, name: str, tag: str) -> int:
        """Index among the externally stored tensors; `name` finds it in the data file `tag`."""
        data = _stored(tensor, name)
        index = self._externals.get(data)
        if index is None:
            index = self._externals[data] = len(self.external_buffer)
            self.external_buffer.append(data)
        self.external_map.setdefault(tag, {})[name] = index
        return index

    @staticmethod
    def _add(
        table: Buffers, known: dict[StoredTensor, int], tensor: torch.Tensor, name: str
    ) -> int:
        if tensor.numel() == 0:
            return 0
        data = _stored(tensor, name)
        index = known.get(data)
        if index is None:
            index = known[data] = len(table)
            table.append(TensorBuffer(data))
        return index


def dense(tensor: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The tensor, without gaps, and its dim order in a file: channels-last or row-major.

    A tensor that is both (dimensions of size one) is what its strides say. A transposed tensor is
    given back as it is; its bytes are put in order when the file is written. Others are copied.
    """
    tensor = tensor.detach().cpu()
    rank = tensor.dim()
    if rank == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        strides = tensor.stride()
        if not tensor.is_contiguous() or strides[1] < strides[3] * max(tensor.shape[3], 1):
            return tensor, [0, 2, 3, 1]
    if not is_non_overlapping_and_dense_or_false(tensor):
        tensor = tensor.contiguous()
    return tensor, list(range(rank))


def _stored(tensor: torch.Tensor, name: str) -> StoredTensor:
    data, dim_order = dense(tensor)
    return StoredTensor(data, name, dim_order)


def tensor_value(
    spec: TensorSpec,
    *,
    dim_order: list[int] | None = None,
    data_buffer_idx: int = 0,
    allocation_info: schema.AllocationDetails | None = None,
    extra_tensor_info: schema.ExtraTensorInfo | None = None,
) -> schema.Tensor:
    """The tensor of a spec with what emission decided about its data."""
    if spec.layout is not torch.strided:
        raise ValueError(f"tensor layout is {spec.layout}, only strided tensors can be emitted")
    if not all(isinstance(size, int) for size in spec.shape):
        raise ValueError(f"sizes {spec.shape} are symbolic; a pass should have bounded them")
    return schema.Tensor(
        scalar_type=schema.ScalarType(scalar_type_number(spec.dtype)),
        storage_offset=0,
        sizes=list(spec.shape),
        dim_order=[int(d) for d in (spec.dim_order if dim_order is None else dim_order)],
        requires_grad=bool(spec.requires_grad),
        layout=0,
        data_buffer_idx=data_buffer_idx,
        allocation_info=allocation_info,
        shape_dynamism=schema.TensorShapeDynamism(int(spec.shape_dynamism)),
        extra_tensor_info=extra_tensor_info,
    )


def allocation_at(mem_id: int, offset: int) -> schema.AllocationDetails:
    """Planned memory at a 64-bit offset."""
    if mem_id < 1 or not 0 <= offset < 2**63:
        raise ValueError(
            "planned memory: expected buffer 1 or more and an offset of 63 bits, "
            f"got buffer {mem_id}, offset {offset}"
        )
    return schema.AllocationDetails(mem_id, offset & 0xFFFFFFFF, offset >> 32)
