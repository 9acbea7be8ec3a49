"""transpose_to_reshape: replaces permutations that move only dimensions of size 1 by reshapes."""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Needs, Node, Symbol
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.backends.xnnpack.payload.value_layout import order_of, same_bytes


def transpose_to_reshape(graph: Graph) -> bool:
    """Rewrite in place, after layouts are chosen; True if any permutation became a reshape."""
    changed = False
    for node in graph.nodes:
        if node.kind is NodeKind.STATIC_TRANSPOSE and _keeps_bytes(node):
            node.kind, node.attributes, node.needs = NodeKind.STATIC_RESHAPE, {}, Needs.NATURAL
            changed = True
    return changed


def _keeps_bytes(node: Node) -> bool:
    source, result = node.input(), node.output
    perm = node.attributes["perm"]
    moved = tuple(None if d is None else perm[d] for d in order_of(result))
    symbols = sum(isinstance(size, Symbol) for size in result.shape)
    identity = list(perm) == list(range(len(perm))) and source.layout is result.layout
    return not identity and symbols <= 1 and same_bytes(source.shape, order_of(source), moved)
