"""Conversions of a captured decoder that change nothing.

Decoders convert to f32 before a norm and back behind it, whatever the dtype is; torch.export also
records an assertion of the dtype for each. In a graph of f32 they only hide patterns and take time.
"""

from __future__ import annotations

from torch.fx import GraphModule, Node

from executorch_py.exir.ir.match import is_call

_CONVERSIONS = ("aten::to.dtype", "aten::type_as")


def drop_conversions(module: GraphModule) -> None:
    """Erases conversions to the dtype that a tensor has anyway, and assertions of dtypes.

    The dtypes of a captured graph are static: an assertion that held when it was traced holds.
    """
    for node in list(module.graph.nodes):
        if is_call(node, "aten::_assert_tensor_metadata"):
            module.graph.erase_node(node)
        elif is_call(node, *_CONVERSIONS) and _keeps_dtype(node):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()


def _keeps_dtype(node: Node) -> bool:
    before, after = (n.meta["val"].dtype for n in (node.args[0], node))
    return bool(before is after)
