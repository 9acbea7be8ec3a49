"""sink_dequantize: elements are moved about while quantized: quantized before, dequantized behind.

Reshapes, permutations, slices, padding with zeros and the like do the same to quantized elements as
to floats. What is quantized again with the parameters it had is left as it is.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.graph import Graph, Needs, Node, PerTensor, Value
from executorch_py.backends.xnnpack.serialize import Datatype, NodeKind

_MOVES = frozenset(
    {
        *(NodeKind.STATIC_RESHAPE, NodeKind.STATIC_TRANSPOSE, NodeKind.STATIC_SLICE),
        *(NodeKind.CONCATENATE_2, NodeKind.CONCATENATE_3, NodeKind.CONCATENATE_4),
        *(NodeKind.CONCATENATE_5, NodeKind.COPY),
    }
)


def sink_dequantize(graph: Graph) -> bool:
    """Rewrite in place; True if anything changed."""
    changed = False
    position = 0
    while position < len(graph.nodes):
        node = graph.nodes[position]
        if _moves(node) and (sources := _sources(node)) is not None:
            graph.nodes.insert(position + 1, _moved_behind(graph, node, sources))
            changed = True
        position += 1
    changed |= _quantize_before_moves(graph)
    return _undo_pairs(graph) or changed


def _moves(node: Node) -> bool:
    """Whether a node does the same to integers; they can be padded with zero exactly."""
    if node.kind is NodeKind.STATIC_CONSTANT_PAD:
        return bool(node.attributes["padding_value"] == 0)
    return node.kind in _MOVES


def _quantize_before_moves(graph: Graph) -> bool:
    """What is only quantized after a move is quantized before it."""
    readers = graph.readers()
    changed = False
    for convert in list(graph.nodes):
        while convert.kind is NodeKind.CONVERT and convert.output.datatype is Datatype.QINT8:
            move = convert.input().producer
            if move is None or not _moves(move) or len(move.inputs) > 1:
                break
            if len(readers.get(move.output, ())) > 1 or move.output in graph.outputs:
                break
            _swap(move, convert)
            # The node in the move's place is the conversion now; another move may be before it.
            convert, changed = move, True
            readers[convert.output] = [
                node for node in graph.nodes if convert.output in node.inputs
            ]
    return changed


def _swap(move: Node, convert: Node) -> None:
    """`move` then `convert` become conversion then move, each in the other's place."""
    source, result = move.input(), convert.output
    between = Value(
        result.name, source.shape, result.datatype, result.quantization, layout=source.layout
    )
    move.kind, convert.kind = convert.kind, move.kind
    move.attributes, convert.attributes = convert.attributes, move.attributes
    move.needs, convert.needs = convert.needs, move.needs
    move.origin, convert.origin = convert.origin, move.origin
    move.outputs, convert.inputs = [between], [between]
    between.producer = move


def _sources(node: Node) -> list[Value] | None:
    """What the node's operands were dequantized from, all with the same parameters."""
    sources = [quantized_source(value) for value in node.inputs]
    first = sources[0]
    if first is None:
        return None
    found = [s for s in sources if s is not None and s.quantization == first.quantization]
    return found if len(found) == len(sources) else None


def quantized_source(value: Value | None) -> Value | None:
    """The int8 value that a value is the float form of."""
    before = value.producer if value is not None else None
    if before is None or before.kind is not NodeKind.CONVERT:
        return None
    source = before.input()
    quantized = source.datatype in (Datatype.QINT8, Datatype.QUINT8)
    return source if quantized and isinstance(source.quantization, PerTensor) else None


def _moved_behind(graph: Graph, node: Node, sources: list[Value]) -> Node:
    """Let the node work on `sources`; returns the conversion that makes its old result."""
    result, first = node.output, sources[0]
    moved = Value(result.name, result.shape, first.datatype, first.quantization, producer=node)
    convert = Node(NodeKind.CONVERT, [moved], [result], needs=Needs.EITHER, origin=node.origin)
    result.producer = convert
    node.inputs, node.outputs = list(sources), [moved]
    return convert


def _undo_pairs(graph: Graph) -> bool:
    """Let readers of what was dequantized and quantized alike read the quantized value."""
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.kind is not NodeKind.CONVERT or node.output.datatype is not Datatype.QINT8:
            continue
        source = quantized_source(node.input())
        if source is not None and source.quantization == node.output.quantization:
            if node.output in graph.outputs and (source in graph.inputs or source in graph.outputs):
                continue
            replaced[node.output] = source
    graph.replace_all(replaced)
    return bool(replaced)
