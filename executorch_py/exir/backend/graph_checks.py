"""Checks of graphs, for partitioners and to_backend."""

from __future__ import annotations

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import has_free_symbols


def is_identical_graph(graph_left: fx.GraphModule, graph_right: fx.GraphModule) -> bool:
    """Whether two graphs have the same calls with the same arguments, node by node."""
    left, right = list(graph_left.graph.nodes), list(graph_right.graph.nodes)
    if len(left) != len(right):
        return False
    position = {node: i for i, node in enumerate(left)}
    position_right = {node: i for i, node in enumerate(right)}
    return all(
        a.op == b.op
        and a.target == b.target
        and [position[n] for n in a.all_input_nodes]
        == [position_right[n] for n in b.all_input_nodes]
        for a, b in zip(left, right, strict=True)
    )


def is_shape_dynamic(node: fx.Node) -> bool:
    """Whether a size of the node's value is symbolic."""
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and bool(has_free_symbols(value.shape))
