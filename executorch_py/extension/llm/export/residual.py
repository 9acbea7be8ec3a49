"""Sums of a residual and a product with packed weights, as one call.

    x + qlinear_groups(…)

The product is added while it is in the cache, with the same bits.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from executorch_py.exir.ir.match import is_call, only_user

_PRODUCT = "executorch_py::qlinear_groups"
_RESIDUAL = 11  # its argument


def fuse_residuals(module: GraphModule) -> None:
    """Moves sums of a captured graph into the products before them."""
    for node in list(module.graph.nodes):
        if not is_call(node, _PRODUCT) or len(node.args) != _RESIDUAL:
            continue
        total = only_user(node)
        if total is None or not is_call(total, "aten::add.Tensor") or total.kwargs:
            continue
        a, b = total.args
        residual = b if a is node else a
        if not isinstance(residual, Node) or residual is node or not _are_alike(residual, node):
            continue
        with module.graph.inserting_before(total):
            arguments = (*node.args, residual)
            fused = module.graph.call_function(node.target, arguments, dict(node.kwargs))
        fused.meta = dict(total.meta)
        total.replace_all_uses_with(fused)
        for old in (total, node):
            module.graph.erase_node(old)
    module.recompile()


def _are_alike(a: Node, b: Node) -> bool:
    """Whether two tensors have the same sizes and f32."""
    x, y = a.meta["val"], b.meta["val"]
    same_type = x.dtype is y.dtype is torch.float32
    return same_type and tuple(map(str, x.shape)) == tuple(map(str, y.shape))
