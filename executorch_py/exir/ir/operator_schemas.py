"""Schemas of operators by name, out arguments of a call, and contexts for code without dispatch.

Names and arguments are upstream's, for scripts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

__all__ = [
    "extract_out_arguments",
    "format_schema_name",
    "get_schema_for_operators",
    "no_dispatch",
    "setting_python_recursive_limit",
]

_PREFIX = "torch.ops."
_NO_SCHEMA = "<No Schema Found>"


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Run code below torch's Python dispatch."""
    guard = torch._C._DisableTorchDispatch()
    try:
        yield
    finally:
        del guard


def format_schema_name(schema: Any) -> str:
    """The name of an operator, with its overload if that has a name."""
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def get_schema_for_operators(ops: Iterable[str]) -> dict[str, str]:
    """Name (`aten::cat.default`) to schema, for names such as `torch.ops.aten.cat.default`."""
    found = {}
    for op in ops:
        namespace, dot, rest = op.removeprefix(_PREFIX).partition(".")
        name = f"{namespace}::{rest}" if op.startswith(_PREFIX) and dot else op
        packet = name.rpartition(".")[0]
        schemas = torch._C._jit_get_schemas_for_operator(packet) if packet else []
        by_name = {f"{s.name}.{s.overload_name or 'default'}": str(s) for s in schemas}
        found[name] = by_name.get(name, _NO_SCHEMA)
    return found


def extract_out_arguments(schema: Any, keyword_args: Mapping[str, Any]) -> Any:
    """The out argument of a call as a pair of name and value; a list of pairs if not one."""
    names = [a.name for a in schema.arguments if a.is_out and a.name in keyword_args]
    if not names and "out" in keyword_args:
        names = ["out"]
    pairs = [(name, keyword_args[name]) for name in names]
    return pairs[0] if len(pairs) == 1 else pairs


@contextmanager
def setting_python_recursive_limit(limit: int = 10000) -> Iterator[None]:
    """Raise Python's limit of recursion, for pickles of large modules."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, before))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
