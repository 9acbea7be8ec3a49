"""fuse_activation: fuses a clamp with the node before it, if the clamp is the only reader."""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind

# Kinds of nodes with an output range.
_CLAMPING = frozenset(
    {
        NodeKind.ADD,
        NodeKind.AVG_POOLING_2D,
        NodeKind.CLAMP,
        NodeKind.CONV_2D,
        NodeKind.CONV_TRANSPOSE_2D,
        NodeKind.DEPTHWISE_CONV_2D,
        NodeKind.DIV,
        NodeKind.FULLY_CONNECTED,
        NodeKind.MAX_POOLING_2D,
        NodeKind.MULTIPLY,
        NodeKind.SUBTRACT,
    }
)


def fuse_activation(graph: Graph) -> bool:
    """Fuse in place; True if any clamp was fused."""
    readers = graph.readers()
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.kind is not NodeKind.CLAMP or node.clamp is None:
            continue
        source = node.input()
        source = replaced.get(source, source)
        before = source.producer
        if before is None or before.kind not in _CLAMPING or len(readers[node.input()]) > 1:
            continue
        same = (source.datatype, source.quantization) == (
            node.output.datatype,
            node.output.quantization,
        )
        if not same or source in graph.outputs or node.input() in graph.outputs:
            continue
        low, high = node.clamp
        if before.clamp is not None:
            low, high = (min(max(bound, low), high) for bound in before.clamp)
        before.clamp = (low, high)
        replaced[node.output] = source
        readers[source] = readers.get(node.output, [])
    graph.replace_all(replaced)
    return bool(replaced)
