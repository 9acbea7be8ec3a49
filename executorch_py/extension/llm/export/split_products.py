"""Products with packed weights of which only parts are used, as a product for each part.

    y = qlinear_groups(x, W);  y[…, :n], y[…, n:]     ->     qlinear_groups(x, W[:n]), …

Phi and GLM have one weight for queries, keys and values, and one for the gate and what it
multiplies. The parts of a weight are whole panels, so that they are parts of its bytes, and the
results have the same bits. As separate products they are found by the passes that join products of
the same rows (exir/passes/quantized/join_products.py), and no result is copied apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from executorch_py.exir.dialects.integer_ops import PANEL
from executorch_py.exir.ir.match import argument, is_call

_PRODUCT = "executorch_py::qlinear_groups"
_PACKED = ("weight", "scales", "minimums", "sums", "addends")
_ABSENT = ("scale", "zero_point", "zero_points", "residual", "norm_eps")
_SCHEMA = torch.ops.executorch_py.qlinear_groups.default._schema
_NAMES = [a.name for a in _SCHEMA.arguments if not a.has_default_value()]


class _Part(NamedTuple):
    """A node that is columns begin … end of a product."""

    node: Node
    begin: int
    end: int


def split_products(module: GraphModule) -> None:
    """Splits the products of a captured graph whose users read a part of the columns each."""
    for node in list(module.graph.nodes):
        if not is_call(node, _PRODUCT) or any(argument(node, n) is not None for n in _ABSENT):
            continue
        parts = _parts(node)
        if parts and all(_is_whole_panels(part, argument(node, "channels")) for part in parts):
            for part in parts:
                _replace(node, part)
    module.graph.eliminate_dead_code()
    module.recompile()


def _is_whole_panels(part: _Part, channels: int) -> bool:
    is_end = part.end % PANEL == 0 or part.end == channels
    return part.begin % PANEL == 0 and is_end and part.begin < part.end


def _parts(product: Node) -> list[_Part]:
    """The parts that the users of a product read; none if one reads it all."""
    parts: list[_Part] = []
    for user in product.users:
        if is_call(user, "aten::slice.Tensor"):
            found = _of_slice(user)
        elif is_call(user, "aten::chunk", "aten::split.Tensor", "aten::split_with_sizes"):
            found = _of_split(user)
        else:
            found = []
        if not found:
            return []
        parts += found
    return parts


def _is_last(node: Node) -> bool:
    return argument(node, "dim") in (-1, node.args[0].meta["val"].dim() - 1)


def _of_slice(node: Node) -> list[_Part]:
    n = int(node.args[0].meta["val"].shape[-1])
    begin, end, step = (argument(node, name) for name in ("start", "end", "step"))
    begin, end = (0 if begin is None else begin), (n if end is None else end)
    if not _is_last(node) or step != 1 or not all(isinstance(i, int) for i in (begin, end)):
        return []
    begin, end = (max(0, min(i + n if i < 0 else i, n)) for i in (begin, end))
    return [_Part(node, begin, end)]


def _of_split(node: Node) -> list[_Part]:
    if not _is_last(node):
        return []
    ends, at = [], 0
    for value in node.meta["val"]:
        at += int(value.shape[-1])
        ends.append(at)
    found = []
    for item in node.users:
        index: Any = item.args[1]
        found.append(_Part(item, ends[index - 1] if index else 0, ends[index]))
    return found


def _replace(product: Node, part: _Part) -> None:
    """Computes a part by a product of its own."""
    graph = product.graph
    columns = argument(product, "sums").meta["val"].numel()
    arguments: dict[str, Any] = {name: argument(product, name) for name in _NAMES}
    with graph.inserting_before(product):
        for name in _PACKED:
            if arguments[name] is not None:
                arguments[name] = _slice(arguments[name], part, columns)
        arguments["channels"] = part.end - part.begin
        made = graph.call_function(product.target, tuple(arguments.values()))
    made.meta = {key: value for key, value in product.meta.items() if key != "val"}
    made.meta["val"] = part.node.meta["val"].contiguous()
    part.node.replace_all_uses_with(made)
    graph.erase_node(part.node)


def _slice(packed: Node, part: _Part, columns: int) -> Node:
    """The panels of a part of a packed tensor, which has equally many elements for each column."""
    each = packed.meta["val"].numel() // columns
    end = -(-part.end // PANEL) * PANEL
    bounds = (part.begin * each, end * each)
    made = packed.graph.call_function(torch.ops.aten.slice.Tensor, (packed, 0, *bounds))
    made.meta["val"] = packed.meta["val"][slice(*bounds)]
    return made
