"""Dead code elimination over a graph module and its control-flow bodies."""

from __future__ import annotations

from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.ir.graph_modules import graph_modules


def dead_code_elimination_pass(graph_module: GraphModule) -> PassResult:
    """Erase nodes that nothing uses and that have no effect."""
    modified = False
    for module in graph_modules(graph_module):
        if module.graph.eliminate_dead_code():
            module.recompile()
            modified = True
    return PassResult(graph_module, modified)
