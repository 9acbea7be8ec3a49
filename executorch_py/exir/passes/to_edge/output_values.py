"""Values of output nodes: those of the nodes that a graph returns."""

from __future__ import annotations

from torch.fx import GraphModule

from executorch_py.exir.ir.fake_values import same_metadata, values_of
from executorch_py.exir.ir.graph import output_node
from executorch_py.exir.passes.base import Contract, GraphPass


class RecordOutputValues(GraphPass):
    """Set `meta["val"]` of output nodes."""

    contract = Contract()

    def rewrite(self, gm: GraphModule) -> bool:
        results = output_node(gm.graph)
        before, values = results.meta.get("val"), values_of(results.args[0])
        results.meta["val"] = values
        return before is None or not same_metadata(before, values)
