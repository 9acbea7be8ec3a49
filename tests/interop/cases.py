"""A program of the interop tests: a module, its example inputs, further inputs.

Imported by both virtual environments, so it needs torch alone. Weights come from a seed, so
both sides see the same numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from support.tolerance import F32, F32_MODEL, INTEROP_OPERATOR, Tolerance
from torch import nn
from torch.utils import _pytree as pytree

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """One program.

    `more` are inputs of other sizes; `stateful` cases run their inputs in order on one loaded
    method.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    dynamic_shapes: Callable[[], Any] | None = None
    more: Callable[[], list[Inputs]] | None = None
    stateful: bool = False
    upstream_exports: bool = True  # False: a defect of upstream's exporter or kernels prevents it
    from_library: bool = False  # needs a library that only .venv has: traced there for both sides
    tolerance: Tolerance = F32_MODEL

    def all_inputs(self) -> list[Inputs]:
        torch.manual_seed(7)
        sets = [self.inputs()]
        return sets + (self.more() if self.more else [])

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return self.build().eval()

    def export(self) -> torch.export.ExportedProgram:
        torch.manual_seed(7)
        shapes = self.dynamic_shapes() if self.dynamic_shapes else None
        with torch.no_grad():
            return torch.export.export(self.module(), self.inputs(), dynamic_shapes=shapes)


def expected(case: Case) -> list[list[Any]]:
    """Eager outputs, flat, one list per set of inputs.

    State persists between sets of a stateful case.
    """
    model = case.module()
    results = []
    for inputs in case.all_inputs():
        runner = model if case.stateful else copy.deepcopy(model)
        with torch.no_grad():
            outputs = runner(*copy.deepcopy(inputs))
        flat, _ = pytree.tree_flatten(outputs)
        results.append([v.clone() if isinstance(v, torch.Tensor) else v for v in flat])
    return results


class Lambda(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def op(name: str, function: Callable[..., Any], *shapes: tuple[int, ...], **kwargs: Any) -> Case:
    """A case of one function over f32 tensors of the given shapes."""
    return Case(
        name,
        lambda: Lambda(function),
        lambda: tuple(torch.randn(shape) for shape in shapes),
        **kwargs,
    )


def typed(
    name: str, function: Callable[..., Any], dtype: torch.dtype, *shapes: tuple[int, ...]
) -> Case:
    """A case of one function over tensors of one dtype."""

    def inputs() -> Inputs:
        if dtype == torch.bool:
            return tuple(torch.rand(shape) > 0.5 for shape in shapes)
        if dtype.is_floating_point:
            return tuple(torch.randn(shape).to(dtype) for shape in shapes)
        return tuple(torch.randint(1, 50, shape).to(dtype) for shape in shapes)

    tolerance = INTEROP_OPERATOR.get(dtype, F32)
    return Case(name, lambda: Lambda(function), inputs, tolerance=tolerance)


def _rows(*sizes: int) -> Callable[[], list[Inputs]]:
    return lambda: [(torch.randn(n, 4),) for n in sizes]
