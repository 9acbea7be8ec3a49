"""fuse_transposed_operand: folds a transposition of the second operand into a batch product."""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind

_TRANSPOSE_B = 1


def fuse_transposed_operand(graph: Graph) -> bool:
    """Rewrite in place; True if any transposition was folded."""
    changed = False
    for node in graph.nodes:
        if node.kind is not NodeKind.BATCH_MATRIX_MULTIPLY or node.flags & _TRANSPOSE_B:
            continue
        source = _swapped(node.input(1))
        if source is not None:
            node.inputs[1] = source
            node.flags |= _TRANSPOSE_B
            changed = True
    return changed


def _swapped(value: Value) -> Value | None:
    """The value before a swap of the last two dimensions, if this value is one."""
    before = value.producer
    if before is None or before.kind is not NodeKind.STATIC_TRANSPOSE:
        return None
    rank = value.rank
    swap = (*range(rank - 2), rank - 1, rank - 2)
    perm = before.attributes["perm"]
    if perm == swap:
        return before.input()
    return None
