"""Gives every user of a dequantised value a dequantize node of its own."""

from __future__ import annotations

import torch
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.ir.op_traits import op_key


class DuplicateDequantNodePass(torch.nn.Module):
    """Copies shared dequantize_per_tensor nodes, so that each dq → op → q pattern stands alone."""

    def forward(self, graph_module: GraphModule) -> PassResult:
        return self.call(graph_module)

    def call(self, graph_module: GraphModule) -> PassResult:
        graph, modified = graph_module.graph, False
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            if op_key(node.target) != "quantized_decomposed::dequantize_per_tensor":
                continue
            for user in list(node.users)[1:]:
                with graph.inserting_before(user):
                    copied = graph.node_copy(node, lambda n: n)
                user.replace_input_with(node, copied)
                modified = True
        if modified:
            graph_module.recompile()
        return PassResult(graph_module, modified)
