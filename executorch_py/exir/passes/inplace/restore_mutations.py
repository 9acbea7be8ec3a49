"""RestoreMutations: custom operators update their tensors in place again.

Export wraps an operator such as `update_cache(value, cache!)` in `auto_functionalized`, which
returns a new cache. Here the operator is called on the tensor itself, so that a buffer is updated
in place. It updates a copy if the old contents, or a view of them, are read afterwards or must not
change (constants, inputs that are not written back). Relies on torch's encoding of the wrapped
call; knows no operator.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import mutation_targets, source_line
from executorch_py.exir.ir.op_traits import (
    RESHAPES,
    SOMETIMES_RESHAPES,
    higher_order_name,
    is_getitem,
    mutated_positions,
    op_key,
)
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

WRAPPERS = frozenset({"auto_functionalized", "auto_functionalized_v2"})
_BASES = "_all_bases"


class RestoreMutations(Pass):
    """Call wrapped operators on the tensors that they update; names in the signature follow."""

    contract = Contract(
        requires=facts(Fact.FUNCTIONAL),
        ensures=facts(Fact.PLAIN_MUTATIONS),
        ends=facts(Fact.FUNCTIONAL),
    )

    def run(self, program: ExportedProgram) -> bool:
        graph = program.graph_module.graph
        wrapped = [n for n in graph.nodes if higher_order_name(n.target) in WRAPPERS]
        changeable = set(mutation_targets(program).values())
        with program.graph_module._set_replace_hook(program.graph_signature.get_replace_hook()):
            for node in wrapped:
                _restore(graph, node, changeable)
        return bool(wrapped)


def _restore(graph: fx.Graph, node: fx.Node, changeable: set[str]) -> None:
    op = node.args[0]
    assert isinstance(op, OpOverload)
    written = [op._schema.arguments[i].name for i in mutated_positions(op)]
    plain = {
        arg.name: node.kwargs[arg.name] for arg in op._schema.arguments if arg.name in node.kwargs
    }
    bases, base_of = _bases(node, op, written)
    used = [
        base
        if base is None or _may_be_written(base, node, changeable)
        else _clone(graph, node, base)
        for base in bases
    ]
    for name in written:
        position = base_of[name]
        plain[name] = None if position is None else used[position]
    with graph.inserting_before(node):
        call = graph.call_function(op, *_arguments(op, plain))
    n_returns = len(op._schema.returns)
    values = node.meta.get("val")
    call.meta.update(node.meta)
    if values is not None:
        call.meta["val"] = values[0] if n_returns == 1 else tuple(values[:n_returns])
    for user in list(node.users):
        index = user.args[1] if is_getitem(user.target) else None
        assert isinstance(index, int)
        if index >= max(1, n_returns):  # without returns, entry 0 is None
            user.replace_all_uses_with(used[index - max(1, n_returns)])
        elif n_returns == 1:
            user.replace_all_uses_with(call)
        else:
            user.update_arg(0, call)
            continue
        graph.erase_node(user)
    graph.erase_node(node)


def _bases(
    node: fx.Node, op: OpOverload, written: list[str]
) -> tuple[list[fx.Node | None], dict[str, int | None]]:
    """The tensors that are updated, and the position among them of each written argument."""
    if _BASES not in node.kwargs:  # auto_functionalized: an entry for each argument
        return [_node(node.kwargs[name]) for name in written], {n: i for i, n in enumerate(written)}
    listed: Any = node.kwargs[_BASES]
    positions: dict[str, int | None] = {}
    for name in written:
        details = [key for key in node.kwargs if key.startswith(f"_{name}_")]
        if details not in ([f"_{name}_base_index"], [f"_{name}_base_index", f"_{name}_alias"]):
            raise _view_error(node, op, name)
        index: Any = node.kwargs[f"_{name}_base_index"]
        positions[name] = index
    return [_node(base) for base in listed], positions


def _node(value: Any) -> fx.Node | None:
    return value if isinstance(value, fx.Node) else None


def _view_error(node: fx.Node, op: OpOverload, name: str) -> ExportError:
    where = source_line(node)
    return ExportError(
        ExportErrorType.NOT_SUPPORTED,
        f"{op_key(op)} (node {node.name})"
        + (f" at {where}" if where else "")
        + f" updates a tensor in place: expected a whole tensor as argument '{name}', got a view. "
        "Give each part a buffer of its own, or update the part out of place.",
    )


def _arguments(op: OpOverload, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position where the schema allows it, the others by keyword."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for arg in op._schema.arguments:
        if arg.name not in given:
            if not arg.has_default_value():
                raise ExportError(
                    ExportErrorType.VIOLATION_OF_SPEC,
                    f"{op_key(op)}: expected an argument '{arg.name}', got none",
                )
            given[arg.name] = arg.default_value
        if arg.kwarg_only:
            kwargs[arg.name] = given[arg.name]
        else:
            args.append(given[arg.name])
    return tuple(args), kwargs


def _clone(graph: fx.Graph, node: fx.Node, base: fx.Node) -> fx.Node:
    with graph.inserting_before(node):
        copy = graph.call_function(torch.ops.aten.clone.default, (base,))
    copy.meta.update({k: v for k, v in base.meta.items() if k in ("val", "stack_trace")})
    return copy


def _may_be_written(base: fx.Node, node: fx.Node, changeable: set[str]) -> bool:
    owner = _owner(base)
    if owner.op == "placeholder":
        if owner.name not in changeable:
            return False
    elif owner.op != "call_function" or higher_order_name(owner.target):
        return False
    others = [a for a in node.all_input_nodes if a is not base]
    if any(_owner(other) is owner for other in others):
        return False
    return not _read_later(owner, node)


def _may_share(node: fx.Node) -> bool:
    """Whether a node's result may share the memory of its input."""
    key = op_key(node.target)
    return key in RESHAPES or key in SOMETIMES_RESHAPES or is_getitem(node.target)


def _owner(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and _may_share(node) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _read_later(owner: fx.Node, node: fx.Node) -> bool:
    """Whether the old contents, or a view of them, are read after `node` or returned."""
    position = {n: i for i, n in enumerate(node.graph.nodes)}
    stack, seen = [owner], {node}
    while stack:
        for user in stack.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if position[user] > position[node] or user.op == "output":
                return True
            if _may_share(user):
                stack.append(user)
    return False
