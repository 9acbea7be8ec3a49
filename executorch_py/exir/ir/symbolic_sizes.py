"""Symbolic sizes as numbers: the value seen in tracing, and the largest value possible.

For passes and partitioners of users. The exporter uses the bounds of
passes/lower/sym_shape_eval.py, which cover data-dependent operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._sympy.value_ranges import bound_sympy

from executorch_py.exir.error import ExportError, ExportErrorType

Size: TypeAlias = int | torch.SymInt


def eval_expr(symint: Size) -> int | None:
    """The value seen in tracing; None where it depends on data."""
    if isinstance(symint, int):
        return symint
    node: Any = symint.node
    try:
        return int(node.shape_env.guarding_hint_or_throw(node.expr))
    except GuardOnDataDependentSymNode:
        return None


def eval_upper_bound(maybe_symint: Size) -> int:
    """The largest value; without a bound, the one seen in tracing."""
    if isinstance(maybe_symint, int):
        return maybe_symint
    node: Any = maybe_symint.node
    bound = bound_sympy(node.expr, node.shape_env.var_to_range).upper
    if isinstance(bound, sympy.Integer):
        return int(bound)
    seen = eval_expr(maybe_symint)
    if seen is None:
        raise ExportError(
            ExportErrorType.VIOLATION_OF_SPEC,
            f"the size {node.expr} has no upper bound and depends on data; bound it in the model "
            "with torch._check(size <= …)",
        )
    return seen


def eval_shape(shape: Iterable[Size]) -> list[int | None]:
    """`eval_expr` of every size."""
    return [eval_expr(size) for size in shape]


def eval_shape_upper_bound(shape: Iterable[Size]) -> list[int]:
    """`eval_upper_bound` of every size."""
    return [eval_upper_bound(size) for size in shape]


def collect_free_symbols(shape: Iterable[Size]) -> set[sympy.Symbol]:
    """The symbols that occur in sizes."""
    found: set[sympy.Symbol] = set()
    for size in shape:
        if isinstance(size, torch.SymInt):
            found.update(size.node.expr.free_symbols)
    return found
