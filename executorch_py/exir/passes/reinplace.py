"""reinplace_pass: a functional operator whose first input dies becomes its in-place form.

By default `index_put` on a mutable buffer: instead of filling a fresh tensor of the buffer's size
and copying it back, the few indexed elements are written where they belong. Safe when nothing reads
the old contents afterwards, views included, and the input is a mutable buffer or a temporary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_py.exir.ir.graph import flat_outputs, mutation_targets, placeholders
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_facts import (
    RESHAPES,
    SOMETIMES_RESHAPES,
    higher_order_name,
    is_getitem,
    mutated_positions,
    op_key,
    op_overload,
)

DEFAULT_INPLACEABLE_OPS: frozenset[str] = frozenset({"aten::index_put"})


def reinplace_pass(
    ep: ExportedProgram,
    ops_to_inplace: Iterable[Any] | None = None,
    inplace_overrides: Mapping[Any, Any] | None = None,
) -> ExportedProgram:
    """Rewrite in place; `ops_to_inplace` holds operators (edge or ATen) or their names."""
    wanted = _names(DEFAULT_INPLACEABLE_OPS if ops_to_inplace is None else ops_to_inplace)
    overrides = {op_key(k): v for k, v in (inplace_overrides or {}).items()}
    return _Reinplace(ep, wanted, overrides).run()


def _names(ops: Iterable[Any]) -> set[str]:
    return {op if isinstance(op, str) else op_key(op) for op in ops}


@cache
def inplace_variant(op: OpOverload) -> OpOverload | None:
    """`name_` with the same arguments, writing its first one."""
    namespace, _, name = op._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    wanted = [(a.name, str(a.real_type)) for a in op._schema.arguments]
    for overload in packet.overloads() if packet is not None else ():
        candidate: OpOverload = getattr(packet, overload)
        found = [(a.name, str(a.real_type)) for a in candidate._schema.arguments]
        if found == wanted and mutated_positions(candidate) == (0,):
            return candidate
    return None


class _Reinplace:
    def __init__(self, ep: ExportedProgram, wanted: set[str], overrides: dict[str, Any]) -> None:
        self.ep = ep
        self.wanted = wanted
        self.overrides = overrides
        self.graph = ep.graph_module.graph
        self.position = {node: i for i, node in enumerate(self.graph.nodes)}
        by_name = {node.name: node for node in placeholders(self.graph)}
        outputs = flat_outputs(self.graph)
        # value that the signature writes back → the placeholder it is written to
        self.write_back = {outputs[i]: by_name[name] for i, name in mutation_targets(ep).items()}
        self.user_outputs = {
            value for i, value in enumerate(outputs) if i not in mutation_targets(ep)
        }

    def run(self) -> ExportedProgram:
        for node in list(self.graph.nodes):
            if node.op != "call_function" or op_key(node.target) not in self.wanted:
                continue
            target = self._inplace_target(node)
            if target is not None and self._is_safe(node) and self._fit_values(node):
                node.target = target
        return self.ep

    def _fit_values(self, node: fx.Node) -> bool:
        """Kernels for in-place `index_put` take one index vector and values of the full shape.

        Values that need broadcasting are expanded first; False where that form cannot be reached.
        """
        if op_key(node.target) != "aten::index_put":
            return True
        indices, values = argument(node, "indices"), argument(node, "values")
        given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        if len(given) != 1 or argument(node, "accumulate"):
            return False
        dim, index = given[0]
        vector, target = index.meta["val"], node.meta["val"]
        if vector.dim() != 1 or vector.dtype not in (torch.int32, torch.int64):
            return False
        shape = [*target.shape[:dim], vector.shape[0], *target.shape[dim + 1 :]]
        value = values.meta["val"]
        if list(value.shape) == shape:
            return True
        if not all(isinstance(size, int) for size in shape):
            return False
        with self.graph.inserting_before(node):
            expanded = self.graph.call_function(torch.ops.aten.expand_copy.default, (values, shape))
        expanded.meta["val"] = value.new_empty(shape)
        if "stack_trace" in node.meta:
            expanded.meta["stack_trace"] = node.meta["stack_trace"]
        node.update_arg(2, expanded)
        self.position[expanded] = self.position[node]
        return True

    def _inplace_target(self, node: fx.Node) -> Any:
        key = op_key(node.target)
        if key in self.overrides:
            return self.overrides[key]
        op = op_overload(node.target)
        return inplace_variant(op) if op is not None else None

    def _is_safe(self, node: fx.Node) -> bool:
        written = node.args[0]
        if not isinstance(written, fx.Node) or not _same_type(written, node):
            return False
        owner = _owner(written)
        if owner.op == "placeholder" and not self._ends_in(node, owner):
            return False
        if owner.op not in ("placeholder", "call_function") or _shares_unknown_memory(owner):
            return False
        others = [a for a in node.all_input_nodes if a is not written]
        if any(_owner(other) is owner for other in others):
            return False
        return not self._read_later(owner, node)

    def _ends_in(self, node: fx.Node, placeholder: fx.Node) -> bool:
        """Whether the result, after further candidates, is what the placeholder is to hold in the
        end.
        """
        while self.write_back.get(node) is not placeholder:
            following = [
                user
                for user in node.users
                if op_key(user.target) in self.wanted and user.args and user.args[0] is node
            ]
            if len(following) != 1:
                return False
            node = following[0]
        return node not in self.user_outputs

    def _read_later(self, owner: fx.Node, node: fx.Node) -> bool:
        """Whether the old contents, under any name, are read after `node` or leave the graph."""
        limit = self.position[node]
        stack, seen = [owner], {node}
        while stack:
            for user in stack.pop().users:
                if user in seen:
                    continue
                seen.add(user)
                if self.position[user] > limit or user.op == "output":
                    return True
                if _may_share(user):
                    stack.append(user)
        return False


def _same_type(a: fx.Node, b: fx.Node) -> bool:
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return False
    return x.dtype is y.dtype and x.shape == y.shape and x.stride() == y.stride()


def _may_share(node: fx.Node) -> bool:
    """Whether a node's result may be given the memory of its input."""
    key = op_key(node.target)
    if key in RESHAPES or key in SOMETIMES_RESHAPES or is_getitem(node.target):
        return True
    op = op_overload(node.target)
    return op is None or bool(mutated_positions(op))


def _owner(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and _may_share(node) and node.args:
        source = node.args[0]
        if not isinstance(source, fx.Node) or higher_order_name(node.target):
            break
        node = source
    return node


def _shares_unknown_memory(owner: fx.Node) -> bool:
    return bool(higher_order_name(owner.target))
