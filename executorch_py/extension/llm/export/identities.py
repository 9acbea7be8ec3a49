"""Steps of a captured decoder that change nothing.

Decoders convert to f32 before a norm and back behind it, whatever the dtype is; torch.export also
records an assertion of the dtype for each. A slice of a whole dimension is an alias, what is behind
it has no elements, and dropout does nothing in inference. In a graph they only hide patterns and
take time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule, Node

from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import op_overload


def drop_identities(module: GraphModule) -> None:
    """Erases steps whose result is their input, and assertions of dtypes.

    The dtypes of a captured graph are static: an assertion that held when it was traced holds.
    """
    for node in list(module.graph.nodes):
        if is_call(node, "aten::_assert_tensor_metadata"):
            module.graph.erase_node(node)
            continue
        find = next((find for name, find in _INPUTS.items() if is_call(node, name)), None)
        same = None if find is None else find(node)
        if same is not None:
            node.replace_all_uses_with(same)
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _of_conversion(node: Node) -> Any:
    before, after = (n.meta["val"].dtype for n in (node.args[0], node))
    return node.args[0] if before is after else None


def _of_dropout(node: Node) -> Any:
    return None if argument(node, "train") else argument(node, "input")


def _of_join(node: Node) -> Any:
    """The one tensor of a join that has elements; None for a result that is written in place."""
    parts = argument(node, "tensors")
    filled = [part for part in parts if 0 not in part.meta["val"].shape]
    if len(filled) != 1 or len(parts) == 1 or any(map(_is_mutable, node.users)):
        return None
    return filled[0]


def _is_mutable(node: Node) -> bool:
    op = op_overload(node.target)
    return op is not None and op._schema.is_mutable


# Operator -> the input that may be its result; None where it is not.
_INPUTS: dict[str, Callable[[Node], Any]] = {
    "aten::to.dtype": _of_conversion,
    "aten::type_as": _of_conversion,
    "aten::alias": lambda node: node.args[0],
    "aten::cat": _of_join,
    "aten::dropout": _of_dropout,
}
