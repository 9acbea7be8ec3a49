"""Duplicates dynamic quantization chains, so that each reader of the result has its own.

A chain is: choose parameters, quantize, dequantize. Delegates that quantize dynamically need the
whole chain in one region; kernels do not. The pass runs only in scripts that call it.
"""

from __future__ import annotations

import operator

from torch import fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.ir.op_traits import CHOOSE_QPARAMS, DEQUANTIZE, QUANTIZE, op_key


class DuplicateDynamicQuantChainPass(PassBase):
    """Copies choose_qparams, quantize and dequantize for each further reader of the result."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for node in list(graph_module.graph.nodes):
            chain = _chain_to(node)
            if chain is None:
                continue
            for user in list(node.users)[1:]:
                _copy_for(graph_module.graph, chain, node, user)
                modified = True
        if modified:
            graph_module.graph.lint()
            graph_module.recompile()
        return PassResult(graph_module, modified)


def _is_call(node: object, operators: frozenset[str]) -> bool:
    return (
        isinstance(node, fx.Node)
        and node.op == "call_function"
        and op_key(node.target) in operators
    )


def _chain_to(dequantize: fx.Node) -> list[fx.Node] | None:
    """The nodes of a dynamic quantization chain that ends with a dequantize node, if it is one."""
    if not _is_call(dequantize, DEQUANTIZE):
        return None
    quantize = dequantize.args[0]
    if not isinstance(quantize, fx.Node) or not _is_call(quantize, QUANTIZE):
        return None
    items = [a for a in quantize.args if isinstance(a, fx.Node) and a.target is operator.getitem]
    choices = {item.args[0] for item in items}
    if len(choices) != 1:
        return None
    (choice,) = choices
    if not isinstance(choice, fx.Node) or not _is_call(choice, CHOOSE_QPARAMS):
        return None
    return [choice, *items, quantize, dequantize]


def _copy_for(graph: fx.Graph, chain: list[fx.Node], old: fx.Node, user: fx.Node) -> None:
    copies: dict[fx.Node, fx.Node] = {}
    with graph.inserting_before(old):
        for node in chain:
            copies[node] = graph.node_copy(node, lambda n: copies.get(n, n))
    user.replace_input_with(old, copies[old])
