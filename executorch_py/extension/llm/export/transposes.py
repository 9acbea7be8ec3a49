"""Transpositions around norms of heads.

Gemma 3 and EXAONE 4 normalize queries and keys after they have moved heads before positions, which
attention moves back. A norm is of each head's elements, so that it comes before both moves, which
then undo each other:

    transpose(rms_norm(transpose(x)))     ->     rms_norm(x)
"""

from __future__ import annotations

from torch.fx import GraphModule, Node

from executorch_py.exir.ir.match import argument, is_call, only_user

_NORM = "executorch_py::rms_norm"


def cancel_transposes(module: GraphModule) -> None:
    """Drops pairs of transpositions with a norm between them."""
    for node in list(module.graph.nodes):
        if not is_call(node, _NORM):
            continue
        before, after = argument(node, "input"), only_user(node)
        if after is None or not (_is_move(before) and _is_move(after)):
            continue
        if _dims(before) != _dims(after):
            continue
        node.replace_input_with(before, before.args[0])
        node.meta["val"] = after.meta["val"].contiguous()
        after.replace_all_uses_with(node)
        module.graph.erase_node(after)
    module.graph.eliminate_dead_code()
    module.recompile()


def _is_move(node: Node) -> bool:
    """Whether a node swaps two dims, neither of them the last."""
    return is_call(node, "aten::transpose.int") and max(_dims(node)) < node.meta["val"].dim() - 1


def _dims(node: Node) -> set[int]:
    rank = node.meta["val"].dim()
    return {dim % rank for dim in node.args[1:]}
