"""share_equal_nodes: common subexpression elimination over nodes."""

from __future__ import annotations

from typing import Any

from executorch_py.backends.xnnpack.payload.graph import Graph, Node, Value


def share_equal_nodes(graph: Graph) -> bool:
    """Share in place; True if any node became redundant."""
    first: dict[Any, Node] = {}
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        node.inputs = [replaced.get(v, v) if v is not None else None for v in node.inputs]
        equal = first.setdefault(_identity(node), node)
        if equal is not node and not any(value in graph.outputs for value in node.outputs):
            replaced.update(zip(node.outputs, equal.outputs, strict=True))
    graph.replace_all(replaced)
    return bool(replaced)


def _identity(node: Node) -> Any:
    outputs = tuple((v.shape, v.datatype, v.quantization) for v in node.outputs)
    attributes = tuple(sorted(node.attributes.items()))
    inputs = tuple(map(_operand, node.inputs))
    return (node.kind, inputs, attributes, node.flags, node.clamp, outputs)


def _operand(value: Value | None) -> Any:
    """The identity of an operand; constants of one element are compared by number."""
    if value is None or value.data is None or value.data.numel() != 1 or value.quantization:
        return value
    return (value.data.dtype, value.shape, value.data.item())
