"""sink_dequantize: makes moves work on integers, by moving conversions across them.

Reshapes, permutations, slices, padding with zeros and other moves have the same effect on integers
and floats. Dequantization moves behind them and quantization in front of them. A value that is
dequantized and quantized again with the same parameters stays quantized.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Needs, Node, PerTensor, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import Datatype, NodeKind

_MOVES = frozenset(
    {
        NodeKind.CONCATENATE_2,
        NodeKind.CONCATENATE_3,
        NodeKind.CONCATENATE_4,
        NodeKind.CONCATENATE_5,
        NodeKind.COPY,
        NodeKind.STATIC_RESHAPE,
        NodeKind.STATIC_SLICE,
        NodeKind.STATIC_TRANSPOSE,
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
    changed |= _hoist_quantize(graph)
    return _undo_pairs(graph) or changed


def _moves(node: Node) -> bool:
    """Whether a node only moves elements; padding is a move if it pads with zeros."""
    if node.kind is NodeKind.STATIC_CONSTANT_PAD:
        return bool(node.attributes["padding_value"] == 0)
    return node.kind in _MOVES


def _hoist_quantize(graph: Graph) -> bool:
    """Quantize before a move whose result is only quantized; True if anything changed."""
    hoisting, changed = _QuantizeHoisting(graph), False
    while any([hoisting.hoist(node) for node in list(graph.nodes)]):
        changed = True
    return changed


class _QuantizeHoisting:
    """Moves conversions in front of moves, and keeps track of the readers of values."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.readers = graph, graph.readers()
        self.outputs = frozenset(graph.outputs)
        self.removed: set[Node] = set()

    def hoist(self, convert: Node) -> bool:
        """Move a conversion to integers in front of the moves before it."""
        changed = False
        while (move := self._only_quantized_move(convert)) is not None:
            changed = True
            equal = self._equal_conversion(move.input(), convert)
            if len(move.inputs) == 1 and equal is None:
                self._swap(move, convert)
                # The object `move` is the conversion now; another move may be before it.
                convert = move
                continue
            self._quantize_operands(move, convert)
        return changed

    def _only_quantized_move(self, convert: Node) -> Node | None:
        """The move before a conversion to integers, if the conversion is its only reader."""
        if convert.kind is not NodeKind.CONVERT or convert.output.datatype is not Datatype.QINT8:
            return None
        if convert in self.removed:
            return None
        move = convert.input().producer
        if move is None or not _moves(move) or move.output in self.outputs:
            return None
        operands = move.inputs
        if len(operands) > 1 and any(value is None or value.is_constant for value in operands):
            return None
        return move if len(self.readers[move.output]) == 1 else None

    def _equal_conversion(self, value: Value, convert: Node) -> Node | None:
        """An existing conversion of a value with the parameters of `convert`, if there is one."""
        wanted = convert.output
        for node in self.readers[value]:
            if node.kind is not NodeKind.CONVERT or node is convert:
                continue
            made = node.output
            if (made.datatype, made.quantization) == (wanted.datatype, wanted.quantization):
                return node
        return None

    def _quantize_operands(self, move: Node, convert: Node) -> None:
        """Let a move read quantized operands and compute the result of `convert`.

        Each operand is quantized once.
        """
        nodes, readers = self.graph.nodes, self.readers
        for i, value in enumerate(move.inputs):
            assert value is not None
            made = self._equal_conversion(value, convert)
            if made is None:
                made = _conversion(value, convert)
                readers[value].append(made)
                nodes.insert(nodes.index(move), made)
            elif nodes.index(made) > nodes.index(move):
                nodes.remove(made)
                nodes.insert(nodes.index(move), made)
            move.inputs[i] = made.output
            readers[value] = [node for node in readers[value] if node is not move]
            if move not in readers.setdefault(made.output, []):  # the move may read a value twice
                readers[made.output].append(move)
        nodes.remove(convert)
        self.removed.add(convert)
        del readers[move.output]
        move.outputs = [convert.output]
        convert.output.producer = move

    def _swap(self, move: Node, convert: Node) -> None:
        """Swap a move and the conversion behind it; the node objects keep their positions."""
        source, result = move.input(), convert.output
        between = Value(
            result.name, source.shape, result.datatype, result.quantization, layout=source.layout
        )
        move.kind, convert.kind = convert.kind, move.kind
        move.attributes, convert.attributes = convert.attributes, move.attributes
        move.needs, convert.needs = convert.needs, move.needs
        move.origin, convert.origin = convert.origin, move.origin
        self.readers[between] = self.readers.pop(move.output)
        move.outputs, convert.inputs = [between], [between]
        between.producer = move


def _conversion(value: Value, like: Node) -> Node:
    how = like.output
    result = Value(how.name, value.shape, how.datatype, how.quantization, layout=value.layout)
    result.producer = Node(
        NodeKind.CONVERT, [value], [result], needs=like.needs, origin=like.origin
    )
    return result.producer


def _sources(node: Node) -> list[Value] | None:
    """The integers behind all operands of a node, if they have the same parameters."""
    sources = [quantized_source(value) for value in node.inputs]
    first = sources[0]
    if first is None:
        return None
    found = [s for s in sources if s is not None and s.quantization == first.quantization]
    return found if len(found) == len(sources) else None


def quantized_source(value: Value | None) -> Value | None:
    """The int8 value from which a value was dequantized, if it was."""
    before = value.producer if value is not None else None
    if before is None or before.kind is not NodeKind.CONVERT:
        return None
    source = before.input()
    quantized = source.datatype in (Datatype.QINT8, Datatype.QUINT8)
    return source if quantized and isinstance(source.quantization, PerTensor) else None


def _moved_behind(graph: Graph, node: Node, sources: list[Value]) -> Node:
    """Let a node work on integers, and return the dequantization of its new result."""
    result, first = node.output, sources[0]
    moved = Value(result.name, result.shape, first.datatype, first.quantization, producer=node)
    convert = Node(NodeKind.CONVERT, [moved], [result], needs=Needs.EITHER, origin=node.origin)
    result.producer = convert
    node.inputs, node.outputs = list(sources), [moved]
    return convert


def _undo_pairs(graph: Graph) -> bool:
    """Remove pairs of dequantize and quantize with the same parameters."""
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.kind is not NodeKind.CONVERT or node.output.datatype is not Datatype.QINT8:
            continue
        source = quantized_source(node.input())
        if source is not None and source.quantization == node.output.quantization:
            source = replaced.get(source, source)
            if node.output in graph.outputs and not graph.can_return(source, replaced):
                continue
            replaced[node.output] = source
    graph.replace_all(replaced)
    return bool(replaced)
