"""choose_layouts: stores images channels-last where that saves transpositions.

Some nodes require channels-last images, some require the exported layout, and the others work in
either if all of their values have the same layout. The layouts of the latter are a minimum cut: the
cut values are transposed, at a cost of about their size. Inputs and outputs have the caller's
memory order and need no transposition if that is channels-last.
"""

from __future__ import annotations

import math

from executorch_py.backends.xnnpack.passes.minimum_cut import MinimumCut
from executorch_py.backends.xnnpack.payload.graph import (
    Graph,
    Layout,
    Needs,
    Node,
    Value,
    upper,
)
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.backends.xnnpack.payload.value_layout import memory_order, same_bytes

_CHANNELS_LAST = (0, 2, 3, 1)
# The fixed cost of a transposition, in moved elements.
_OVERHEAD = 2048


def choose_layouts(graph: Graph) -> bool:
    """Set the layout of every value and insert transpositions; True if anything changed."""
    changed = _order_externals(graph)
    if not any(node.needs is Needs.IMAGE for node in graph.nodes) and not any(
        _is_channels_last(value) for value in (*graph.inputs, *graph.outputs)
    ):
        return changed
    images = _LayoutCut(graph).images()
    layouts = {node: Layout.IMAGE if node in images else Layout.NATURAL for node in graph.nodes}
    for value in graph.inputs:
        changed |= _set_layout(value, _external_layout(value))
    for node in graph.nodes:
        for value in node.outputs:
            changed |= _set_layout(value, layouts[node] if value.has_layout else Layout.NATURAL)
    return _insert_transposes(graph, layouts) or changed


def _set_layout(value: Value, layout: Layout) -> bool:
    """True if the value had the other layout."""
    changed = value.layout is not layout
    value.layout = layout
    return changed


def _is_channels_last(value: Value) -> bool:
    return value.dim_order == _CHANNELS_LAST


def _external_layout(value: Value) -> Layout:
    return Layout.IMAGE if _is_channels_last(value) else Layout.NATURAL


def _order_externals(graph: Graph) -> bool:
    """Insert permutations for callers' memory orders other than the two layouts."""
    changed = False
    for i, value in enumerate(graph.inputs):
        order = value.dim_order
        if order is None or order in (tuple(range(value.rank)), _CHANNELS_LAST):
            continue
        given = Value(value.name, tuple(value.shape[d] for d in order), value.datatype)
        given.quantization, given.dim_order = value.quantization, tuple(range(value.rank))
        perm = tuple(order.index(d) for d in range(value.rank))
        graph.nodes.insert(0, _transpose(given, value, perm))
        graph.inputs[i], value.dim_order = given, None
        changed = True
    for i, value in enumerate(graph.outputs):
        order = value.dim_order
        if order is None or order in (tuple(range(value.rank)), _CHANNELS_LAST):
            continue
        made = Value(value.name, tuple(value.shape[d] for d in order), value.datatype)
        made.quantization, made.dim_order = value.quantization, tuple(range(value.rank))
        graph.nodes.append(_transpose(value, made, tuple(order)))
        graph.outputs[i], value.dim_order = made, None
        changed = True
    return changed


def _transpose(source: Value, result: Value, perm: tuple[int, ...]) -> Node:
    origin = source.producer.origin if source.producer is not None else None
    node = Node(NodeKind.STATIC_TRANSPOSE, [source], [result], {"perm": perm}, needs=Needs.FREE)
    node.origin, result.producer = origin, node
    return node


def _works_either_way(node: Node) -> bool:
    """Whether the operands of a node that works in both layouts allow channels-last."""
    rank = node.output.rank
    return node.output.has_layout and all(
        value is None
        or value.is_constant
        or (value.rank == rank and value.has_layout)
        or math.prod(upper(value.shape)) == 1
        for value in node.inputs
    )


class _LayoutCut:
    """The minimum cut over the nodes of a graph; nodes on the source side are channels-last."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._cut = MinimumCut()
        self._natural = self._cut.vertex(on_source_side=False)
        self._image = self._cut.vertex(on_source_side=True)
        self._vertices = {node: self._vertex(node) for node in graph.nodes}

    def _vertex(self, node: Node) -> int:
        if node.needs is Needs.IMAGE:
            return self._image
        if node.needs is Needs.NATURAL:
            return self._natural
        if node.needs is Needs.FREE:
            return self._cut.vertex() if node.output.has_layout else self._natural
        return self._cut.vertex() if _works_either_way(node) else self._natural

    def images(self) -> set[Node]:
        """The nodes whose results are channels-last."""
        readers = self._graph.readers()
        for value in self._graph.inputs:
            self._connect(value, self._external(value), readers)
        for node in self._graph.nodes:
            for value in node.outputs:
                self._connect(value, self._vertices[node], readers)
        chosen = self._cut.source_side()
        return {node for node, vertex in self._vertices.items() if vertex in chosen}

    def _external(self, value: Value) -> int:
        return self._image if _is_channels_last(value) else self._natural

    def _connect(self, value: Value, producer: int, readers: dict[Value, list[Node]]) -> None:
        """Connect the producer and the readers of a value by an edge of its transposition cost."""
        if not value.has_layout:
            return
        members = [producer]
        if value in self._graph.outputs:
            members.append(self._external(value))
        members += [self._vertices[n] for n in readers.get(value, ()) if n.needs is not Needs.FREE]
        self._cut.connect(members, _cost(value))


def _cost(value: Value) -> int:
    orders = (memory_order(value.rank, layout) for layout in Layout)
    if same_bytes(value.shape, *orders):
        return 1
    return _OVERHEAD + math.prod(upper(value.shape))


def _insert_transposes(graph: Graph, layouts: dict[Node, Layout]) -> bool:
    """Insert one transposition per value, before the first reader that needs the other layout."""
    other: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.needs is not Needs.FREE:
            for i, value in enumerate(node.inputs):
                if value is None or value.is_constant or not value.has_layout:
                    continue
                if value.layout is not layouts[node]:
                    node.inputs[i] = _in_other_layout(value, other, nodes)
        nodes.append(node)
    for i, value in enumerate(graph.outputs):
        if value.layout is not _external_layout(value):
            made = _in_other_layout(value, {}, nodes)
            made.dim_order, value.dim_order = value.dim_order, None
            graph.outputs[i] = made
    changed = len(nodes) != len(graph.nodes)
    graph.nodes = nodes
    return changed


def _in_other_layout(value: Value, made: dict[Value, Value], nodes: list[Node]) -> Value:
    if value not in made:
        layout = Layout.NATURAL if value.layout is Layout.IMAGE else Layout.IMAGE
        result = Value(value.name, value.shape, value.datatype, value.quantization, layout=layout)
        nodes.append(_transpose(value, result, tuple(range(value.rank))))
        made[value] = result
    return made[value]
