"""Test cases of methods: inputs and expected outputs.

The types of single values are checked here. BundledProgram checks cases against a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.utils._pytree import tree_flatten

ConfigValue: TypeAlias = torch.Tensor | int | bool | float
MethodInputType: TypeAlias = Sequence[ConfigValue]
MethodOutputType: TypeAlias = Sequence[torch.Tensor]
DataContainer: TypeAlias = list | tuple | dict  # type: ignore[type-arg]


class BundleError(AssertionError, ValueError):
    """Test cases that do not fit their program, or the file format."""


class MethodTestCase:
    """One run of a method: its inputs, and the expected outputs if those are checked."""

    def __init__(
        self, inputs: MethodInputType, expected_outputs: MethodOutputType | None = None
    ) -> None:
        self.inputs = _flat("input", inputs)
        self.expected_outputs = (
            [] if expected_outputs is None else _flat("expected output", expected_outputs)
        )


def _flat(name: str, values: Any) -> list[Any]:
    leaves: list[Any] = tree_flatten(values)[0]
    for i, value in enumerate(leaves):
        if not isinstance(value, (torch.Tensor, int, bool, float)):
            raise BundleError(
                f"{name} {i} of a test case: expected a tensor, int, bool or float, got a "
                f"{type(value).__name__}; leave this method out of the bundle"
            )
    return leaves


@dataclass
class MethodTestSuite:
    """All test cases of one method."""

    method_name: str
    test_cases: Sequence[MethodTestCase]
