"""merge_moves: merges consecutive reshapes and permutations, and removes identities and copies."""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Node, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.backends.xnnpack.payload.value_layout import memory_shape


def merge_moves(graph: Graph) -> bool:
    """Rewrite in place; True if anything changed."""
    changed = False
    replaced: dict[Value, Value] = {}
    for node in graph.nodes:
        node.inputs = [replaced.get(v, v) if v is not None else None for v in node.inputs]
        if node.kind is NodeKind.STATIC_TRANSPOSE:
            changed |= _merge_transposes(node)
        if node.kind is NodeKind.STATIC_RESHAPE:
            changed |= _merge_reshapes(node)
        if node.kind is NodeKind.COPY or _is_identity(node):
            source = node.input()
            if _can_replace(graph, source, node.output, replaced):
                replaced[node.output] = source
    graph.replace_all(replaced)
    return bool(replaced) or changed


def _merge_transposes(node: Node) -> bool:
    before = node.input().producer
    if before is None or before.kind is not NodeKind.STATIC_TRANSPOSE:
        return False
    inner = before.attributes["perm"]
    node.attributes["perm"] = tuple(inner[d] for d in node.attributes["perm"])
    node.inputs = list(before.inputs)
    return True


def _merge_reshapes(node: Node) -> bool:
    before = node.input().producer
    if before is None or before.kind is not NodeKind.STATIC_RESHAPE:
        return False
    node.inputs = list(before.inputs)
    return True


def _is_identity(node: Node) -> bool:
    if node.kind is NodeKind.STATIC_TRANSPOSE:
        perm = node.attributes["perm"]
        same = node.input().layout is node.output.layout
        return same and list(perm) == list(range(len(perm)))
    if node.kind is not NodeKind.STATIC_RESHAPE:
        return False
    return memory_shape(node.input()) == memory_shape(node.output)


def _can_replace(graph: Graph, source: Value, result: Value, replaced: dict[Value, Value]) -> bool:
    """Whether `source` can replace `result`; each output of the graph stays a separate value."""
    if source.shape != result.shape or source.layout is not result.layout:
        return False
    return result not in graph.outputs or graph.can_return(source, replaced)
