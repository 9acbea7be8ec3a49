"""swap_moves: moves permutations to the side of a reshape where the value is an image.

A reshape that merges the rows of an image commutes with a permutation, and so does one that splits
a dimension into rows. An image may be channels-last in memory; the permutation then becomes
redundant when layouts are chosen.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import Graph, Needs, Node, Shape, Symbol, Value
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.backends.xnnpack.payload.value_layout import merged_dims


def swap_moves(graph: Graph) -> bool:
    """Rewrite in place; True if any two moves were swapped."""
    readers = graph.readers()
    changed = False
    for node in graph.nodes:
        before = node.input().producer if node.inputs and node.inputs[0] is not None else None
        if before is None or len(readers.get(node.input(), ())) > 1:
            continue
        if node.input() in graph.outputs:
            continue
        kinds = (before.kind, node.kind)
        if kinds == (NodeKind.STATIC_RESHAPE, NodeKind.STATIC_TRANSPOSE):
            changed |= _permute_then_merge(before, node)
        elif kinds == (NodeKind.STATIC_TRANSPOSE, NodeKind.STATIC_RESHAPE):
            changed |= _split_then_permute(before, node)
    return changed


def _permute_then_merge(merge: Node, permute: Node) -> bool:
    source, result = merge.input(), permute.output
    merged = merged_dims(source.shape, merge.output.shape)
    if merged is None or source.rank != 4:
        return False
    perm = tuple(d for out in permute.attributes["perm"] for d in merged[out])
    _set_moves(merge, permute, perm, tuple(source.shape[d] for d in perm), result)
    return True


def _set_moves(
    first: Node, second: Node, perm: tuple[int, ...], shape: Shape, result: Value
) -> None:
    """Make `first` a permutation to `shape`, and `second` a reshape of that to `result`."""
    between = Value(result.name, shape, result.datatype, result.quantization, producer=first)
    first.kind, first.attributes, first.needs = (
        NodeKind.STATIC_TRANSPOSE,
        {"perm": perm},
        Needs.FREE,
    )
    first.outputs = [between]
    second.kind, second.attributes, second.needs = NodeKind.STATIC_RESHAPE, {}, Needs.NATURAL
    second.inputs = [between]


def _split_then_permute(permute: Node, split: Node) -> bool:
    source, result = permute.input(), split.output
    merged = merged_dims(result.shape, permute.output.shape)
    if merged is None or result.rank != 4:
        return False
    perm = permute.attributes["perm"]
    # Dimension perm[i] of the source is split into the dimensions merged[i] of the result.
    order = [d for i in sorted(range(len(perm)), key=lambda i: perm[i]) for d in merged[i]]
    shape = tuple(result.shape[d] for d in order)
    if sum(isinstance(size, Symbol) for size in shape) > 1:
        return False
    between = Value(result.name, shape, result.datatype, result.quantization, producer=permute)
    permute.kind, permute.attributes, permute.needs = NodeKind.STATIC_RESHAPE, {}, Needs.NATURAL
    permute.outputs = [between]
    split.kind, split.needs = NodeKind.STATIC_TRANSPOSE, Needs.FREE
    split.attributes = {"perm": tuple(order.index(d) for d in range(result.rank))}
    split.inputs = [between]
    assert source is permute.inputs[0]
    return True
