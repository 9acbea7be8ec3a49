"""Small program files, built value by value, for tests that must not depend on the exporter.

Uses the file format's dataclasses and serializer only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from executorch_py.exir import schema as s
from executorch_py.exir.serialize.pte import PTEFile, serialize_pte_binary

DTYPES = {
    "uint8": s.ScalarType.BYTE,
    "int8": s.ScalarType.CHAR,
    "int16": s.ScalarType.SHORT,
    "int32": s.ScalarType.INT,
    "int64": s.ScalarType.LONG,
    "float16": s.ScalarType.HALF,
    "float32": s.ScalarType.FLOAT,
    "float64": s.ScalarType.DOUBLE,
    "bool": s.ScalarType.BOOL,
    "bfloat16": s.ScalarType.BFLOAT16,
    "float8_e5m2": s.ScalarType.FLOAT8E5M2,
    "uint16": s.ScalarType.UINT16,
}
ITEM_BYTES = {"bfloat16": 2, "float8_e5m2": 1}


class MethodMaker:
    """A builder of one method. Every call that makes a value returns its index."""

    def __init__(self, name: str = "forward") -> None:
        self.name = name
        self.values: list[s.EValue] = []
        self.operators: list[s.Operator] = []
        self.instructions: list[s.Instruction] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.constants: list[bytes] = []
        self.planned_bytes = 0
        self.structures = ("", "")

    def value(self, value: Any) -> int:
        self.values.append(s.EValue(value))
        return len(self.values) - 1

    def scalar(self, value: bool | int | float | str | None) -> int:
        if value is None:
            return self.value(s.Null())
        if isinstance(value, bool):
            return self.value(s.Bool(value))
        if isinstance(value, int):
            return self.value(s.Int(value))
        if isinstance(value, str):
            return self.value(s.String(value))
        return self.value(s.Double(value))

    def tensor(
        self,
        sizes: Sequence[int],
        dtype: str = "float32",
        *,
        planned: bool = True,
        dim_order: Sequence[int] | None = None,
        dynamic: bool = False,
        constant: np.ndarray[Any, Any] | None = None,
        name: str | None = None,
    ) -> int:
        place, index = None, 0
        item = ITEM_BYTES.get(dtype) or np.dtype(dtype).itemsize
        if constant is not None:
            self.constants.append(constant.tobytes())
            index = len(self.constants)
        elif planned:
            place = s.AllocationDetails(1, self.planned_bytes, 0)
            nbytes = int(np.prod(sizes, dtype=np.int64)) * item
            self.planned_bytes += -(-nbytes // 16) * 16
        return self.value(
            s.Tensor(
                scalar_type=DTYPES[dtype],
                storage_offset=0,
                sizes=list(sizes),
                dim_order=list(range(len(sizes)) if dim_order is None else dim_order),
                requires_grad=False,
                layout=0,
                data_buffer_idx=index,
                allocation_info=place,
                shape_dynamism=s.TensorShapeDynamism(1 if dynamic else 0),
                extra_tensor_info=None if name is None else s.ExtraTensorInfo(0, name),
            )
        )

    def call(self, operator: str, *args: int) -> None:
        """Adds an instruction; args are value indices, with the result repeated at the end."""
        name, _, overload = operator.partition(".")
        wanted = s.Operator(name, overload)
        if wanted not in self.operators:
            self.operators.append(wanted)
        index = self.operators.index(wanted)
        self.instructions.append(s.Instruction(s.KernelCall(index, list(args))))

    def add(self, a: int, b: int, out: int) -> None:
        self.call("aten::add.out", a, b, self.scalar(1), out, out)

    def jump_if_false(self, condition: int, target: int) -> None:
        self.instructions.append(s.Instruction(s.JumpFalseCall(condition, target)))

    def plan(self, first_constant: int) -> s.ExecutionPlan:
        values = [
            s.EValue(_shifted(value.val, first_constant))
            if isinstance(value.val, s.Tensor) and value.val.data_buffer_idx
            else value
            for value in self.values
        ]
        return s.ExecutionPlan(
            name=self.name,
            container_meta_type=s.ContainerMetadata(*self.structures),
            values=values,
            inputs=self.inputs,
            outputs=self.outputs,
            chains=[s.Chain([], [], self.instructions, None)],
            operators=self.operators,
            delegates=[],
            non_const_buffer_sizes=[0, self.planned_bytes],
        )


def _shifted(tensor: s.Tensor, by: int) -> s.Tensor:
    from dataclasses import replace

    return replace(tensor, data_buffer_idx=tensor.data_buffer_idx + by)


def program_bytes(*methods: MethodMaker) -> bytes:
    """The .pte file with these methods."""
    constants: list[s.Buffer] = [s.Buffer(b"")]
    plans = []
    for method in methods:
        plans.append(method.plan(len(constants) - 1))
        constants += [s.Buffer(data) for data in method.constants]
    program = s.Program(
        version=0,
        execution_plan=plans,
        constant_buffer=constants,
        backend_delegate_data=[],
        segments=[],
        constant_segment=s.SubsegmentOffsets(0, []),
        mutable_data_segments=None,
        named_data=None,
    )
    return bytes(serialize_pte_binary(PTEFile(program)))


# ---- programs that several tests use


def adder(
    sizes: Sequence[int] = (2, 3), dtype: str = "float32", name: str = "forward", **kwargs: Any
) -> MethodMaker:
    """A method forward(x, y) -> x + y; keywords are options of all three tensors."""
    method = MethodMaker(name)
    x, y, out = (method.tensor(sizes, dtype, **kwargs) for _ in range(3))
    method.add(x, y, out)
    method.inputs, method.outputs = [x, y], [out]
    return method


def summing_loop(times: int, n: int, name: str = "forward") -> MethodMaker:
    """A method forward(x) -> x added `times` times to zero, in a loop."""
    method = MethodMaker(name)
    x = method.tensor([n])
    total = method.tensor([n])
    i, one, limit = method.scalar(0), method.scalar(1), method.scalar(times)
    done = method.scalar(False)
    zero = method.scalar(0)
    method.call("aten::mul.Scalar_out", x, zero, total, total)
    start = len(method.instructions)
    method.add(total, x, total)
    method.call("executorch_prim::add.Scalar", i, one, i)
    method.call("executorch_prim::eq.Scalar", i, limit, done)
    method.jump_if_false(done, start)
    method.call("executorch_prim::sub.Scalar", i, limit, i)
    method.inputs, method.outputs = [x], [total]
    return method
