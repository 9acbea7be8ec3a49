"""Torch operators become edge operators; nodes are renamed after them.

Operators on numbers and assertions stay (dialects/sym_ops.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from executorch_py.exir.dialects.edge_ops import EdgeOpOverload, edge_op
from executorch_py.exir.dialects.sym_ops import KEPT_AS_TORCH_OPS
from executorch_py.exir.passes.base import (
    Contract,
    Fact,
    GraphPass,
    facts,
    operator_calls,
)


def aten_to_edge(aten_op: torch._ops.OpOverload) -> EdgeOpOverload:
    """The edge form of a torch operator overload of any library."""
    return edge_op(aten_op)


def should_lower_to_edge(op: Any) -> bool:
    """Whether `op` is an operator that the edge dialect represents by an edge operator."""
    return isinstance(op, torch._ops.OpOverload) and op not in KEPT_AS_TORCH_OPS


class OpReplacePass(GraphPass):
    """Retarget every torch operator overload to its edge form."""

    contract = Contract(ensures=facts(Fact.EDGE), ends=facts(Fact.ATEN))

    def rewrite(self, gm: GraphModule) -> bool:
        modified = False
        for node in operator_calls(gm):
            if not should_lower_to_edge(node.target):
                continue
            op = edge_op(node.target)
            node.target = op
            node._rename(gm.graph._target_to_str(op))
            modified = True
        return modified
