"""In-place operators and their functional forms, and which tensors a call may overwrite.

A call overwrites its first argument. Results of views and of in-place operators share the memory
of their first argument; the tensor at the end of that chain owns it. Knows schemas and graphs, no
kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

import torch
from torch import fx
from torch._ops import OpOverload

from executorch_py.exir.ir.op_traits import (
    RESHAPES,
    SOMETIMES_RESHAPES,
    higher_order_name,
    is_getitem,
    mutated_positions,
    op_key,
    op_overload,
)


@cache
def inplace_variant(op: OpOverload) -> OpOverload | None:
    """`name_` with the same arguments, writing its first one."""
    for candidate in _overloads(op, f"{op._schema.name}_"):
        if _arguments(candidate) == _arguments(op) and mutated_positions(candidate) == (0,):
            return candidate
    return None


@cache
def functional_variant(op: OpOverload) -> OpOverload | None:
    """The operator whose in-place form is `op`, or None."""
    if mutated_positions(op) != (0,) or not op._schema.name.endswith("_"):
        return None
    for candidate in _overloads(op, op._schema.name.removesuffix("_")):
        if _arguments(candidate) == _arguments(op) and not mutated_positions(candidate):
            return candidate
    return None


def _overloads(op: OpOverload, name: str) -> list[OpOverload]:
    packet = getattr(getattr(torch.ops, op.namespace), name.partition("::")[2], None)
    return [getattr(packet, overload) for overload in packet.overloads()] if packet else []


def _arguments(op: OpOverload) -> list[tuple[str, str]]:
    return [(arg.name, str(arg.real_type)) for arg in op._schema.arguments]


def may_share(node: fx.Node) -> bool:
    """Whether a node's result may share the memory of its input."""
    key = op_key(node.target)
    if key in RESHAPES or key in SOMETIMES_RESHAPES or is_getitem(node.target):
        return True
    op = op_overload(node.target)
    return op is None or bool(mutated_positions(op))


def owner_of(node: fx.Node) -> fx.Node:
    """The tensor whose memory a node's result may share, at the end of all views."""
    while node.op == "call_function" and may_share(node) and node.args:
        source = node.args[0]
        if not isinstance(source, fx.Node) or higher_order_name(node.target):
            break
        node = source
    return node


def is_read_after(
    owner: fx.Node, limit: int, position: Mapping[fx.Node, int], ignored: Collection[fx.Node]
) -> bool:
    """Whether a tensor is read after a position or returned, not counting `ignored` nodes and
    what depends on them.
    """
    stack, seen = [owner], set(ignored)
    while stack:
        for user in stack.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if position[user] > limit or user.op == "output":
                return True
            if may_share(user):
                stack.append(user)
    return False
