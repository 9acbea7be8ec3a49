"""hoist_slices: moves slices in front of permutations and reshapes, and into products.

If all readers of a permutation or of a splitting reshape are slices, each slice is computed first
and only its elements are moved. If only slices of a product with constant weights are read, each
slice becomes a product with those rows of the weights: the queries, keys and values of attention.
"""

from __future__ import annotations

from executorch_py.backends.xnnpack.payload.graph import (
    Graph,
    Needs,
    Node,
    PerChannel,
    PerGroup,
    Quantization,
    Shape,
    Symbol,
    Value,
)
from executorch_py.backends.xnnpack.payload.payload_flatbuffer import NodeKind
from executorch_py.backends.xnnpack.payload.value_layout import merged_dims

# Kernels do not fill their vector registers with fewer columns.
_MIN_COLUMNS = 16


def hoist_slices(graph: Graph) -> bool:
    """Rewrite in place until nothing changes; True if anything did."""
    changed = False
    while _hoist_once(graph):
        graph.drop_dead()
        changed = True
    return changed


def _hoist_once(graph: Graph) -> bool:
    readers = graph.readers()
    for node in graph.nodes:
        slices = readers.get(node.output, [])
        if not slices or any(s.kind is not NodeKind.STATIC_SLICE for s in slices):
            continue
        if node.output in graph.outputs:
            continue
        made: list[list[Node]] | None = None
        if node.kind is NodeKind.STATIC_TRANSPOSE:
            made = [_before_transpose(node, s) for s in slices]
        elif node.kind is NodeKind.STATIC_RESHAPE:
            made = _all([_before_reshape(node, s) for s in slices])
        elif node.kind is NodeKind.FULLY_CONNECTED and _covers_once(node, slices):
            made = _all([_part_of_product(node, s) for s in slices])
        if made is not None:
            _replace(graph, dict(zip(slices, made, strict=True)))
            return True
    return False


def _all(made: list[list[Node] | None]) -> list[list[Node]] | None:
    found = [nodes for nodes in made if nodes is not None]
    return found if len(found) == len(made) else None


def _replace(graph: Graph, replacements: dict[Node, list[Node]]) -> None:
    graph.nodes = [new for node in graph.nodes for new in replacements.get(node, [node])]
    for nodes in replacements.values():
        for node in nodes:
            for value in node.outputs:
                value.producer = node


def _slice_then(
    part: Node, source: Value, offsets: tuple[int, ...], shape: Shape, move: NodeKind
) -> list[Node]:
    """A slice of `source`, followed by a move to the result of `part`."""
    result = part.output
    between = Value(result.name, shape, result.datatype, result.quantization)
    first = Node(NodeKind.STATIC_SLICE, [source], [between], {"offsets": offsets})
    second = Node(move, [between], [result], needs=Needs.FREE)
    first.origin = second.origin = part.origin
    return [first, second]


def _before_transpose(transpose: Node, part: Node) -> list[Node]:
    perm = transpose.attributes["perm"]
    back = [perm.index(d) for d in range(len(perm))]
    offsets = tuple(part.attributes["offsets"][i] for i in back)
    shape = tuple(part.output.shape[i] for i in back)
    made = _slice_then(part, transpose.input(), offsets, shape, NodeKind.STATIC_TRANSPOSE)
    made[1].attributes["perm"] = perm
    return made


def _before_reshape(reshape: Node, part: Node) -> list[Node] | None:
    """The slice before a reshape, if it takes whole blocks of one dimension."""
    source, split = reshape.input(), reshape.output
    merged = merged_dims(split.shape, source.shape)
    if merged is None:
        return None
    cut = [d for d in range(split.rank) if split.shape[d] != part.output.shape[d]]
    if len(cut) != 1:
        return None
    dim = next(i for i, dims in enumerate(merged) if cut[0] in dims)
    sizes = [split.shape[d] for d in merged[dim]]
    at = merged[dim].index(cut[0])
    if any(size != 1 for size in sizes[:at]) or any(isinstance(s, Symbol) for s in sizes):
        return None
    block = 1
    for size in sizes[at + 1 :]:
        assert isinstance(size, int)
        block *= size
    taken = part.output.shape[cut[0]]
    assert isinstance(taken, int)
    offset = part.attributes["offsets"][cut[0]] * block
    offsets = tuple(offset if d == dim else 0 for d in range(source.rank))
    shape = (*source.shape[:dim], taken * block, *source.shape[dim + 1 :])
    if sum(isinstance(size, Symbol) for size in part.output.shape) > 1:
        return None
    made = _slice_then(part, source, offsets, shape, NodeKind.STATIC_RESHAPE)
    made[1].needs = Needs.NATURAL
    return made


# ---- products


def _covers_once(product: Node, slices: list[Node]) -> bool:
    """Whether the slices are wide, of the last dimension only, and no more than all of it."""
    last = product.output.rank - 1
    total = 0
    for part in slices:
        others = zip(part.output.shape[:-1], product.output.shape[:-1], strict=True)
        size = part.output.shape[last]
        if any(a != b for a, b in others) or not isinstance(size, int) or size < _MIN_COLUMNS:
            return False
        total += size
    whole = product.output.shape[last]
    return isinstance(whole, int) and total <= whole


def _part_of_product(product: Node, part: Node) -> list[Node] | None:
    weight, bias = product.input(1), product.inputs[2]
    if weight.data is None or product.flags or (bias is not None and bias.data is None):
        return None
    start, size = part.attributes["offsets"][-1], part.output.shape[-1]
    assert isinstance(size, int)
    inputs = [product.inputs[0], _rows(weight, start, size)]
    made = Node(
        NodeKind.FULLY_CONNECTED,
        [*inputs, None if bias is None else _rows(bias, start, size)],
        [part.output],
        clamp=product.clamp,
        needs=product.needs,
        origin=product.origin,
    )
    return [made]


def _rows(value: Value, start: int, size: int) -> Value:
    assert value.data is not None
    how: Quantization | None = value.quantization
    if isinstance(how, PerChannel):
        how = PerChannel(how.scales.reshape(-1)[start : start + size], how.axis)
    elif isinstance(how, PerGroup):
        scales = how.scales.reshape(value.data.shape[0], -1)[start : start + size]
        how = PerGroup(scales, how.group_size)
    return Value(
        value.name,
        (size, *value.shape[1:]),
        value.datatype,
        how,
        data=value.data.narrow(0, start, size),
        is_weight=True,
        external_tag=value.external_tag,
    )
