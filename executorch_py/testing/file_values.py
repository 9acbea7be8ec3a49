"""Values that a program file computes on the way to its outputs, of one run on the C runtime.

A traced run gives the results of every instruction. A delegate's call is run again alone, with a
payload that has its intermediate values as results (BackendDetails.opened). Relies on the bytes of
the file, not on the graphs that it was made from. Compares nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from executorch_py.exir.backend.backend_details import BackendDetails
from executorch_py.exir.backend.opened_payload import OpenedPayload, OpenedValue
from executorch_py.exir.program.upper_floors import load_method
from executorch_py.exir.schema import (
    AllocationDetails,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    Chain,
    ContainerMetadata,
    DataLocation,
    DelegateCall,
    Double,
    EValue,
    ExecutionPlan,
    Instruction,
    Int,
    Tensor,
    TensorShapeDynamism,
)
from executorch_py.exir.serialize import PTEFile, deserialize_pte_binary, serialize_pte_binary

if TYPE_CHECKING:
    from executorch_py.exir.program.executorch import ExecutorchProgramManager

_QUANTIZE = "quantized_decomposed::quantize_per_tensor"
# Space between planned tensors: their alignment, and bytes that kernels may read past an end.
_GAP = 64


@dataclass(frozen=True)
class FileValue:
    """A tensor that the file computed; of quantized ones the scale and zero point, if known."""

    tensor: torch.Tensor
    grid: tuple[float, int] | None = None


@dataclass
class FileValues:
    """The tensors of a run, in its order.

    `is_exact`: delegates gave the same results when they were run again with more results. Else
    they fuse nodes, and their floats were rounded in other places than here. `is_one_run`: the
    tensors are nevertheless those of one run, because there is one delegate.
    """

    tensors: list[FileValue] = field(default_factory=list)
    is_exact: bool = True
    n_delegates: int = 0

    @property
    def is_one_run(self) -> bool:
        return self.is_exact or self.n_delegates == 1


def file_values(program: ExecutorchProgramManager, method: str, flat: Sequence[Any]) -> FileValues:
    """All tensors that a run with these flat inputs computes."""
    file = deserialize_pte_binary(program.buffer)
    plan = next(p for p in file.program.execution_plan if p.name == method)
    instructions = [i.instr_args for chain in plan.chains for i in chain.instructions]
    data = [bytes(part) for part in program._tensor_data.values()]
    found = FileValues()
    for index, operator, results in program._load(method).trace(list(flat)):
        call = instructions[index]
        if isinstance(call, DelegateCall):
            found.n_delegates += 1
            _add_delegate_values(found, file, plan, call, results, data)
        grid = _grid_of(plan, call) if operator.startswith(_QUANTIZE) else None
        found.tensors += [FileValue(t, grid) for t in _tensors(results)]
    return found


def _grid_of(plan: ExecutionPlan, call: Any) -> tuple[float, int] | None:
    """The scale and the zero point of a quantize operator, where they are constants."""
    _, scale, zero, *_ = (plan.values[i].val for i in call.args)
    if isinstance(scale, Double) and isinstance(zero, Int):
        return scale.double_val, zero.int_val
    return None


def _tensors(results: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in results:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif value is not None and hasattr(value, "shape"):
            yield torch.as_tensor(value)


def _add_delegate_values(
    found: FileValues,
    file: PTEFile,
    plan: ExecutionPlan,
    call: DelegateCall,
    results: Sequence[Any],
    data: list[bytes],
) -> None:
    """Adds intermediate values of a delegate, from a run of it alone with its arguments."""
    delegate = plan.delegates[call.delegate_index]
    backend = next((c for c in BackendDetails.__subclasses__() if c.__name__ == delegate.id), None)
    payload = bytes(file.program.backend_delegate_data[delegate.processed.index].data)
    opened = None if backend is None else backend.opened(payload)
    if opened is None or not opened.values:
        return
    alone = _delegate_program(file, plan, call, opened)
    given = [torch.as_tensor(value) for value in results]
    outputs = load_method(alone, data, plan.name).execute(given[: opened.n_inputs])
    again = [torch.as_tensor(t) for t in outputs]
    n_results = len(given) - opened.n_inputs
    for before, now in zip(given[opened.n_inputs :], again[:n_results], strict=True):
        if not torch.equal(before.nan_to_num(), now.nan_to_num()):
            found.is_exact = False
            found.tensors.append(FileValue(now))
    for tensor, value in zip(again[n_results:], opened.values, strict=True):
        found.tensors.append(FileValue(tensor, value.grid))


def _delegate_program(
    file: PTEFile, plan: ExecutionPlan, call: DelegateCall, opened: OpenedPayload
) -> bytes:
    """A file with one method of one instruction: the delegate's call with the opened payload."""
    given = [plan.values[i].val for i in call.args]
    memory = _Memory()
    values = [memory.placed(v) for v in given] + [memory.placed(_tensor(v)) for v in opened.values]
    delegate = replace(
        plan.delegates[call.delegate_index],
        processed=BackendDelegateDataReference(DataLocation.INLINE, 0),
    )
    places = list(range(len(values)))
    only = ExecutionPlan(
        name=plan.name,
        container_meta_type=ContainerMetadata("", ""),
        values=values,
        inputs=places[: opened.n_inputs],
        outputs=places[opened.n_inputs :],
        chains=[Chain([], [], [Instruction(DelegateCall(0, places))], None)],
        operators=[],
        delegates=[delegate],
        non_const_buffer_sizes=[0, memory.end],
    )
    program = replace(
        file.program,
        execution_plan=[only],
        constant_buffer=[],
        backend_delegate_data=[BackendDelegateInlineData(opened.payload)],
    )
    return bytes(serialize_pte_binary(PTEFile(program, None, file.named_data)))


def _tensor(value: OpenedValue) -> Tensor:
    return Tensor(
        scalar_type=value.scalar_type,
        storage_offset=0,
        sizes=list(value.sizes),
        dim_order=list(range(len(value.sizes))),
        requires_grad=False,
        layout=0,
        data_buffer_idx=0,
        allocation_info=None,
        shape_dynamism=TensorShapeDynamism.DYNAMIC_BOUND,
    )


class _Memory:
    """Planned memory in which every tensor has a place of its own."""

    def __init__(self) -> None:
        self.end = 0

    def placed(self, value: Any) -> EValue:
        if not isinstance(value, Tensor):
            return EValue(value)
        low, high = self.end & 0xFFFFFFFF, self.end >> 32
        bytes_ = 16  # of the widest element type
        for size in value.sizes:
            bytes_ *= max(size, 1)
        self.end += (bytes_ + 2 * _GAP - 1) // _GAP * _GAP
        return EValue(
            replace(
                value,
                data_buffer_idx=0,
                allocation_info=AllocationDetails(1, low, high),
                extra_tensor_info=None,
            )
        )
