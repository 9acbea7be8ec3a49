"""A program and its test cases, checked against each other, on their way into one file.

Relies on the tables of the program for the checks; a program given as a file is read for them.
Bytes are written by serialize, runs are compared by extension/pybindings.
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

# Kinds of values that a bundle can hold, by the program's kind of value. A bool is an int to
# isinstance: exact.
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
                f"{given} of executorch_program and pte_file_path given: a bundle needs one of them"
            )
        self.executorch_program: ExecutorchProgramManager | None = executorch_program
        self.method_test_suites = sorted(method_test_suites, key=lambda suite: suite.method_name)
        self._pte_file_path = pte_file_path
        self._tables: tables.BundledProgram | None = None
        self._check(self._program())

    def serialize_to_schema(self) -> tables.BundledProgram:
        """The tables of the file, made once."""
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
                    f"a test suite is for method {suite.method_name!r}, which the program does "
                    f"not have; its methods: {sorted(plans)}"
                )
            for i, case in enumerate(suite.test_cases):
                _check_case(f"method {plan.name!r}, test case {i}", plan, case)


def _check_case(where: str, plan: schema.ExecutionPlan, case: MethodTestCase) -> None:
    if len(case.inputs) != len(plan.inputs):
        raise BundleError(
            f"{where}: {len(case.inputs)} inputs, the method takes {len(plan.inputs)}"
        )
    for i, value in enumerate(case.inputs):
        _check_value(f"{where}, input {i}", plan.values[plan.inputs[i]].val, value)
    if not case.expected_outputs:
        return
    if len(case.expected_outputs) > len(plan.outputs):
        raise BundleError(
            f"{where}: {len(case.expected_outputs)} expected outputs, "
            f"the method returns {len(plan.outputs)}"
        )
    for i, value in enumerate(case.expected_outputs):
        needed = plan.values[plan.outputs[i]].val
        if not isinstance(needed, schema.Tensor):
            raise BundleError(
                f"{where}, output {i}: the method returns a {type(needed).__name__}; a bundle "
                "compares tensors only, so give no expected outputs"
            )
        _check_value(f"{where}, expected output {i}", needed, value)


def _check_value(where: str, needed: Any, value: Any) -> None:
    if isinstance(needed, schema.Tensor):
        if not isinstance(value, torch.Tensor):
            raise BundleError(f"{where}: {type(value).__name__} {value!r}, the method has a tensor")
        number = int(needed.scalar_type)
        if scalar_type_number(value.dtype) != number:
            name = schema.ScalarType(number).name
            raise BundleError(f"{where}: dtype {value.dtype}, the method has {name}")
        return
    kind = _PYTHON_TYPES.get(type(needed))
    if kind is None:
        raise BundleError(
            f"{where}: the method has a {type(needed).__name__}, which a bundle cannot hold; "
            "it holds tensors, ints, bools and floats"
        )
    if type(value) is not kind:
        raise BundleError(f"{where}: {type(value).__name__}, the method has a {kind.__name__}")


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
    """The tensor without gaps, rows first, as the runtime's test harness wants it."""
    dense = tensor.detach().contiguous()
    return tables.Tensor(
        scalar_type=schema.ScalarType(scalar_type_number(dense.dtype)),
        sizes=list(dense.shape),
        data=bytes(StoredTensor(dense, "test value")),
        dim_order=list(dim_order_from_stride(dense.stride(), dense.shape)),
    )
