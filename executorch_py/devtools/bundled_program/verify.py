"""Verification of a bundle's test case: its outputs against the expected outputs in the file.

The caller passes a function that runs the method, from inputs to outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from executorch_py.devtools.bundled_program import schema as tables
from executorch_py.exir.ir.scalar_type import dtype_of_number


class OutputMismatch(RuntimeError):
    """An output of a method differs from the expected output of its bundle."""


def find_case(
    bundle: tables.BundledProgram, method_name: str, index: int
) -> tables.BundledMethodTestCase:
    """A test case of a method; LookupError names the methods and numbers of cases."""
    suites = {suite.method_name: suite for suite in bundle.method_test_suites}
    if method_name not in suites:
        raise KeyError(f"the bundle has no test cases for {method_name!r}; it has {sorted(suites)}")
    cases = suites[method_name].test_cases
    if not 0 <= index < len(cases):
        raise IndexError(f"test case {index} of {method_name!r}: the bundle has {len(cases)}")
    return cases[index]


def python_value(value: tables.Value) -> Any:
    """The tensor or Python scalar of a value in the file."""
    held = value.val
    if isinstance(held, tables.Int):
        return held.int_val
    if isinstance(held, tables.Bool):
        return held.bool_val
    if isinstance(held, tables.Double):
        return held.double_val
    if not held.data:
        return torch.empty(held.sizes, dtype=dtype_of_number(int(held.scalar_type)))
    flat = torch.frombuffer(bytearray(held.data), dtype=dtype_of_number(int(held.scalar_type)))
    in_memory = flat.reshape([held.sizes[dim] for dim in held.dim_order])
    return in_memory.permute([held.dim_order.index(dim) for dim in range(len(held.sizes))])


def verify_case(
    run: Callable[[Sequence[Any]], Sequence[Any]],
    case: tables.BundledMethodTestCase,
    where: str,
    rtol: float,
    atol: float,
) -> list[Any]:
    """Run the case; returns its outputs, or raises OutputMismatch for the first that differs."""
    outputs = list(run([python_value(value) for value in case.inputs]))
    for i, expected in enumerate(map(python_value, case.expected_outputs)):
        try:
            torch.testing.assert_close(
                torch.as_tensor(outputs[i]), expected, rtol=rtol, atol=atol, equal_nan=True
            )
        except AssertionError as error:
            raise OutputMismatch(
                f"{where}, output {i} differs from the bundle's output: {error}"
            ) from None
    return outputs
