"""Assertions on tensor metadata are erased: they are outside the core operator set.

Assertions on sizes and scalars stay until the program is lowered for the runtime.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class RemoveNonCoreAtenOpGraphAssertsPass(GraphPass):
    """Erase `_assert_tensor_metadata`."""

    contract = Contract(ensures=facts(Fact.NO_METADATA_ASSERTIONS))

    def rewrite(self, gm: GraphModule) -> bool:
        asserts = gm.graph.find_nodes(
            op="call_function", target=torch.ops.aten._assert_tensor_metadata.default
        )
        for node in asserts:
            gm.graph.erase_node(node)
        if asserts:
            gm.graph.eliminate_dead_code()
        return bool(asserts)
