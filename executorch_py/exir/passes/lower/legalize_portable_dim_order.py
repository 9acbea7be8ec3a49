"""LegalizePortableDimOrderPass: inputs of upstream's portable kernels have layouts that these can
read.

A few kernels of upstream's runtime read row-major tensors only, so their first input is copied to
that layout. Kernels of this project read every layout and need no such copies.
"""

from __future__ import annotations

import torch
from torch import fx

from executorch_py.exir.ir.fake_values import contiguous_like, refresh_users
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.ir.tensor_spec import dim_order_from_stride
from executorch_py.exir.passes.base import Contract, GraphPass

DEFAULT_LAYOUT_ONLY = frozenset(
    {
        "aten::_adaptive_avg_pool2d",
        "aten::avg_pool2d",
        "aten::expand_copy",
        "aten::mean.dim",
        "aten::sum.dim_IntList",
    }
)


class LegalizePortableDimOrderPass(GraphPass):
    """Insert copies to row-major layout before kernels that need it."""

    contract = Contract()

    def rewrite(self, gm: fx.GraphModule) -> bool:
        fresh = [_insert_copy(gm.graph, node) for node in list(gm.graph.nodes)]
        copies = [node for node in fresh if node is not None]
        refresh_users(gm, copies)
        return bool(copies)


def _insert_copy(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    if op_key(node.target) not in DEFAULT_LAYOUT_ONLY:
        return None
    source = node.args[0]
    value = source.meta.get("val") if isinstance(source, fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    order = dim_order_from_stride(value.stride(), value.shape)
    if order == tuple(range(value.dim())):
        return None
    from executorch_py.exir.dialects.edge_ops import ops

    with graph.inserting_before(node):
        copy = graph.call_function(
            ops.edge.dim_order_ops._to_dim_order_copy.default,
            (source,),
            {"dim_order": list(range(value.dim()))},
        )
    copy.meta["val"] = contiguous_like(value)
    if "stack_trace" in node.meta:
        copy.meta["stack_trace"] = node.meta["stack_trace"]
    node.replace_input_with(source, copy)
    return copy
