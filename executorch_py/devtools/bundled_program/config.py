"""Test cases of methods: what goes in, and what should come out.

Checks each value by itself; whether cases fit a program is checked when they are bundled with it.
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
DataContainer: TypeAlias = list[Any] | tuple[Any, ...] | dict[Any, Any]


class BundleError(AssertionError, ValueError):
    """Test cases that do not fit the program they are bundled with, or the file format."""


class MethodTestCase:
    """One run of a method: its inputs, and the outputs to expect where those are to be checked."""

    def __init__(
        self, inputs: MethodInputType, expected_outputs: MethodOutputType | None = None
    ) -> None:
        self.inputs = _flat("input", inputs)
        self.expected_outputs = (
            [] if expected_outputs is None else _flat("expected output", expected_outputs)
        )


def _flat(what: str, values: Any) -> list[Any]:
    leaves: list[Any] = tree_flatten(values)[0]
    for i, value in enumerate(leaves):
        if not isinstance(value, (torch.Tensor, int, bool, float)):
            raise BundleError(
                f"{what} {i} of a test case is a {type(value).__name__}; a bundled program holds "
                "tensors, ints, bools and floats only, so leave the method out of the bundle"
            )
    return leaves


@dataclass
class MethodTestSuite:
    """All test cases of one method."""

    method_name: str
    test_cases: Sequence[MethodTestCase]
