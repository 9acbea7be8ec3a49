"""Values that a program file computes on the way to its outputs, of one run on the C runtime.

A traced run gives the results of every instruction. A delegate's call is run again alone, with a
payload that has its intermediate values as results (BackendDetails.opened). Relies on the bytes of
the file, not on the graphs that it was made from. Compares nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
    KernelCall,
    Tensor,
    TensorList,
    TensorShapeDynamism,
)
from executorch_py.exir.serialize import PTEFile, deserialize_pte_binary, serialize_pte_binary
from executorch_py.testing.reference import NotComparable, named_error

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


class TracedFile:
    """A method of a program file, whose bytes are read once for all runs."""

    def __init__(self, program: ExecutorchProgramManager, method: str) -> None:
        self._program, self._method = program, method

    @cached_property
    def _file(self) -> PTEFile:
        return deserialize_pte_binary(self._program.buffer)

    @cached_property
    def _plan(self) -> ExecutionPlan:
        return next(p for p in self._file.program.execution_plan if p.name == self._method)

    @cached_property
    def _instructions(self) -> list[Instruction]:
        return [i for chain in self._plan.chains for i in chain.instructions]

    @cached_property
    def _data(self) -> list[bytes]:
        return [bytes(part) for part in self._program._tensor_data.values()]

    def values(self, flat: Sequence[Any], with_floats: bool = False) -> FileValues:
        """All tensors that a run with these flat inputs computes.

        `with_floats`: delegates show floats, too. NotComparable if a delegate does not run alone.
        """
        plan = self._plan
        instructions = [i.instr_args for i in self._instructions]
        found = FileValues()
        for index, operator, results in self._program._load(self._method).trace(list(flat)):
            call = instructions[index]
            if isinstance(call, DelegateCall):
                found.n_delegates += 1
                self._add_delegate_values(found, call, results, with_floats)
            grid = _grid_of(plan, call) if operator.startswith(_QUANTIZE) else None
            found.tensors += [FileValue(t, grid) for t in _tensors(results)]
        return found

    def instructions_of(self, operator: str) -> list[int]:
        """The instructions that call an operator, without its overload."""
        calls = enumerate(i.instr_args for i in self._instructions)
        return [
            index
            for index, call in calls
            if isinstance(call, KernelCall) and self._plan.operators[call.op_index].name == operator
        ]

    def traced(self, flat: Sequence[Any]) -> Iterator[tuple[int, list[Any], torch.Tensor]]:
        """Instructions of one run that call operators, with their arguments and last result.

        An argument is a tensor of this run, a list of such, or None: of constants, of results
        without a copy of their own, and of numbers.
        """
        known: dict[int, torch.Tensor] = {
            index: torch.as_tensor(value)
            for index, value in zip(self._plan.inputs, flat, strict=True)
            if hasattr(value, "shape")
        }
        for index, _, results in self._program._load(self._method).trace(list(flat)):
            call = self._instructions[index].instr_args
            tensors = list(_tensors(results))
            if isinstance(call, KernelCall) and tensors:
                yield index, [self._argument(i, known) for i in call.args], tensors[-1]
                known[call.args[-1]] = tensors[-1]
            elif isinstance(call, DelegateCall):
                known.update(zip(call.args, tensors, strict=False))

    def _argument(self, index: int, known: dict[int, torch.Tensor]) -> Any:
        value = self._plan.values[index].val
        return (
            [known.get(i) for i in value.items]
            if isinstance(value, TensorList)
            else known.get(index)
        )

    def _add_delegate_values(
        self, found: FileValues, call: DelegateCall, results: Sequence[Any], with_floats: bool
    ) -> None:
        """Adds intermediate values of a delegate, from a run of it alone with its arguments."""
        delegate = self._plan.delegates[call.delegate_index]
        backends = {c.__name__: c for c in BackendDetails.__subclasses__()}
        if delegate.id not in backends:
            return
        payload = self._file.program.backend_delegate_data[delegate.processed.index].data
        opened = backends[delegate.id].opened(bytes(payload), with_floats)
        if opened is None or not opened.values:
            return
        given = [torch.as_tensor(value) for value in results]
        again = self._run_alone(call, opened, given[: opened.n_inputs])
        n_results = len(given) - opened.n_inputs
        for before, now in zip(given[opened.n_inputs :], again[:n_results], strict=True):
            if not torch.equal(before.nan_to_num(), now.nan_to_num()):
                found.is_exact = False
                found.tensors.append(FileValue(now))
        for tensor, value in zip(again[n_results:], opened.values, strict=True):
            found.tensors.append(FileValue(tensor, value.grid))

    def _run_alone(
        self, call: DelegateCall, opened: OpenedPayload, inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The results of a delegate with the opened payload."""
        alone = _delegate_program(self._file, self._plan, call, opened)
        try:
            outputs = load_method(alone, self._data, self._plan.name).execute(list(inputs))
        except Exception as error:  # of a backend that refuses more results
            backend = self._plan.delegates[call.delegate_index].id
            raise NotComparable(f"{backend} alone: {named_error(error)}") from error
        return [torch.as_tensor(value) for value in outputs]


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
