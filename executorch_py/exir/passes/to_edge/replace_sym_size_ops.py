"""Operator packets that read sizes (`aten.sym_size`) become the overloads that they call."""

from __future__ import annotations

from torch.fx import GraphModule

from executorch_py.exir.dialects.sym_ops import SYM_PACKETS
from executorch_py.exir.passes.base import Contract, GraphPass


class ReplaceSymSizeOpPass(GraphPass):
    """Packets of sym_size, sym_stride and sym_numel become overloads."""

    contract = Contract()

    def rewrite(self, gm: GraphModule) -> bool:
        modified = False
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target in SYM_PACKETS:
                node.target = SYM_PACKETS[node.target]
                modified = True
        return modified
