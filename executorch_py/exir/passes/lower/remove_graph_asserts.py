"""RemoveGraphAssertsPass: erase every assertion of the graph; no runtime evaluates them.

What only fed an assertion goes with it. Bodies of control flow are treated as well.
"""

from __future__ import annotations

from torch import fx

from executorch_py.exir.ir.graph import erase_dead_nodes
from executorch_py.exir.ir.op_traits import ASSERTIONS, op_key
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class RemoveGraphAssertsPass(GraphPass):
    """Erase assertion operators and what nothing else uses."""

    contract = Contract(ensures=facts(Fact.NO_ASSERTIONS))

    def rewrite(self, gm: fx.GraphModule) -> bool:
        doomed = [
            node
            for node in gm.graph.nodes
            if node.op == "call_function" and op_key(node.target) in ASSERTIONS
        ]
        for node in doomed:
            gm.graph.erase_node(node)
        if doomed:
            erase_dead_nodes(gm.graph)
        return bool(doomed)
