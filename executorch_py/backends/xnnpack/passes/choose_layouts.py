"""choose_layouts: images are stored channels-last where that saves transpositions.

Some nodes work on channels-last images only, some on values as exported only, the others on either
as long as all they touch is alike. Which of those work how is a minimum cut: what is cut are
values, whose transposition costs about what they hold. Inputs and outputs have the caller's order
and need no transposition where that is channels-last already.
"""

from __future__ import annotations

import math

from executorch_py.backends.xnnpack.passes.minimum_cut import TwoLabels
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
# What any transposition costs, as elements moved.
_OVERHEAD = 2048


def choose_layouts(graph: Graph) -> bool:
    """Give every value a layout and insert transpositions; True if there are any."""
    changed = _order_externals(graph)
    if not any(node.needs is Needs.IMAGE for node in graph.nodes) and not any(
        _is_channels_last(value) for value in (*graph.inputs, *graph.outputs)
    ):
        return changed
    images = _Labels(graph).images()
    layouts = {node: Layout.IMAGE if node in images else Layout.NATURAL for node in graph.nodes}
    for value in graph.inputs:
        value.layout = _external_layout(value)
    for node in graph.nodes:
        for value in node.outputs:
            value.layout = layouts[node] if value.has_layout else Layout.NATURAL
    return _insert_transposes(graph, layouts) or changed


def _is_channels_last(value: Value) -> bool:
    return value.dim_order == _CHANNELS_LAST


def _external_layout(value: Value) -> Layout:
    return Layout.IMAGE if _is_channels_last(value) else Layout.NATURAL


def _order_externals(graph: Graph) -> bool:
    """Callers' memory orders other than the two layouts are explicit permutations."""
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
    """Whether a node that may work in both layouts has operands that allow channels-last."""
    rank = node.output.rank
    return node.output.has_layout and all(
        value is None
        or value.is_constant
        or (value.rank == rank and value.has_layout)
        or math.prod(upper(value.shape)) == 1
        for value in node.inputs
    )


class _Labels:
    """The minimum cut over the nodes of a graph: True is channels-last."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._cut = TwoLabels()
        self._natural = self._cut.thing(False)
        self._image = self._cut.thing(True)
        self._things = {node: self._thing(node) for node in graph.nodes}

    def _thing(self, node: Node) -> int:
        if node.needs is Needs.IMAGE:
            return self._image
        if node.needs is Needs.NATURAL:
            return self._natural
        if node.needs is Needs.FREE:
            return self._cut.thing() if node.output.has_layout else self._natural
        return self._cut.thing() if _works_either_way(node) else self._natural

    def images(self) -> set[Node]:
        """The nodes whose results are channels-last."""
        readers = self._graph.readers()
        for value in self._graph.inputs:
            self._group(value, self._external(value), readers)
        for node in self._graph.nodes:
            for value in node.outputs:
                self._group(value, self._things[node], readers)
        chosen = self._cut.true_things()
        return {node for node, thing in self._things.items() if thing in chosen}

    def _external(self, value: Value) -> int:
        return self._image if _is_channels_last(value) else self._natural

    def _group(self, value: Value, made_by: int, readers: dict[Value, list[Node]]) -> None:
        if not value.has_layout:
            return
        members = [made_by]
        if value in self._graph.outputs:
            members.append(self._external(value))
        members += [self._things[n] for n in readers.get(value, ()) if n.needs is not Needs.FREE]
        self._cut.group(members, _cost(value))


def _cost(value: Value) -> int:
    orders = (memory_order(value.rank, layout) for layout in Layout)
    if same_bytes(value.shape, *orders):
        return 1
    return _OVERHEAD + math.prod(upper(value.shape))


def _insert_transposes(graph: Graph, layouts: dict[Node, Layout]) -> bool:
    """A transposition before the first reader that needs the other layout, for all such readers."""
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
