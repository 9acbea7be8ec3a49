"""move_reshapes: moves reshapes around a product to one side of it, where they are merged.

A product works row by row, so that its rows can be reshaped before or behind it.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Layout, Node, Symbol, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind


def move_reshapes(graph: Graph) -> bool:
    """Rewrite in place; True if any reshape became redundant."""
    readers = graph.readers()
    changed = False
    for node in graph.nodes:
        before = node.input().producer if node.kind is NodeKind.FULLY_CONNECTED else None
        behind = readers.get(node.output, [])
        if before is None or before.kind is not NodeKind.STATIC_RESHAPE:
            continue
        if node.output in graph.outputs or not behind:
            continue
        if any(reader.kind is not NodeKind.STATIC_RESHAPE for reader in behind):
            continue
        changed |= _skip_reshape_before(node, before.input()) or _reshape_before_only(
            graph, node, before, behind, readers
        )
    return changed


def _skip_reshape_before(product: Node, source: Value) -> bool:
    """Let the product read the value before the reshape, if its rows are the same."""
    if source.layout is not Layout.NATURAL or source.rank < 2:
        return False
    if source.shape[-1] != product.input().shape[-1]:
        return False
    shape = (*source.shape[:-1], product.output.shape[-1])
    made = product.output
    product.inputs[0] = source
    made.shape = shape
    return True


def _reshape_before_only(
    graph: Graph, product: Node, before: Node, behind: list[Node], readers: dict[Value, list[Node]]
) -> bool:
    """Let the reshape before the product make the shape of the reshape behind it."""
    result = behind[0].output
    if len(behind) > 1 or result.shape[-1] != product.output.shape[-1] or result.rank < 2:
        return False
    if len(readers[before.output]) > 1 or before.output in graph.outputs:
        return False
    if result.layout is not Layout.NATURAL or result in graph.outputs:
        return False
    shape = (*result.shape[:-1], before.output.shape[-1])
    if sum(isinstance(size, Symbol) for size in shape) > 1:
        return False
    before.output.shape = shape
    product.output.shape = result.shape
    return True
