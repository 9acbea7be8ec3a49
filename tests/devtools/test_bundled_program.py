"""Bundled programs: test cases are checked, written, read back equal, run and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch.export import export

from executorch_py.devtools import BundledProgram
from executorch_py.devtools.bundled_program import schema as tables
from executorch_py.devtools.bundled_program.config import (
    DataContainer,
    MethodTestCase,
    MethodTestSuite,
)
from executorch_py.devtools.bundled_program.serialize import (
    deserialize_from_flatbuffer_to_bundled_program,
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch_py.exir import to_edge
from executorch_py.extension.pybindings import portable_lib

X = torch.arange(6.0).reshape(2, 3)


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return x * n, (x * n).t()


class Words(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x + 1, 3


@pytest.fixture(scope="module")
def program() -> Any:
    methods = {"forward": export(Scaled(), (X, 2)), "words": export(Words(), (X,))}
    return to_edge(methods).to_executorch()


def suites(*cases: MethodTestCase, method: str = "forward") -> list[MethodTestSuite]:
    return [MethodTestSuite(method_name=method, test_cases=list(cases))]


def test_a_bundle_runs_and_its_outputs_are_compared(program: Any) -> None:
    right = MethodTestCase([X, 2], Scaled()(X, 2))
    other = MethodTestCase((X, 2), (torch.zeros(2, 3), torch.zeros(3, 2)))
    data = serialize_from_bundled_program_to_flatbuffer(
        BundledProgram(program, suites(right, other))
    )
    module = portable_lib._load_bundled_program_from_buffer(data)
    outputs = module.verify_result_with_bundled_expected_output("forward", 0)
    torch.testing.assert_close(outputs, list(Scaled()(X, 2)))
    with pytest.raises(RuntimeError, match="output 0 differs from the bundle's output"):
        module.verify_result_with_bundled_expected_output("forward", 1)
    assert module.verify_result_with_bundled_expected_output("forward", 1, 0.0, 100.0)
    inner = portable_lib._load_for_executorch_from_bundled_program(module)
    torch.testing.assert_close(inner.forward([X, 2])[0], X * 2)
    with pytest.raises(RuntimeError, match=r"test case 2 of 'forward': the bundle has 2"):
        module.verify_result_with_bundled_expected_output("forward", 2)
    with pytest.raises(RuntimeError, match=r"no test cases for 'words'; it has \['forward'\]"):
        module.verify_result_with_bundled_expected_output("words", 0)


def test_the_tables_come_back_and_values_lie_rows_first(program: Any, tmp_path: Path) -> None:
    path = tmp_path / "program.pte"
    program.save(path)
    sideways = torch.arange(6.0).reshape(3, 2).t()
    bundle = BundledProgram(None, suites(MethodTestCase([sideways, 2])), str(path))
    data = serialize_from_bundled_program_to_flatbuffer(bundle)
    found = deserialize_from_flatbuffer_to_bundled_program(data)
    assert found == bundle.serialize_to_schema()
    assert found.program == program.buffer and data.index(found.program) % 32 == 0
    (case,) = found.method_test_suites[0].test_cases
    tensor, number = (value.val for value in case.inputs)
    assert isinstance(tensor, tables.Tensor) and number == tables.Int(2)
    assert tensor.sizes == [2, 3] and tensor.dim_order == [0, 1]
    assert tensor.data == sideways.contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: suites(method="absent"), r"methods \['forward', 'words'\], got 'absent'"),
        (lambda: suites(MethodTestCase([X])), "test case 0: expected 2 inputs, got 1"),
        (
            lambda: suites(MethodTestCase([X.int(), 2])),
            "input 0: expected dtype FLOAT, got torch.int32",
        ),
        (
            lambda: suites(MethodTestCase([X, X])),
            "input 1: expected a value of type int, got Tensor",
        ),
        (lambda: suites(MethodTestCase([3.0, 2])), "input 0: expected a tensor, got float 3.0"),
        (lambda: suites(MethodTestCase([X, 2], [X.int()])), "expected output 0: expected dtype"),
        (lambda: suites(MethodTestCase([X, 2], [X] * 3)), "expected at most 2 outputs, got 3"),
        (lambda: suites(MethodTestCase([X], [X, 3]), method="words"), "returns a Int"),
        (lambda: suites(MethodTestCase([None])), "input 0 of a test case: .* NoneType"),  # type: ignore[list-item]
    ],
)
def test_cases_that_do_not_fit_are_refused(program: Any, make: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        BundledProgram(program, make())


def test_a_bundle_has_one_source() -> None:
    with pytest.raises(RuntimeError, match="executorch_program and pte_file_path, got neither"):
        BundledProgram(None, [])
    with pytest.raises(ValueError, match="identifier"):
        portable_lib._load_bundled_program_from_buffer(b"no bundle")


def test_containers_of_inputs_are_types_that_isinstance_takes() -> None:
    assert get_args(DataContainer) == (list, tuple, dict)
    assert isinstance([1], get_args(DataContainer))
