"""Dead code elimination over a graph module and its control-flow bodies."""

from __future__ import annotations

from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.passes.base import Contract, GraphPass


class EliminateDeadCode(GraphPass):
    """Erase nodes that nothing uses and that have no effect."""

    contract = Contract()

    def rewrite(self, gm: GraphModule) -> bool:
        return bool(gm.graph.eliminate_dead_code())


def dead_code_elimination_pass(graph_module: GraphModule) -> PassResult:
    """EliminateDeadCode under upstream's name."""
    return EliminateDeadCode().call(graph_module)
