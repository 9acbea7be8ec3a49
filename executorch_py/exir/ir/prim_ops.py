"""The `executorch_prim` operators: arithmetic on sizes as kernels see it, and their Python
counterparts.

Registered with torch on first use, so that importing the exporter changes nothing. The rest of the
exporter needs only the table of Python functions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch._ops import OpOverload

_BINARY = ("add", "sub", "mul", "floordiv", "truediv", "sym_max", "sym_min")
_COMPARE = ("eq", "gt", "lt", "ge", "le")
_UNARY = ("neg", "ceil", "round", "trunc", "sym_float", "sym_int", "sym_not")

_PYTHON: dict[Any, str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.truediv: "truediv",
    operator.mod: "mod",
    operator.neg: "neg",
    operator.eq: "eq",
    operator.gt: "gt",
    operator.lt: "lt",
    operator.ge: "ge",
    operator.le: "le",
    math.ceil: "ceil",
    math.trunc: "trunc",
    round: "round",
    torch.sym_float: "sym_float",
    torch.sym_int: "sym_int",
    torch.sym_max: "sym_max",
    torch.sym_min: "sym_min",
    torch.sym_not: "sym_not",
    torch.sym_ite: "sym_ite",
}

_MEANING: dict[str, Callable[..., Any]] = {name: fn for fn, name in _PYTHON.items()}


@lru_cache(maxsize=1)
def register_prim_ops() -> torch.library.Library:
    """Define the operators in torch's registry, with their eager meaning; once per process."""
    library = torch.library.Library("executorch_prim", "FRAGMENT")
    schemas = {name: "(Scalar a, Scalar b) -> Scalar" for name in _BINARY}
    schemas |= {name: "(Scalar a, Scalar b) -> bool" for name in _COMPARE}
    schemas |= {name: "(Scalar a) -> Scalar" for name in _UNARY}
    schemas["mod"] = "(SymInt a, SymInt b) -> SymInt"
    schemas["sym_ite"] = "(Scalar a, Scalar b, Scalar c) -> Scalar"
    for name, schema in schemas.items():
        library.define(f"{name}.Scalar{schema}")
        library.impl(f"{name}.Scalar", _MEANING[name], "CompositeExplicitAutograd")
    return library


def is_size_arithmetic(function: Any) -> bool:
    """Whether a graph that calls this Python function calculates with sizes."""
    return function in _PYTHON


def prim_op_for(function: Any) -> OpOverload | None:
    """The runtime operator for a Python function on sizes, or None."""
    name = _PYTHON.get(function)
    if name is None:
        return None
    register_prim_ops()
    overload: OpOverload = getattr(torch.ops.executorch_prim, name).Scalar
    return overload


def is_python_scalar_function(target: Any) -> bool:
    """Whether a call target is a Python function on numbers with an operator of its own."""
    return target in _PYTHON if callable(target) and target.__hash__ is not None else False
