"""move_reshapes: reshapes around a product meet on one side of it, where they are one.

A product works row by row, so that reshaping its rows before or after it is the same.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Layout, Node, Symbol, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind


def move_reshapes(graph: Graph) -> bool:
    """Rewrite in place; True if any reshape was superfluous."""
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
        if _reads_source(node, before.input()) or _makes_result(
            graph, node, before, behind, readers
        ):
            changed = True
    return changed


def _reads_source(product: Node, source: Value) -> bool:
    """Let the product read what was reshaped, if its rows are the same."""
    if source.layout is not Layout.NATURAL or source.rank < 2:
        return False
    if source.shape[-1] != product.input().shape[-1]:
        return False
    shape = (*source.shape[:-1], product.output.shape[-1])
    made = product.output
    product.inputs[0] = source
    made.shape = shape
    return True


def _makes_result(
    graph: Graph, product: Node, before: Node, behind: list[Node], readers: dict[Value, list[Node]]
) -> bool:
    """Let the reshape before the product give its rows the shape that they have behind it."""
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
