"""ConcatInPlace: operands of `cat` are computed in the memory of its result.

A concatenation along the outermost dimension in memory puts its operands one after another. An
operand that an operator computes, and whose memory nothing else determines, is placed inside the
result, so that it need not be copied. Other operands (inputs of the method, constants, a tensor
that occurs twice) are copied into the result one by one, provided that these are the smaller part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_py.exir import memory
from executorch_py.exir.ir.aliasing import StorageUses, specs_of
from executorch_py.exir.ir.graph import all_graph_modules, flat_outputs
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import is_getitem, is_inplace, op_overload, out_arguments
from executorch_py.exir.ir.tensor_spec import ALIGNMENT, TensorSpec, make_view_spec
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class ConcatInPlace(GraphPass):
    """Place the operands of a `cat` along the outermost dimension inside its result."""

    contract = Contract(requires=facts(Fact.SPECS))

    def __init__(self, outputs_planned: bool = True, alignment: int = ALIGNMENT) -> None:
        super().__init__()
        self.outputs_planned = outputs_planned
        self.alignment = max(alignment, ALIGNMENT)

    def apply(self, gm: fx.GraphModule) -> bool:
        changed = False
        for module in all_graph_modules(gm):
            returns = self.outputs_planned and module is gm
            changed |= _Concatenation(module.graph, self.alignment, returns).run()
        return changed


class _Concatenation:
    def __init__(self, graph: fx.Graph, alignment: int, may_return_parts: bool) -> None:
        self.graph = graph
        self.alignment = alignment
        self.may_return_parts = may_return_parts
        self.uses = StorageUses(graph)
        self.computed = {
            spec for node in graph.nodes if _computes_into_memory(node) for spec in specs_of(node)
        }
        self.returned = {
            spec.storage_root()
            for leaf in flat_outputs(graph)
            if isinstance(leaf, fx.Node)
            for spec in specs_of(leaf)
        }

    def run(self) -> bool:
        changed = False
        for node in list(self.graph.nodes):
            if is_call(node, "aten::cat") and self._concatenate(node):
                changed = True
        return changed

    def _concatenate(self, node: fx.Node) -> bool:
        parts, whole = argument(node, "tensors"), node.meta.get("spec")
        if not isinstance(whole, TensorSpec) or not self._is_movable(whole):
            return False
        specs = [part.meta.get("spec") for part in parts]
        if not all(isinstance(s, TensorSpec) and _fits_in(s, whole) for s in specs):
            return False
        if not _is_outermost(whole, argument(node, "dim")):
            return False
        offsets = _offsets(specs)
        if any(offset % self.alignment for offset in offsets):
            return False
        owned: dict[TensorSpec, int] = {}
        for i, spec in enumerate(specs):
            root = spec.storage_root()
            if root not in owned and root is not whole and self._may_move(spec, root):
                owned[root] = i
        placed = set(owned.values())
        moved = sum(specs[i].nbytes() for i in placed)
        if not placed or 2 * moved < whole.nbytes():
            return False
        self._place(node, list(parts), offsets, placed)
        return True

    def _is_movable(self, spec: TensorSpec) -> bool:
        """Whether a tensor's memory is planned, and no operator writes to it in place."""
        if not spec.is_static_shape_tensor or spec.const or spec.nbytes() == 0:
            return False
        root = spec.storage_root()
        if root in self.returned and not self.may_return_parts:
            return False
        return not self.uses.writes(root) and not self.uses.is_updated(spec)

    def _may_move(self, spec: TensorSpec, root: TensorSpec) -> bool:
        """Whether a part is a whole storage that this graph computes and that may be moved."""
        return (
            root in self.computed
            and root.nbytes() == spec.nbytes()
            and root.is_static_shape_tensor
            and self._is_movable(root)
        )

    def _place(self, node: fx.Node, parts: list[Any], offsets: list[int], placed: set[int]) -> None:
        whole = node.meta["spec"]
        for i, offset in enumerate(offsets):
            if i in placed:
                root = parts[i].meta["spec"].storage_root()
                root.storage_base, root.storage_base_offset = whole, offset
                root.lifetime = whole.lifetime
            else:
                parts[i] = self._copy_into(node, parts[i], offset)
        node.target, node.args, node.kwargs = memory.concat, (parts, argument(node, "dim")), {}

    def _copy_into(self, node: fx.Node, part: fx.Node, offset: int) -> fx.Node:
        """A copy of a part, at its offset in the result."""
        own = part.meta["spec"]
        with self.graph.inserting_before(node):
            copy = self.graph.call_function(
                torch.ops.aten.view_copy.default, (part, list(own.shape))
            )
        copy.meta.update({k: v for k, v in node.meta.items() if k not in ("val", "spec")})
        copy.meta["val"] = part.meta.get("val")
        copy.meta["spec"] = make_view_spec(node.meta["spec"], own.shape, offset)
        return copy


def _computes_into_memory(node: fx.Node) -> bool:
    """Whether a node's results are memory that the planner will reserve for it."""
    if node.op != "call_function":
        return False
    if is_getitem(node.target):
        source = node.args[0]
        return isinstance(source, fx.Node) and _computes_into_memory(source)
    op = op_overload(node.target)
    return op is not None and not is_inplace(op) and not out_arguments(op)


def _fits_in(part: TensorSpec, whole: TensorSpec) -> bool:
    return (
        part.dtype is whole.dtype
        and part.is_static_shape_tensor
        and part.nbytes() > 0
        and len(part.shape) == len(whole.shape)
        and _is_row_major(part)
        and _is_row_major(whole)
    )


def _is_row_major(spec: TensorSpec) -> bool:
    return tuple(spec.dim_order) == tuple(range(len(spec.shape)))


def _is_outermost(spec: TensorSpec, dim: int) -> bool:
    return all(size == 1 for size in spec.shape[: dim % len(spec.shape)])


def _offsets(specs: list[TensorSpec]) -> list[int]:
    offsets, end = [], 0
    for spec in specs:
        offsets.append(end)
        end += spec.nbytes()
    return offsets
