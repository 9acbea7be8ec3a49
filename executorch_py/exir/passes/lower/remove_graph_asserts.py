"""RemoveGraphAssertsPass: every assertion of the graph is erased; no runtime evaluates them.

Calls that only an assertion reads go with it, in bodies of control flow as well.
"""

from __future__ import annotations

from torch import fx

from executorch_py.exir.ir.graph import erase_dead_nodes
from executorch_py.exir.ir.op_traits import ASSERTIONS, op_key
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class RemoveGraphAssertsPass(GraphPass):
    """Erase assertion operators and the calls that only they read."""

    contract = Contract(ensures=facts(Fact.NO_ASSERTIONS))

    def rewrite(self, gm: fx.GraphModule) -> bool:
        asserts = [
            node
            for node in gm.graph.nodes
            if node.op == "call_function" and op_key(node.target) in ASSERTIONS
        ]
        for node in asserts:
            gm.graph.erase_node(node)
        if asserts:
            erase_dead_nodes(gm.graph)
        return bool(asserts)
