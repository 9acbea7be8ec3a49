"""SplitGraph: marks between the layers of a language model, at which a delegate cuts its graph.

Before the first call of each chosen layer comes `llama::fallback`, which copies. Names, arguments
and keys of the result are upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.passes.user.export_pass import ExportPass, PassResult
from executorch_py.extension.llm.custom_ops import op_fallback as op_fallback

_LAYER = r"layers\.(\d+)"
# Keys of upstream's pass manager for Qualcomm's delegate, and of the meta that it reads.
_ACTIVATE, _DEFAULTS = "activate", "args_kwargs_defaults"
_QUANTIZATION = "quant_attrs"


class SplitGraph(ExportPass):
    """Insert `llama::fallback` between each of these layers and the one before.

    `pattern` finds the number of a layer in the name of a node's module. `layer_prefix_offsets`
    adds an offset to the numbers below a prefix, for models of several decoders.
    """

    def __init__(
        self,
        shard_layers: Sequence[int],
        pattern: str = _LAYER,
        layer_prefix_offsets: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.shard_layers = shard_layers
        self.pattern = pattern
        self.layer_prefix_offsets = dict(layer_prefix_offsets or {})

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        previous: tuple[fx.Node, int] | None = None
        for node in list(graph_module.graph.nodes):
            layer = self._layer_of(node)
            if layer is None:
                continue
            if previous and layer in self.shard_layers and previous[1] == layer - 1:
                _mark(graph_module.graph, previous[0])
                modified = True
            previous = node, layer
        if modified:
            graph_module.recompile()
        return PassResult(graph_module, modified)

    def _layer_of(self, node: fx.Node) -> int | None:
        stack = node.meta.get("nn_module_stack") if node.op == "call_function" else None
        if not stack:
            return None
        name = str(list(stack.values())[-1][0])
        for prefix, offset in self.layer_prefix_offsets.items():
            if found := re.match(rf"{re.escape(prefix)}\.(\d+)", name):
                return int(found[1]) + offset
        found = re.search(self.pattern, name)
        return int(found[1]) if found else None


def _mark(graph: fx.Graph, node: fx.Node) -> None:
    """Let all readers of a node read a copy of it."""
    users = list(node.users)
    with graph.inserting_after(node):
        mark = graph.call_function(ops.edge.llama.fallback.default, (node,))
    mark.meta["val"] = node.meta["val"]
    if _QUANTIZATION in node.meta:
        mark.meta[_QUANTIZATION] = node.meta[_QUANTIZATION]
    for user in users:
        user.replace_input_with(node, mark)


def _first_layers(num_layers: int, shares: int) -> list[int]:
    if not 1 <= shares <= num_layers:
        raise ValueError(f"shares: expected 1 to {num_layers}, the number of layers, got {shares}")
    return list(range(0, num_layers, num_layers // shares))


def split_graph(
    edge_program: ExportedProgram,
    num_layers: int,
    shares: int,
    pattern: str = _LAYER,
    layer_prefix_offsets: Mapping[str, int] | None = None,
) -> PassResult:
    """Mark the graph of an edge program, in place, for this many parts of equal size."""
    layers = _first_layers(num_layers, shares)
    marks = SplitGraph(layers, pattern, layer_prefix_offsets)
    return marks.call(edge_program.graph_module)


def get_split_graph_pass(
    num_layers: int,
    shares: int,
    pattern: str = _LAYER,
    layer_prefix_offsets: Mapping[str, int] | None = None,
) -> tuple[type[SplitGraph], dict[str, Any]]:
    """The pass and its arguments, as upstream's pass manager takes them."""
    arguments: dict[str, Any] = {
        "shard_layers": _first_layers(num_layers, shares),
        "pattern": pattern,
    }
    if layer_prefix_offsets:
        arguments["layer_prefix_offsets"] = layer_prefix_offsets
    return SplitGraph, {_ACTIVATE: True, _DEFAULTS: arguments}


__all__ = ["SplitGraph", "get_split_graph_pass", "split_graph"]
