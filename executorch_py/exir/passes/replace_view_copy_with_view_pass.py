"""ReplaceViewCopyWithViewPass: a `view_copy` whose bytes are those of its base needs no copy.

Such a node becomes `memory.view`; its spec uses the base's memory. Static views vanish at emission,
dynamic ones cost a pointer assignment. Kept as real copies: graph outputs, views of constants, and
views that would see a later write to their base.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.ir.graph import all_graph_modules, flat_outputs, nodes_in
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_facts import (
    mutated_positions,
    op_overload,
)
from executorch_py.exir.ir.tensor_spec import TensorSpec, make_view_spec


class ReplaceViewCopyWithViewPass(PassBase):
    """Replace `view_copy` by `memory.view` wherever sharing the memory is sound."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        changed = _Elision(graph_module).run()
        for module in _bodies(graph_module):
            changed |= _Elision(module).run()
        return PassResult(graph_module, changed)


def _bodies(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    modules = all_graph_modules(gm)
    next(modules)
    yield from modules


class _Elision:
    def __init__(self, gm: fx.GraphModule) -> None:
        self.graph = gm.graph
        self.position = {node: i for i, node in enumerate(gm.graph.nodes)}
        self.outputs = {leaf for leaf in flat_outputs(gm.graph) if isinstance(leaf, fx.Node)}
        self.writes = self._writes_by_storage()
        self.renamed: dict[TensorSpec, TensorSpec] = {}

    def run(self) -> bool:
        changed = False
        for node in list(self.graph.nodes):
            if is_call(node, "aten::view_copy") and self._can_share(node):
                self._share(node)
                changed = True
        return changed

    def _writes_by_storage(self) -> dict[TensorSpec, list[int]]:
        writes: dict[TensorSpec, list[int]] = {}
        for node, position in self.position.items():
            op = op_overload(node.target) if node.op == "call_function" else None
            for index in mutated_positions(op) if op is not None else ():
                for written in nodes_in(node.args[index] if index < len(node.args) else None):
                    spec = written.meta.get("spec")
                    if isinstance(spec, TensorSpec):
                        writes.setdefault(spec.storage_root(), []).append(position)
        return writes

    def _can_share(self, node: fx.Node) -> bool:
        base, spec = argument(node, "self"), node.meta.get("spec")
        if node in self.outputs or not isinstance(base, fx.Node):
            return False
        if node.meta.get("spec") in self.writes and (
            base.op == "placeholder" or len(base.users) > 1
        ):
            return False  # a copy that is written to, while others know the original
        base_spec = base.meta.get("spec")
        if not isinstance(spec, TensorSpec) or not isinstance(base_spec, TensorSpec):
            return False
        if base_spec.const or spec.dtype is not base_spec.dtype:
            return False
        if spec.is_static_shape_tensor != base_spec.is_static_shape_tensor:
            return False
        if not _row_major(spec) or not _row_major(base_spec):
            return False
        if spec.is_static_shape_tensor and spec.nbytes() != base_spec.nbytes():
            return False
        return not self._written_while_used(node, base_spec.storage_root())

    def _written_while_used(self, node: fx.Node, storage: TensorSpec) -> bool:
        writes = self.writes.get(storage, [])
        if not writes:
            return False
        first, last = self.position[node], self._last_use(node)
        return any(first < write <= last for write in writes)

    def _last_use(self, node: fx.Node) -> int:
        last = self.position[node]
        for user in node.users:
            forwards = user.target is memory.view or is_call(user, "aten::view_copy")
            last = max(last, self._last_use(user) if forwards else self.position[user])
        return last

    def _share(self, node: fx.Node) -> None:
        base, spec = argument(node, "self"), node.meta["spec"]
        size = list(argument(node, "size"))
        view = make_view_spec(base.meta["spec"], spec.shape)
        node.target, node.args, node.kwargs = memory.view, (base, size), {}
        node.meta["spec"] = view
        self._rename(node, spec, view)

    def _rename(self, node: fx.Node, old: TensorSpec, new: TensorSpec) -> None:
        """Results that shared the old spec object (in-place operators) follow to the new one."""
        for user in node.users:
            if user.meta.get("spec") is old:
                user.meta["spec"] = new
            elif isinstance(user.meta.get("spec"), tuple):
                user.meta["spec"] = pytree.tree_map(
                    lambda s: new if s is old else s, user.meta["spec"]
                )


def _row_major(spec: TensorSpec) -> bool:
    return spec.dim_order == tuple(range(len(spec.shape)))
