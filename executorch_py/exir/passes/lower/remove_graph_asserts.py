"""RemoveGraphAssertsPass: erase every assertion of the graph; no runtime evaluates them.

What only fed an assertion goes with it. Bodies of control flow are treated as well.
"""

from __future__ import annotations

from torch import fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.ir.graph import all_graph_modules, erase_dead_nodes
from executorch_py.exir.ir.op_traits import ASSERTIONS, op_key


class RemoveGraphAssertsPass(PassBase):
    """Erase assertion operators and what nothing else uses."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        changed = False
        for module in all_graph_modules(graph_module):
            doomed = [
                node
                for node in module.graph.nodes
                if node.op == "call_function" and op_key(node.target) in ASSERTIONS
            ]
            for node in doomed:
                module.graph.erase_node(node)
            if doomed:
                erase_dead_nodes(module.graph)
                changed = True
        return PassResult(graph_module, changed)
