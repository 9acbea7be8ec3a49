"""ElideSliceCopies: contiguous slices of a tensor become views of its memory.

Slices, selections, splits and unbindings along the outermost dimension become `memory.view` at an
offset; nothing is emitted for them. Some stay copies: slices at offsets that break the alignment of
planned memory, slices of tensors that may have no planned memory, slices that are read after a
write to their base, and slices of dynamic size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_py.exir import memory
from executorch_py.exir.ir.aliasing import StorageUses
from executorch_py.exir.ir.graph import all_graph_modules, is_written
from executorch_py.exir.ir.op_traits import is_getitem, op_key
from executorch_py.exir.ir.scalar_type import element_bytes
from executorch_py.exir.ir.subview import PARTITIONS, Cut, cut_of, first_element
from executorch_py.exir.ir.tensor_spec import ALIGNMENT, TensorSpec
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class ElideSliceCopies(GraphPass):
    """Replace slicing operators by views of their inputs.

    `inputs_planned` and `outputs_planned` are True if the method's inputs and outputs are sure to
    have planned memory; otherwise their memory is not shared.
    """

    contract = Contract(requires=facts(Fact.SPECS))

    def __init__(
        self,
        inputs_planned: bool = True,
        outputs_planned: bool = True,
        buffers_planned: bool = True,
        alignment: int = ALIGNMENT,
    ) -> None:
        super().__init__()
        self.inputs_planned = inputs_planned
        self.outputs_planned = outputs_planned
        self.buffers_planned = buffers_planned
        self.alignment = max(alignment, ALIGNMENT)

    def apply(self, gm: fx.GraphModule) -> bool:
        changed = False
        for module in all_graph_modules(gm):
            changed |= _Elision(module.graph, self, module is gm).run()
        return changed


class _Elision:
    def __init__(self, graph: fx.Graph, settings: ElideSliceCopies, is_method: bool) -> None:
        self.graph = graph
        self.settings = settings
        self.uses = StorageUses(graph)
        self.is_method = is_method

    def run(self) -> bool:
        changed = False
        for node in list(self.graph.nodes):
            if node.op != "call_function":
                continue
            if op_key(node.target) in PARTITIONS:
                changed |= self._view_parts(node)
                continue
            start = self._start_of(node, node, cut_of(node))
            if start is not None:
                _make_view(node, node.args[0], start)
                changed = True
        return changed

    def _view_parts(self, node: fx.Node) -> bool:
        """Make every part a view; parts that must be copied, if few, are sliced one by one."""
        parts = {user: user.args[1] for user in node.users if is_getitem(user.target)}
        if len(parts) < len(node.users):
            return False
        cuts = {user: cut_of(node, index) for user, index in parts.items()}
        starts = {user: self._start_of(node, user, cut) for user, cut in cuts.items()}
        copied = [user for user, start in starts.items() if start is None]
        if 2 * len(copied) > len(parts) or any(cuts[user] is None for user in copied):
            return False
        base = node.args[0]
        for user, start in starts.items():
            if start is not None:
                _make_view(user, base, start)
            else:
                _make_slice(user, base, cuts[user])
        self.graph.erase_node(node)
        return True

    def _start_of(self, node: fx.Node, result: fx.Node, cut: Cut | None) -> int | None:
        """The first element of a result inside its base; None if it may not be a view."""
        base, spec = node.args[0] if node.args else None, result.meta.get("spec")
        base_spec = base.meta.get("spec") if isinstance(base, fx.Node) else None
        if cut is None or not isinstance(spec, TensorSpec) or not isinstance(base_spec, TensorSpec):
            return None
        if not spec.is_static_shape_tensor or spec.dtype is not base_spec.dtype:
            return None
        start = first_element(base_spec, cut, spec)
        if start is None or (start * element_bytes(spec.dtype)) % self.settings.alignment:
            return None
        root = base_spec.storage_root()
        if not self._may_share(root) or is_written(result):
            return None
        if result in self.uses.outputs and not self._may_leave(root):
            return None
        return None if self.uses.written_while_read(result, root) else start

    def _may_share(self, root: TensorSpec) -> bool:
        """Whether a storage is sure to be planned memory."""
        if root.const or root.is_dynamic_unbound_tensor:
            return False
        if not self.is_method:
            return root not in self.uses.inputs
        if root in self.uses.inputs:
            return self.settings.inputs_planned and self.settings.buffers_planned
        returned = any(
            s.storage_root() is root
            for node in self.uses.outputs
            for s in [node.meta.get("spec")]
            if isinstance(s, TensorSpec)
        )
        return self.settings.outputs_planned or not returned

    def _may_leave(self, root: TensorSpec) -> bool:
        """Whether a method may return a part of a storage."""
        return self.is_method and self.settings.outputs_planned and root not in self.uses.inputs


def _make_view(node: fx.Node, base: Any, start: int) -> None:
    spec, base_spec = node.meta["spec"], base.meta["spec"]
    spec.storage_base = base_spec
    spec.storage_base_offset = start * element_bytes(spec.dtype)
    spec.lifetime = base_spec.lifetime
    node.target = memory.view
    node.args, node.kwargs = (base, list(spec.shape), start, list(spec.stride)), {}


def _make_slice(node: fx.Node, base: Any, cut: Cut | None) -> None:
    """Make a part a slice, which is copied."""
    assert cut is not None
    if cut.removes_dim:
        node.target = torch.ops.aten.select_copy.int
        node.args = (base, cut.dim, cut.start)
    else:
        node.target = torch.ops.aten.slice_copy.Tensor
        node.args = (base, cut.dim, cut.start, cut.start + cut.length)
