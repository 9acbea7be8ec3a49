"""BundledProgram: a program and its test cases, checked against each other.

The checks read the program's tables, from the manager or from the .pte file. serialize writes the
bytes, and extension/pybindings compares runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from executorch_py.devtools.bundled_program import schema as tables
from executorch_py.devtools.bundled_program.config import (
    BundleError,
    MethodTestCase,
    MethodTestSuite,
)
from executorch_py.devtools.bundled_program.version import BUNDLED_PROGRAM_SCHEMA_VERSION
from executorch_py.exir import schema
from executorch_py.exir.ir.scalar_type import scalar_type_number
from executorch_py.exir.ir.tensor_spec import dim_order_from_stride
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.exir.serialize.cord import StoredTensor
from executorch_py.exir.serialize.pte import deserialize_pte_binary

# Python types of scalars that a bundle can hold, by the program's kind of value. They are compared
# exactly, since a bool is an int to isinstance.
_PYTHON_TYPES = {schema.Int: int, schema.Bool: bool, schema.Double: float}


class BundledProgram:
    """A program, given as a manager or as the path of its .pte, and test suites for its methods."""

    def __init__(
        self,
        executorch_program: ExecutorchProgramManager | None,
        method_test_suites: Sequence[MethodTestSuite],
        pte_file_path: str | Path | None = None,
    ) -> None:
        if (executorch_program is None) == (pte_file_path is None):
            given = "neither" if executorch_program is None else "both"
            raise RuntimeError(
                f"expected one of executorch_program and pte_file_path, got {given} of them"
            )
        self.executorch_program: ExecutorchProgramManager | None = executorch_program
        self.method_test_suites = sorted(method_test_suites, key=lambda suite: suite.method_name)
        self._pte_file_path = pte_file_path
        self._tables: tables.BundledProgram | None = None
        self._check(self._program())

    def serialize_to_schema(self) -> tables.BundledProgram:
        """The tables of the file, built once."""
        if self._tables is None:
            suites = [
                tables.BundledMethodTestSuite(
                    suite.method_name, [_case_tables(case) for case in suite.test_cases]
                )
                for suite in self.method_test_suites
            ]
            self._tables = tables.BundledProgram(
                BUNDLED_PROGRAM_SCHEMA_VERSION, suites, self._program_bytes()
            )
        return self._tables

    def _program_bytes(self) -> bytes:
        if self.executorch_program is not None:
            return self.executorch_program.buffer
        return Path(str(self._pte_file_path)).read_bytes()

    def _program(self) -> schema.Program:
        if self.executorch_program is not None:
            return self.executorch_program.executorch_program
        return deserialize_pte_binary(self._program_bytes()).program

    def _check(self, program: schema.Program) -> None:
        plans = {plan.name: plan for plan in program.execution_plan}
        for suite in self.method_test_suites:
            plan = plans.get(suite.method_name)
            if plan is None:
                raise BundleError(
                    f"test suite: expected one of the program's methods {sorted(plans)}, got "
                    f"{suite.method_name!r}"
                )
            for i, case in enumerate(suite.test_cases):
                _check_case(f"method {plan.name!r}, test case {i}", plan, case)


def _check_case(where: str, plan: schema.ExecutionPlan, case: MethodTestCase) -> None:
    if len(case.inputs) != len(plan.inputs):
        raise BundleError(f"{where}: expected {len(plan.inputs)} inputs, got {len(case.inputs)}")
    for i, value in enumerate(case.inputs):
        _check_value(f"{where}, input {i}", plan.values[plan.inputs[i]].val, value)
    if not case.expected_outputs:
        return
    if len(case.expected_outputs) > len(plan.outputs):
        raise BundleError(
            f"{where}: expected at most {len(plan.outputs)} outputs, "
            f"got {len(case.expected_outputs)}"
        )
    for i, value in enumerate(case.expected_outputs):
        planned = plan.values[plan.outputs[i]].val
        if not isinstance(planned, schema.Tensor):
            raise BundleError(
                f"{where}, output {i}: expected a method that returns a tensor, got one that "
                f"returns a {type(planned).__name__}: leave the expected outputs out"
            )
        _check_value(f"{where}, expected output {i}", planned, value)


def _check_value(where: str, planned: Any, value: Any) -> None:
    if isinstance(planned, schema.Tensor):
        if not isinstance(value, torch.Tensor):
            raise BundleError(f"{where}: expected a tensor, got {type(value).__name__} {value!r}")
        number = int(planned.scalar_type)
        if scalar_type_number(value.dtype) != number:
            name = schema.ScalarType(number).name
            raise BundleError(f"{where}: expected dtype {name}, got {value.dtype}")
        return
    kind = _PYTHON_TYPES.get(type(planned))
    if kind is None:
        raise BundleError(
            f"{where}: expected a method with a tensor, int, bool or float here, got one with a "
            f"{type(planned).__name__}"
        )
    if type(value) is not kind:
        raise BundleError(
            f"{where}: expected a value of type {kind.__name__}, got {type(value).__name__}"
        )


def _case_tables(case: MethodTestCase) -> tables.BundledMethodTestCase:
    return tables.BundledMethodTestCase(
        [_value_table(value) for value in case.inputs],
        [_value_table(value) for value in case.expected_outputs],
    )


def _value_table(value: Any) -> tables.Value:
    if isinstance(value, torch.Tensor):
        return tables.Value(_tensor_table(value))
    if isinstance(value, bool):
        return tables.Value(tables.Bool(value))
    if isinstance(value, int):
        return tables.Value(tables.Int(value))
    return tables.Value(tables.Double(value))


def _tensor_table(tensor: torch.Tensor) -> tables.Tensor:
    """The contiguous tensor, as the runtime's test harness requires it."""
    dense = tensor.detach().contiguous()
    return tables.Tensor(
        scalar_type=schema.ScalarType(scalar_type_number(dense.dtype)),
        sizes=list(dense.shape),
        data=bytes(StoredTensor(dense, "test value")),
        dim_order=list(dim_order_from_stride(dense.stride(), dense.shape)),
    )
