"""Interpreter of emitted plans on torch operators, with planned memory modelled byte for byte.

An oracle for emission that shares nothing with the C runtime. Values are at their planned offsets,
so a wrong offset, order of instructions or shared value gives wrong results.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from executorch_py.exir import schema as s
from executorch_py.exir.emit import EmitterOutput
from executorch_py.exir.ir.scalar_type import dtype_of_number
from executorch_py.exir.ir.tensor_spec import stride_from_dim_order

_PRIM = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "eq": operator.eq,
    "gt": operator.gt,
    "lt": operator.lt,
    "ge": operator.ge,
    "le": operator.le,
    "neg": operator.neg,
    "sym_max": max,
    "sym_min": min,
}
MAX_INSTRUCTIONS = 100_000


class Slot:
    """A tensor of the plan: the offset of its bytes and its present sizes."""

    def __init__(self, info: s.Tensor, memory: torch.Tensor | None) -> None:
        self.info, self.memory = info, memory
        self.dtype = dtype_of_number(info.scalar_type)
        self.sizes = list(info.sizes)

    def read(self) -> torch.Tensor:
        if 0 in self.sizes:
            return torch.empty(self.sizes, dtype=self.dtype)
        assert self.memory is not None, "read of a tensor without memory"
        strides = stride_from_dim_order(self.sizes, self.info.dim_order)
        count = 1
        for size in self.sizes:
            count *= size
        data = self.memory[: count * self.dtype.itemsize].clone().view(self.dtype)
        return data.as_strided(self.sizes, strides)

    def write(self, value: torch.Tensor) -> None:
        assert value.dtype == self.dtype, (value.dtype, self.dtype)
        if self.info.shape_dynamism is s.TensorShapeDynamism.STATIC:
            assert list(value.shape) == self.sizes, (value.shape, self.sizes)
        assert value.dim() == len(self.sizes)
        self.sizes = list(value.shape)
        if self.memory is None:
            self.memory = torch.zeros(value.numel() * self.dtype.itemsize, dtype=torch.uint8)
        order = value.permute(self.info.dim_order).contiguous().reshape(-1).view(torch.uint8)
        assert order.numel() <= self.memory.numel(), "more elements than the plan has room for"
        self.memory[: order.numel()] = order


class PlanInterpreter:
    """One loaded method of an emitted program; `run` may be called repeatedly."""

    def __init__(self, output: EmitterOutput, method: str = "forward") -> None:
        self.output = output
        plans = {plan.name: plan for plan in output.program.execution_plan}
        self.plan = plans[method]
        sizes = self.plan.non_const_buffer_sizes
        self.arenas = [torch.full((size,), 0xA5, dtype=torch.uint8) for size in sizes]
        self.values: list[Any] = [self._load(value.val) for value in self.plan.values]

    def _load(self, value: s.KernelTypes) -> Any:
        if isinstance(value, s.Tensor):
            return self._load_tensor(value)
        if isinstance(value, (s.Null, s.IntList, s.TensorList, s.OptionalTensorList)):
            return None if isinstance(value, s.Null) else value
        if isinstance(value, (s.DoubleList, s.BoolList)):
            return list(value.items)
        return next(iter(vars(value).values()))

    def _load_tensor(self, info: s.Tensor) -> Slot:
        program, data = self.output.program, None
        if info.allocation_info is not None:
            place = info.allocation_info
            memory = self.arenas[place.memory_id][place.memory_offset :]
            slot = Slot(info, memory)
            if info.data_buffer_idx:
                assert self.output.mutable_data is not None
                data = bytes(self.output.mutable_data[info.data_buffer_idx].storage)
                memory[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            return slot
        if info.data_buffer_idx:
            data = bytes(program.constant_buffer[info.data_buffer_idx].storage)
            return Slot(info, torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return Slot(info, None)

    def value(self, index: int) -> Any:
        """The Python form of a value, lists resolved."""
        found = self.values[index]
        if isinstance(found, Slot):
            return found.read()
        if isinstance(found, (s.IntList, s.TensorList, s.OptionalTensorList)):
            return [None if i < 0 else self.value(i) for i in found.items]
        return found

    def run(self, *inputs: Any) -> list[Any]:
        assert len(inputs) == len(self.plan.inputs)
        for index, given in zip(self.plan.inputs, inputs, strict=True):
            if isinstance(given, torch.Tensor):
                self.values[index].write(given)
            else:
                assert self.values[index] == given
        (chain,) = self.plan.chains
        position, count = 0, 0
        while position < len(chain.instructions):
            count += 1
            assert count < MAX_INSTRUCTIONS, "the program does not end"
            position = self._step(chain.instructions[position].instr_args, position)
        return [self.value(index) for index in self.plan.outputs]

    def _step(self, args: s.InstructionArguments, position: int) -> int:
        if isinstance(args, s.JumpFalseCall):
            condition = self.value(args.cond_value_index)
            return position + 1 if bool(condition) else args.destination_instruction
        if isinstance(args, s.MoveCall):
            self.values[args.move_to] = self.values[args.move_from]
        elif isinstance(args, s.KernelCall):
            op = self.plan.operators[args.op_index]
            self._kernel(op.name, op.overload, args.args)
        else:
            raise AssertionError(f"unexpected {args}")
        return position + 1

    def _kernel(self, name: str, overload: str, args: list[int]) -> None:
        namespace, short = name.split("::")
        if namespace == "executorch_prim":
            return self._prim(short, args)
        packet = getattr(getattr(torch.ops, namespace), short)
        op = getattr(packet, overload or "default")
        schema = op._schema.arguments
        outs = [i for i, arg in enumerate(schema) if arg.is_out]
        extra = 1 if outs or op._schema.returns else 0
        assert len(args) == len(schema) + extra, (name, args)
        given = {a.name: self.value(args[i]) for i, a in enumerate(schema) if i not in outs}
        if name == "aten::sym_size":
            self.values[args[-1]] = given["self"].shape[given["dim"]]
        elif not outs:
            self._in_place(op, given, args)
        else:
            fresh = {schema[i].name: self._empty_like(args[i]) for i in outs}
            op(**given, **fresh)
            for i in outs:
                self._write(args[i], fresh[schema[i].name])

    def _in_place(self, op: Any, given: dict[str, Any], args: list[int]) -> None:
        result = op(**given)
        if isinstance(result, torch.Tensor):
            self._write(args[-1], result)
        else:
            self.values[args[-1]] = result

    def _empty_like(self, index: int) -> Any:
        found = self.values[index]
        if isinstance(found, s.TensorList):
            return [self._empty_like(i) for i in found.items]
        return torch.empty(0, dtype=found.dtype)

    def _write(self, index: int, result: Any) -> None:
        found = self.values[index]
        if isinstance(found, s.TensorList):
            for i, part in zip(found.items, result, strict=True):
                self._write(i, part)
        else:
            found.write(result)

    def _prim(self, name: str, args: list[int]) -> None:
        if name == "et_view":
            base, target = self.values[args[0]], self.values[args[2]]
            target.memory = base.memory
            target.sizes = list(base.read().reshape(self.value(args[1])).shape)
        elif name == "et_copy_index":
            target, row, index = self.values[args[0]], self.value(args[1]), self.value(args[2])
            done = target.read()[:index] if index else row.new_empty((0, *row.shape))
            target.write(torch.cat([done, row[None]]))
        else:
            *operands, out = args
            self.values[out] = _PRIM[name](*[self.value(i) for i in operands])


def emit(model: Any, inputs: tuple[Any, ...], dynamic_shapes: Any = None, **config: Any) -> Any:
    """Lower a module or function; returns the finished program.

    Checked against upstream's kernels, so that these tests do not depend on which ours are built.
    """
    from executorch_py.exir import to_edge
    from executorch_py.exir.program.config import ExecutorchBackendConfig

    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    with torch.no_grad(), warnings.catch_warnings():
        # torch warns about its own LSTM
        warnings.filterwarnings("ignore", "The tensor attributes .* were assigned during export")
        program = torch.export.export(
            module.eval(), inputs, dynamic_shapes=dynamic_shapes, strict=False
        )
        config.setdefault("target", "executorch-1.5")
        return to_edge(program).to_executorch(ExecutorchBackendConfig(**config))


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*args)


@pytest.fixture(name="emit")
def emit_fixture() -> Callable[..., Any]:
    return emit


@pytest.fixture
def load() -> Callable[..., PlanInterpreter]:
    """Turns a finished program into something that runs."""

    def make(program: Any, method: str = "forward") -> PlanInterpreter:
        return PlanInterpreter(program._emitter_output, method)

    return make


@pytest.fixture
def check(load: Callable[..., PlanInterpreter]) -> Callable[..., Any]:
    """Lowers a model, runs its plan on every set of inputs and compares with eager."""

    def run(model: Any, *calls: tuple[Any, ...], **kwargs: Any) -> Any:
        program = emit(model, calls[0], **kwargs)
        interpreter = load(program)
        for inputs in calls:
            found = interpreter.run(*torch.utils._pytree.tree_leaves(inputs))
            with torch.no_grad():
                wanted = torch.utils._pytree.tree_leaves(model(*inputs))
            torch.testing.assert_close(found, wanted)
        return program

    return run
