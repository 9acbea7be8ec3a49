"""Sizes of 0 that an exported program allows and its delegates refuse.

A dimension without `min` in torch.export may be 0, which is rarely intended. Backends whose class
sets `runs_empty_tensors` to False refuse tensors without elements. Relies on the shapes that
delegate calls were traced with; knows no single backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.exir.backend.backend_details import BackendDetails
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.op_traits import is_delegate_call

Bounds = Mapping[sympy.Symbol, tuple[int, int]]


def refused_when_empty(program: ExportedProgram, bounds: Bounds) -> dict[sympy.Symbol, str]:
    """Symbols of sizes that may be 0 where a delegate refuses 0, with the delegate's backend."""
    found: dict[sympy.Symbol, str] = {}
    upper = {symbol: high for symbol, (_, high) in bounds.items()}
    for backend, expression in _delegate_sizes(program):
        for symbol in expression.free_symbols & bounds.keys():
            low, high = bounds[symbol]
            if low == 0 < high and expression.subs({**upper, symbol: 0}) == 0:
                found.setdefault(symbol, backend)
    return found


def _delegate_sizes(program: ExportedProgram) -> Iterator[tuple[str, Any]]:
    """Backend and dynamic size (an expression) of each tensor at a delegate that refuses 0."""
    refusing = {c.__name__ for c in BackendDetails.__subclasses__() if not c.runs_empty_tensors}
    seen: set[tuple[str, Any]] = set()
    for gm in graph_modules(program.graph_module):
        for node in gm.graph.nodes:
            if not is_delegate_call(node.target):
                continue
            backend = getattr(gm, node.args[0].target).backend_id
            for size in _dynamic_sizes(node) if backend in refusing else ():
                if (backend, size) not in seen:
                    seen.add((backend, size))
                    yield backend, size


def _dynamic_sizes(call: fx.Node) -> Iterator[Any]:
    examples = [arg.meta.get("val") for arg in call.all_input_nodes] + [call.meta.get("val")]
    for value in pytree.tree_leaves(examples):
        if isinstance(value, torch.Tensor):
            yield from (size.node.expr for size in value.shape if not isinstance(size, int))
