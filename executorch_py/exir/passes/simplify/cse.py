"""CSEPass: common subexpressions, calls of one operator with equal arguments, are computed once.

Works on the functional graph, before results get memory, on the graph and on each control-flow body
by itself. Random operators, assertions, writes, delegates and control flow are left alone.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from executorch_py.exir.ir.op_traits import (
    ASSERTIONS,
    is_getitem,
    is_random,
    mutated_positions,
    op_key,
    op_overload,
)
from executorch_py.exir.ir.prim_ops import is_python_scalar_function
from executorch_py.exir.passes.base import Contract, GraphPass


class CSEPass(GraphPass):
    """Merge calls of one operator with equal arguments."""

    contract = Contract()

    def rewrite(self, gm: fx.GraphModule) -> bool:
        if any(_writes(node) for node in gm.graph.nodes):
            return False  # Equal operands may have different contents.
        first: dict[Any, fx.Node] = {}
        changed = False
        for node in list(gm.graph.nodes):
            if not _is_pure(node):
                continue
            key = (node.target, _key(node.args), _key(node.kwargs))
            kept = first.setdefault(key, node)
            if kept is not node:
                node.replace_all_uses_with(kept)
                gm.graph.erase_node(node)
                changed = True
        return changed


def _writes(node: fx.Node) -> bool:
    op = op_overload(node.target) if node.op == "call_function" else None
    return op is not None and bool(mutated_positions(op))


def _is_pure(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    op = op_overload(node.target)
    if op is None:
        return is_getitem(node.target) or is_python_scalar_function(node.target)
    if op_key(op) in ASSERTIONS or op_key(op) == "aten::_local_scalar_dense":
        return False  # Every item() has a symbol of its own.
    return not is_random(op) and not _makes_symbols(node) and bool(op._schema.returns)


def _makes_symbols(node: fx.Node) -> bool:
    """Whether sizes of the result are known at run time only: equal calls have unequal symbols."""
    return bool(node.meta.get("unbacked_bindings"))


def _key(value: Any) -> Any:
    """A key that is equal for equal arguments; 1, 1.0 and True differ, and 0.0 and -0.0."""
    if isinstance(value, fx.Node):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_key(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in sorted(value.items()))
    return (type(value), repr(value))


__all__ = ["CSEPass"]
