"""ReplaceViewCopyWithViewPass: a `view_copy` becomes a view that shares the memory of its base.

Such a node becomes `memory.view`; its spec uses the base's memory, and a view that has no spec yet
gets one. Static views vanish at emission, dynamic ones cost a pointer assignment. Some stay copies:
returned views of the method's inputs and constants, returned views where outputs may be unplanned,
and views that are read after a write to their base.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.ir.aliasing import StorageUses
from executorch_py.exir.ir.graph import all_graph_modules
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.tensor_spec import TensorSpec, make_view_spec
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class ReplaceViewCopyWithViewPass(GraphPass):
    """Replace `view_copy` by `memory.view` wherever sharing the memory is sound.

    `outputs_planned` is True if outputs are sure to have planned memory, so that a method may
    return a view of a tensor that it computed.
    """

    contract = Contract(requires=facts(Fact.SPECS))

    def __init__(self, outputs_planned: bool = False) -> None:
        super().__init__()
        self.outputs_planned = outputs_planned

    def apply(self, gm: fx.GraphModule) -> bool:
        changed = False
        for module in all_graph_modules(gm):
            returns_views = self.outputs_planned and module is gm
            changed |= _Elision(module, returns_views).run()
        return changed


class _Elision:
    def __init__(self, gm: fx.GraphModule, returns_views: bool) -> None:
        self.graph = gm.graph
        self.uses = StorageUses(gm.graph)
        self.returns_views = returns_views

    def run(self) -> bool:
        changed = False
        for node in list(self.graph.nodes):
            if not is_call(node, "aten::view_copy"):
                continue
            if "spec" not in node.meta and isinstance(node.meta.get("val"), torch.Tensor):
                node.meta["spec"] = TensorSpec.from_tensor(node.meta["val"])
                changed = True
            if self._can_share(node):
                self._share(node)
                changed = True
        return changed

    def _can_share(self, node: fx.Node) -> bool:
        base, spec = argument(node, "self"), node.meta.get("spec")
        base_spec = base.meta.get("spec") if isinstance(base, fx.Node) else None
        if not isinstance(spec, TensorSpec) or not isinstance(base_spec, TensorSpec):
            return False
        if self.uses.is_updated(spec) and (base.op == "placeholder" or len(base.users) > 1):
            return False  # the copy is written to, and the original is read by others
        if node in self.uses.outputs and not self._may_leave(spec, base_spec):
            return False
        if base_spec.const and (self.uses.is_updated(spec) or not spec.is_static_shape_tensor):
            return False
        if spec.dtype is not base_spec.dtype:
            return False
        if spec.is_static_shape_tensor != base_spec.is_static_shape_tensor:
            return False
        if not _row_major(spec) or not _row_major(base_spec):
            return False
        if spec.is_static_shape_tensor and spec.nbytes() != base_spec.nbytes():
            return False
        return not self.uses.written_while_read(node, base_spec.storage_root())

    def _may_leave(self, spec: TensorSpec, base: TensorSpec) -> bool:
        """Whether the method may return a view; only one of planned memory that it computed."""
        root = base.storage_root()
        computed = root not in self.uses.inputs and not root.const
        return self.returns_views and spec.is_static_shape_tensor and computed

    def _share(self, node: fx.Node) -> None:
        base, spec = argument(node, "self"), node.meta["spec"]
        size = list(argument(node, "size"))
        view = make_view_spec(base.meta["spec"], spec.shape)
        node.target, node.args, node.kwargs = memory.view, (base, size), {}
        node.meta["spec"] = view
        self._rename(node, spec, view)

    def _rename(self, node: fx.Node, old: TensorSpec, new: TensorSpec) -> None:
        """Give the new spec to results that shared the old one, those of in-place operators."""
        for user in node.users:
            if user.meta.get("spec") is old:
                user.meta["spec"] = new
            elif isinstance(user.meta.get("spec"), tuple):
                user.meta["spec"] = pytree.tree_map(
                    lambda s: new if s is old else s, user.meta["spec"]
                )


def _row_major(spec: TensorSpec) -> bool:
    return spec.dim_order == tuple(range(len(spec.shape)))
