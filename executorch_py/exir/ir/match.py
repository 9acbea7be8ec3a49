"""Arguments of operator nodes by name, whether they are positional or keyword arguments.

Only this module maps a node's args onto its operator's schema, defaults included.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from executorch_py.exir.ir.op_traits import op_key, op_overload

_ABSENT = object()


def argument(node: fx.Node, name: str, default: Any = _ABSENT) -> Any:
    """The argument `name` of an operator node, or its schema default."""
    op = op_overload(node.target)
    if op is None:
        raise TypeError(f"node {node.name}: expected a call of an operator, got {node.op}")
    if name in node.kwargs:
        return node.kwargs[name]
    for position, arg in enumerate(op._schema.arguments):
        if arg.name == name:
            if position < len(node.args):
                return node.args[position]
            return arg.default_value if arg.has_default_value() else None
    if default is not _ABSENT:
        return default
    raise KeyError(f"{op} has no argument {name}")


def is_call(node: Any, *keys: str) -> bool:
    """Whether `node` calls one of the operators named."""
    return isinstance(node, fx.Node) and node.op == "call_function" and op_key(node.target) in keys


def only_user(node: fx.Node) -> fx.Node | None:
    """The single user of a node, if there is exactly one."""
    return next(iter(node.users)) if len(node.users) == 1 else None
