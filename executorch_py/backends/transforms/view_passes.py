"""Passes over views for users' backends: fewer of them, or operators on single dimensions.

Names are upstream's. A partition for XNNPACK has passes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import fx
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.dialects.quantized_ops import register_quantized_ops
from executorch_py.exir.passes.user.export_pass import ExportPass

__all__ = [
    "CollapseViewCopyPass",
    "FuseCascadedViewOps",
    "FuseViewCopyTransform",
    "Rank0ToRank1Pass",
    "ViewCopyToSqueezeUnsqueezePass",
]

# Operators must exist before the tables below name them; an import makes the first.
assert DimOrderOpsMap
register_quantized_ops()
_aten: Any = ops.edge.aten
_VIEW = _aten.view_copy.default
_MOVES = ("alias_copy", "clone", "_to_copy")
_ROUNDS = ("abs", "ceil", "clamp", "floor", "neg", "relu", "round", "sign")
_CURVES = ("exp", "gelu", "log", "reciprocal", "rsqrt", "sigmoid", "silu", "sqrt", "tanh")
_ELEMENTWISE = (*_MOVES, *_ROUNDS, *_CURVES)


def _views(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if n.op == "call_function" and n.target == _VIEW]


def _finish(gm: fx.GraphModule, modified: bool) -> PassResult:
    if modified:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return PassResult(gm, modified)


class CollapseViewCopyPass(ExportPass):
    """A view of a view that nothing else reads becomes one view, or none if shapes are equal."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for node in _views(graph_module.graph):
            parent: Any = node.args[0]
            if parent.target != _VIEW or len(parent.users) != 1:
                continue
            source = parent.args[0]
            if _same_shape(source, node):
                node.replace_all_uses_with(source)
            else:
                node.replace_input_with(parent, source)
            modified = True
        return _finish(graph_module, modified)


def _same_shape(one: fx.Node, other: fx.Node) -> bool:
    try:
        return bool(one.meta["val"].shape == other.meta["val"].shape)
    except Exception:  # sizes that depend on data cannot be compared
        return False


class FuseCascadedViewOps(ExportPass):
    """A view of a view reads what the first view reads."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for node in _views(graph_module.graph):
            parent: Any = node.args[0]
            if parent.target == _VIEW:
                node.replace_input_with(parent, parent.args[0])
                modified = True
        return _finish(graph_module, modified)


class FuseViewCopyTransform(ExportPass):
    """The first view of a chain of views and element-wise operators takes the last one's shape.

    Subclasses may change the operators.
    """

    VIEW_OP = _VIEW
    UNARY_ELEMENTWISE_OPS: ClassVar[list[Any]] = [
        *(getattr(_aten, name).default for name in _ELEMENTWISE),
        ops.edge.dim_order_ops._clone_dim_order.default,
        ops.edge.dim_order_ops._to_dim_order_copy.default,
        ops.edge.quantized_decomposed.quantize_per_tensor.default,
        ops.edge.quantized_decomposed.dequantize_per_tensor.default,
    ]

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for node in _views(graph_module.graph):
            later = self._later_views(node)
            if later:
                node.args = (node.args[0], later[-1].args[1])
                for view in later:
                    view.replace_all_uses_with(view.args[0])
                graph_module.graph.eliminate_dead_code()
                modified = True
        if modified:
            graph_module.recompile()
            graph_module = super().call(graph_module).graph_module
        return PassResult(graph_module, modified)

    def _later_views(self, start: fx.Node) -> list[fx.Node]:
        """The views after `start` in its chain, whose nodes have one reader each."""
        found: list[fx.Node] = []
        allowed = [*self.UNARY_ELEMENTWISE_OPS, self.VIEW_OP]
        node = start
        while len(node.users) == 1:
            node = next(iter(node.users))
            if node.op != "call_function" or node.target not in allowed:
                break
            if node.target == self.VIEW_OP:
                found.append(node)
        return found if start.users else []


class ViewCopyToSqueezeUnsqueezePass(ExportPass):
    """Views that remove or add dimensions of size 1 become squeezes and unsqueezes."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for view in _views(graph_module.graph):
            source: Any = view.args[0]
            before, after = list(source.meta["val"].shape), list(view.args[1])
            squeezed, unsqueezed = _removed(before, after), _added(before, after)
            if squeezed:
                self._replace(graph_module.graph, view, _aten.squeeze_copy.dims, squeezed)
            elif unsqueezed:
                self._replace(graph_module.graph, view, _aten.unsqueeze_copy.default, unsqueezed)
            modified |= bool(squeezed or unsqueezed)
        if modified:
            graph_module.recompile()
            graph_module = super().call(graph_module).graph_module
        return PassResult(graph_module, modified)

    def _replace(self, graph: fx.Graph, view: fx.Node, target: Any, dims: Any) -> None:
        with graph.inserting_before(view):
            made = graph.call_function(target, (view.args[0], dims))
        made.meta = view.meta
        view.replace_all_uses_with(made)
        graph.erase_node(view)


def _removed(before: Sequence[Any], after: Sequence[Any]) -> list[int]:
    """The dimensions of size 1 that a view removes, if it does nothing else.

    Upstream: none if the last dimension is one of them.
    """
    rest, removed = list(after), []
    for dim, size in enumerate(before):
        if rest and size == rest[0]:
            rest.pop(0)
        elif rest and size == 1:
            removed.append(dim)
        else:
            return []
    return removed if not rest else []


def _added(before: Sequence[Any], after: Sequence[Any]) -> int | None:
    """The dimension of size 1 that a view adds, if it does nothing else; -1 for the last.

    Upstream: None for the first dimension.
    """
    if len(after) != len(before) + 1:
        return None
    fits = [
        dim
        for dim, size in enumerate(after)
        if size == 1 and [*after[:dim], *after[dim + 1 :]] == list(before)
    ]
    if not fits or max(fits) == 0:
        return None
    return -1 if max(fits) == len(before) else max(fits)


class Rank0ToRank1Pass(ExportPass):
    """Values of inputs without dimensions get the shape [1, 1]."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for node in graph_module.graph.find_nodes(op="placeholder"):
            value = node.meta["val"]
            if getattr(value, "shape", None) == ():
                node.meta["val"] = value.reshape(1, 1)
                modified = True
        return PassResult(graph_module, modified)
