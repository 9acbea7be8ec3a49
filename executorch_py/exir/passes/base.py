"""GraphRewrite: the base of passes that change an FX graph in place.

A rewrite visits a graph module and every control-flow body in it, keeps `meta["val"]` right for
what it changes, and tells the truth about whether it changed anything. It never re-traces; the
re-tracing pass for users is ExportPass in base.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.ir.graph_modules import graph_modules

# What a node inserted on behalf of another one inherits from it.
_INHERITED_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "from_node", "torch_fn")


class GraphRewrite(PassBase):
    """One rewrite of one graph; `call` applies it to all graphs and recompiles."""

    def rewrite(self, gm: GraphModule) -> bool:
        """Change the graph of `gm` (not its control-flow bodies); return whether it changed."""
        raise NotImplementedError(f"{type(self).__name__} does not define rewrite()")

    def apply(self, gm: GraphModule) -> bool:
        """Rewrite `gm` and its control-flow bodies, leaving generated code stale."""
        return any([self.rewrite(module) for module in graph_modules(gm)])

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = self.apply(graph_module)
        if modified:
            for module in graph_modules(graph_module):
                module.recompile()
        return PassResult(graph_module, modified)


def operator_calls(gm: GraphModule) -> list[Node]:
    """The nodes of `gm` that call a torch operator overload, in order."""
    return [
        node
        for node in gm.graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    ]


def inherit_meta(node: Node, source: Node) -> None:
    """Give an inserted node the origin (source lines, modules) of the node it serves."""
    for key in _INHERITED_META:
        if key in source.meta:
            node.meta[key] = source.meta[key]


def map_tensor_arguments(node: Node, fn: Any) -> bool:
    """Replace each argument in a Tensor slot by fn(argument) when that is not None."""
    schema = node.target._schema
    args, kwargs, changed = list(node.args), dict(node.kwargs), False
    for i, arg in enumerate(schema.arguments):
        if not isinstance(arg.type, torch.TensorType):
            continue
        if arg.name in kwargs:
            holder: Any = kwargs
            key: Any = arg.name
        elif not arg.kwarg_only and i < len(args):
            holder, key = args, i
        else:
            continue
        new = fn(holder[key])
        if new is not None:
            holder[key] = new
            changed = True
    if changed:
        node.args, node.kwargs = tuple(args), kwargs
    return changed
