"""Rotary embeddings of queries and keys, computed by the attention that follows.

Decoders rotate queries and keys [batch, heads, positions, size] by several operators over whole
tensors, then transpose them and call executorch_py::cached_attention:

    x * cos + cat(-x[…, d/2:], x[…, :d/2]) * sin               of the first d elements of a head
    x * cos + flatten(stack(-x[…, 1::2], x[…, ::2])) * sin     interleaved

`fuse_rotary` finds this by its operators, whatever the model is called, and hands x, cos and sin to
the attention, which has the same bits (csrc/kernels/lib/panel_cache.h).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Node

_ATEN = torch.ops.aten
_HEADS, _POSITIONS = 1, 2  # dims of a rotated tensor
_NAMES = [a.name for a in torch.ops.executorch_py.cached_attention.default._schema.arguments]
_INTERLEAVED = _NAMES.index("interleaved")


class _Rotation(NamedTuple):
    """x [batch, heads, positions, size] whose first elements are rotated; tables f32 [1,
    positions, elements] or [1, 1, positions, elements]."""

    x: Node
    cos: Node
    sin: Node
    interleaved: bool


def fuse_rotary(module: GraphModule) -> None:
    """Moves rotary embeddings of a captured graph into its attention."""
    graph = module.graph
    tables: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.target is not torch.ops.executorch_py.cached_attention.default:
            continue
        query, key, value, cos = node.args[:4]
        rotations = [_rotation(_transposed(x)) for x in (query, key)]
        a, b = rotations
        with graph.inserting_before(node):
            arguments = [_by_position(graph, x) for x in (query, key, value)]
            if cos is None and a is not None and b is not None and a[1:] == b[1:]:
                arguments[:2] = [_transpose(graph, r.x) for r in (a, b)]
                arguments += [_table(graph, table, tables) for table in (a.cos, a.sin)]
                node.update_arg(_INTERLEAVED, a.interleaved)
        node.args = (*arguments, *node.args[len(arguments) :])
    graph.eliminate_dead_code()
    module.recompile()


# ---- the pattern


def _is(node: Any, target: Any) -> bool:
    return isinstance(node, Node) and node.target is target


def _size(node: Node) -> int:
    """Elements of a head."""
    return int(node.meta["val"].shape[-1])


def _transposed(node: Any) -> Any:
    """x of x.transpose(1, 2), or None."""
    node = _plain(node)
    if not _is(node, _ATEN.transpose.int) or set(node.args[1:]) != {_HEADS, _POSITIONS}:
        return None
    return _plain(node.args[0])


def _plain(node: Any) -> Any:
    """The node before casts that change no dtype."""
    while _is(node, _ATEN.to.dtype) and node.args[0].meta["val"].dtype == node.args[1]:
        node = node.args[0]
    return node


def _part(node: Any) -> tuple[Node, int, int] | None:
    """x, begin and end of a slice of the last dim."""
    if not _is(node, _ATEN.slice.Tensor) or len(node.args) != 4:
        return None
    x, dim, begin, end = node.args
    if dim not in (3, -1) or not all(isinstance(i, int) for i in (begin, end)):
        return None
    n = _size(x)
    begin, end = (min(i + n if i < 0 else i, n) for i in (begin, end))
    return x, begin, end


def _parts(node: Any) -> tuple[Any, Any] | None:
    """The two tensors that are joined in the last dim."""
    node = _plain(node)
    if not _is(node, _ATEN.cat.default) or len(node.args[0]) != 2:
        return None
    if (node.args[1] if len(node.args) > 1 else 0) not in (3, -1):
        return None
    first, second = node.args[0]
    return first, second


def _rotation(node: Any) -> _Rotation | None:
    """The rotation of a node [batch, heads, positions, size]; None if there is none."""
    joined = _parts(node)
    if joined is None:
        return _whole_rotation(node)
    rotated, rest = _whole_rotation(joined[0]), _part(joined[1])
    if rotated is None or rest is None:
        return None
    first, x = _part(rotated.x), rest[0]
    whole = first == (x, 0, rest[1]) and rest[2] == _size(x)
    return rotated._replace(x=x) if whole else None


def _whole_rotation(node: Any) -> _Rotation | None:
    node = _plain(node)
    if not _is(node, _ATEN.add.Tensor) or node.kwargs or len(node.args) != 2:
        return None
    terms = node.args
    if not all(_is(term, _ATEN.mul.Tensor) for term in terms):
        return None
    by_cos, by_sin = terms
    (x, cos), (turned, sin) = (map(_plain, term.args) for term in (by_cos, by_sin))
    cos, sin = _table_of(cos), _table_of(sin)
    if cos is None or sin is None or _size(cos) != _size(x):
        return None
    for of, interleaved in ((_turned, False), (_turned_pairs, True)):
        if of(turned) is x:
            return _Rotation(x, cos, sin, interleaved)
    return None


def _turned(node: Any) -> Any:
    """x of cat(-x[…, d/2:], x[…, :d/2])."""
    halves = _parts(node)
    if halves is None or not _is(halves[0], _ATEN.neg.default):
        return None
    upper, lower = _part(halves[0].args[0]), _part(halves[1])
    if upper is None or lower is None or upper[0] is not lower[0]:
        return None
    n = _size(upper[0])
    whole = n % 2 == 0 and lower[1:] == (0, n // 2) and upper[1:] == (n // 2, n)
    return upper[0] if whole else None


def _turned_pairs(node: Any) -> Any:
    """x of flatten(stack((-x[…, 1::2], x[…, ::2]), -1), -2)."""
    if not _is(node, _ATEN.flatten.using_ints) or node.args[1:] not in ((-2,), (-2, -1), (3,)):
        return None
    pairs = node.args[0]
    if not _is(pairs, _ATEN.stack.default) or pairs.args[1:] not in ((-1,), (4,)):
        return None
    odd, even = pairs.args[0]
    if not _is(odd, _ATEN.neg.default):
        return None
    x = _every_second(even, 0)
    return x if x is not None and _every_second(odd.args[0], 1) is x else None


def _every_second(node: Any, first: int) -> Any:
    """x of x[…, first::2], where that is half of the elements."""
    if not _is(node, _ATEN.slice.Tensor) or len(node.args) != 5 or node.args[4] != 2:
        return None
    x, dim, begin, end, _ = node.args
    return x if dim in (3, -1) and begin == first and end >= _size(x) > 0 == _size(x) % 2 else None


def _table_of(node: Any) -> Node | None:
    """A table that is broadcast over heads, of one batch."""
    if _is(node, _ATEN.unsqueeze.default) and node.args[1] == _HEADS:
        node = node.args[0]
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return None
    return node if value.dim() in (3, 4) and {*value.shape[:-2]} == {1} else None


# ---- the arguments


def _transpose(graph: Graph, node: Node) -> Node:
    """x [batch, positions, heads, size] of a node [batch, heads, positions, size]."""
    before = _transposed(node)
    if before is not None:
        return before
    made = graph.call_function(_ATEN.transpose.int, (node, _HEADS, _POSITIONS))
    made.meta["val"] = node.meta["val"].transpose(_HEADS, _POSITIONS)
    return made


def _by_position(graph: Graph, node: Node) -> Node:
    """The same tensor, without two transposes that undo each other."""
    before = _transposed(node)
    return node if before is None else _transpose(graph, before)


def _table(graph: Graph, table: Node, made: dict[Node, Node]) -> Node:
    """The table as [positions, elements]; one for all layers."""
    if table not in made:
        rows = table
        for _ in range(table.meta["val"].dim() - 2):
            with graph.inserting_after(rows):
                selected = graph.call_function(_ATEN.select.int, (rows, 0, 0))
            selected.meta["val"] = rows.meta["val"][0]
            rows = selected
        made[table] = rows
    return made[table]
