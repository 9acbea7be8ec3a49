"""The last layer of a decoder, computed for the last position alone.

A decoder that returns the logits of the last token takes that position of the last layer's result:

    slice(x, dim 1, -1)

Every operator behind the last attention computes each position by itself. `keep_last_position`
moves the slice in front of all of them; results have the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from executorch_py.exir.ir.match import is_call

_POSITIONS = 1  # the dim of positions in [batch, positions, …]
# Operators that compute each position by itself, and which arguments have positions.
_OPERANDS = {
    "executorch_py::rms_norm": (0,),
    "executorch_py::qlinear_groups": (0, 11),
    "aten::linear": (0,),
    "aten::silu": (0,),
    "aten::gelu": (0,),
    "aten::tanh": (0,),
    "aten::to.dtype": (0,),
    "aten::add.Tensor": (0, 1),
    "aten::mul.Tensor": (0, 1),
}


def keep_last_position(module: GraphModule) -> None:
    """Moves slices of the last position of a captured graph in front of what computes it."""
    graph = module.graph
    slices = {node.args[0]: node for node in graph.nodes if _is_last(node)}
    waiting = list(slices)
    while waiting:
        node = waiting.pop()
        last = slices.get(node)
        if last is None or set(node.users) != {last} or not _is_by_position(node):
            continue
        with graph.inserting_before(node):
            arguments = list(node.args)
            for i in _operands(node):
                operand = arguments[i]
                if operand not in slices:
                    slices[operand] = _last_of(module, operand, last)
                arguments[i] = slices[operand]
                waiting.append(operand)
            made = graph.call_function(node.target, tuple(arguments), dict(node.kwargs))
        made.meta = dict(last.meta)
        last.replace_all_uses_with(made)
        for old in (last, node):
            graph.erase_node(old)
        del slices[node]
    module.recompile()


def _last_of(module: GraphModule, node: Node, like: Node) -> Node:
    """A slice of the last position of a node, behind it."""
    with module.graph.inserting_after(node):
        made = module.graph.call_function(like.target, (node, *like.args[1:]))
    made.meta = {**node.meta, "val": node.meta["val"][:, -1:]}
    return made


def _is_last(node: Node) -> bool:
    if not is_call(node, "aten::slice.Tensor") or len(node.args) != 4 or node.kwargs:
        return False
    _, dim, begin, end = node.args
    return dim == _POSITIONS and begin == -1 and isinstance(end, int) and end >= 2**31 - 1


def _operands(node: Node) -> list[int]:
    """The arguments of a node that have positions."""
    known = _OPERANDS[str(_key(node))]
    return [i for i in known if i < len(node.args) and _has_positions(node.args[i], node)]


def _is_by_position(node: Node) -> bool:
    """Whether a node computes each position of its operands by itself."""
    if _key(node) is None or node.meta["val"].dim() < 3:
        return False
    # Other tensors have no positions, or the same one for all.
    tensors = [a for a in node.args if isinstance(a, Node) and not _has_positions(a, node)]
    is_sum = is_call(node, "aten::add.Tensor", "aten::mul.Tensor")
    return bool(_operands(node)) and not (is_sum and any(map(_has_many, tensors)))


def _key(node: Node) -> str | None:
    return next((key for key in _OPERANDS if is_call(node, key)), None)


def _has_positions(value: Any, like: Node) -> bool:
    """Whether a value is a tensor with the positions of a node."""
    if not isinstance(value, Node) or not isinstance(value.meta.get("val"), torch.Tensor):
        return False
    shape, wanted = value.meta["val"].shape, like.meta["val"].shape
    same_rank = len(shape) == len(wanted)
    return same_rank and str(shape[_POSITIONS]) == str(wanted[_POSITIONS])


def _has_many(value: Node) -> bool:
    """Whether a tensor may have positions of another kind."""
    shape = value.meta["val"].shape
    return len(shape) > 1 and str(shape[-2]) != "1"
