"""No-op removal: operators that return their input, and dequantize-quantize pairs.

A pair is dropped where both have equal parameters. Relies on `meta["val"]`: an operator is a no-op
when its result cannot differ from its input.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.fx import GraphModule, Node

from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.ir.fake_values import refresh_users, same_metadata
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts

_aten = torch.ops.aten


def _quant_ops(verb: str) -> frozenset[object]:
    # The library is defined by torch's quantization code; a process may not have loaded it.
    import torch.ao.quantization.fx._decomposed

    library = torch.ops.quantized_decomposed
    packets = (getattr(library, f"{verb}_per_tensor"), getattr(library, f"{verb}_per_channel"))
    overloads = [packet.default for packet in packets]
    return frozenset([*overloads, *map(edge_op, overloads)])


def _bypass(node: Node, source: Node) -> list[Node]:
    """Let the users of `node` read `source`; return `source` if its layout is another one."""
    moved = [] if same_metadata(node.meta["val"], source.meta["val"]) else [source]
    node.replace_all_uses_with(source)
    node.graph.erase_node(node)
    return moved


def _all_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape)


def _is_noop(node: Node) -> bool:
    source = node.args[0].meta["val"] if node.args and isinstance(node.args[0], Node) else None
    result = node.meta["val"]
    if source is result:
        return True
    return (
        node.target is _aten.slice_copy.Tensor
        and source is not None
        and _all_static(source)
        and _all_static(result)
        and source.shape == result.shape
    )


class RemoveNoopPass(GraphPass):
    """Drop `to.dtype` that returns its input and `slice_copy` of everything."""

    contract = Contract(requires=facts(Fact.NO_VIEWS))

    def rewrite(self, gm: GraphModule) -> bool:
        moved: list[Node] = []
        dequantizers: list[Node] = []
        modified = False
        dequantize = _quant_ops("dequantize")
        for target in (_aten.to.dtype, _aten.slice_copy.Tensor):
            for node in gm.graph.find_nodes(op="call_function", target=target):
                if not _is_noop(node):
                    continue
                source = node.args[0]
                if source.target in dequantize:
                    dequantizers.append(source)
                moved += _bypass(node, source)
                modified = True
        fold_dequantize_quantize(gm, dequantizers)
        refresh_users(gm, moved)
        return modified


class RemoveToCopyPass(GraphPass):
    """Drop `_to_copy` that changes neither dtype, device, shape nor strides."""

    contract = Contract()

    def rewrite(self, gm: GraphModule) -> bool:
        modified = False
        for node in gm.graph.find_nodes(op="call_function", target=_aten._to_copy.default):
            source = node.args[0]
            before, after = source.meta["val"], node.meta["val"]
            if before.device == after.device and same_metadata(before, after):
                _bypass(node, source)
                modified = True
        return modified


class FoldRedundantDequantizeQuantizePass(GraphPass):
    """Drop every dequantize-quantize pair that has the same parameters on both sides."""

    contract = Contract()

    def rewrite(self, gm: GraphModule) -> bool:
        dequantize = _quant_ops("dequantize")
        nodes = [n for n in gm.graph.nodes if n.op == "call_function" and n.target in dequantize]
        return fold_dequantize_quantize(gm, nodes)


def fold_dequantize_quantize(gm: GraphModule, dequantizers: Iterable[Node]) -> bool:
    """Bypass quantize nodes that undo one of `dequantizers`; return whether any was found."""
    quantize = _quant_ops("quantize")
    folded = False
    for node in dequantizers:
        for user in list(node.users):
            if user.target in quantize and list(user.args)[1:] == list(node.args)[1:]:
                user.replace_all_uses_with(node.args[0])
                folded = True
    if folded:
        gm.graph.eliminate_dead_code()
    return folded
