"""QuantFusionPass: patterns of dequantize, operator, quantize become calls on the integers.

    quantize(add(dequantize(a), dequantize(b)))      quantized_decomposed.add, of uint8
    quantize(move(dequantize(a)))                    the move alone, if both have equal parameters
    embedding(dequantize_per_channel(table), i)      quantized_decomposed.embedding_byte

Moves are views, slices, and concatenations of operands with equal parameters. The name and the
results are upstream's. Tables of fewer bits are packed, which needs the program of the graph:
`quant_fusion_and_const_prop_pass` does that. Relies on `meta["val"]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.dialects.quantized_ops import register_quantized_ops
from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation, fake_mode_of
from executorch_py.exir.ir.graph import erase_dead_nodes
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.ir.quantized_values import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, QUANTIZE
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts, inherit_meta

_MOVES = ("aten::view_copy", "aten::_reshape_alias_copy", "aten::slice_copy.Tensor")
_PARAMETERS = ("scale", "zero_point", "quant_min", "quant_max", "dtype")


class QuantFusionPass(GraphPass):
    """Fuse quantized sums, moves and look-ups; the arguments are upstream's and not needed."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def __init__(
        self,
        _fix_node_meta_val: bool = False,
        node_value_dict: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()

    def rewrite(self, gm: fx.GraphModule) -> bool:
        register_quantized_ops()
        fused = [_fuse(gm, node) for node in list(gm.graph.nodes) if node.op == "call_function"]
        if any(fused):
            erase_dead_nodes(gm.graph)
        return any(fused)

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        result = super().call(graph_module)
        graph_module.graph.lint()
        return result


def _fuse(gm: fx.GraphModule, node: fx.Node) -> bool:
    if is_call(node, "aten::embedding"):
        made = _look_up(gm, node)
    elif is_call(node, QUANTIZE) and isinstance(node.args[0], fx.Node):
        inner = node.args[0]
        if is_call(inner, "aten::add.Tensor"):
            made = _sum(gm, node, inner)
        elif is_call(inner, "aten::cat"):
            made = _concatenation(gm, node, inner)
        else:
            made = _move(gm, node, inner)
    else:
        return False
    if made is None:
        return False
    node.replace_all_uses_with(made)
    return True


def _parameters(node: fx.Node) -> list[Any]:
    return [argument(node, name) for name in _PARAMETERS]


def _sum(gm: fx.GraphModule, quantize: fx.Node, total: fx.Node) -> fx.Node | None:
    operands = total.args[:2]
    if argument(total, "alpha") != 1 or not all(is_call(n, DEQUANTIZE) for n in operands):
        return None
    affine = [_parameters(n) for n in (*operands, quantize) if isinstance(n, fx.Node)]
    if any(parameters[-1] != torch.uint8 for parameters in affine):
        return None
    a, b, out = (parameters[:-1] for parameters in affine)
    sources = [n.args[0] for n in operands if isinstance(n, fx.Node)]
    add = edge_op(torch.ops.quantized_decomposed.add.default)
    return _call(gm, quantize, add, sources[0], *a, sources[1], *b, *out)


def _move(gm: fx.GraphModule, quantize: fx.Node, move: fx.Node) -> fx.Node | None:
    source = move.args[0] if op_key(move.target) in _MOVES else None
    if not is_call(source, DEQUANTIZE) or not isinstance(source, fx.Node):
        return None
    if _parameters(source) != _parameters(quantize):
        return None
    return _call(gm, quantize, move.target, source.args[0], *move.args[1:], **move.kwargs)


def _concatenation(gm: fx.GraphModule, quantize: fx.Node, cat: fx.Node) -> fx.Node | None:
    parts: Any = cat.args[0]
    wanted = _parameters(quantize)
    if not all(is_call(part, DEQUANTIZE) and _parameters(part) == wanted for part in parts):
        return None
    return _call(gm, quantize, cat.target, [part.args[0] for part in parts], *cat.args[1:])


def _look_up(gm: fx.GraphModule, embedding: fx.Node) -> fx.Node | None:
    table, indices = embedding.args[:2]
    if not is_call(table, DEQUANTIZE_PER_CHANNEL) or not isinstance(table, fx.Node):
        return None
    names = ("input", "scales", "zero_points", "axis", "quant_min", "quant_max", "dtype")
    weight, scales, zeros, axis, low, high, dtype = (argument(table, name) for name in names)
    if axis != 0 or dtype != torch.uint8 or zeros.meta["val"].dtype != scales.meta["val"].dtype:
        return None
    look_up = edge_op(torch.ops.quantized_decomposed.embedding_byte.default)
    return _call(gm, embedding, look_up, weight, scales, zeros, low, high, indices)


def _call(gm: fx.GraphModule, place: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    with gm.graph.inserting_before(place):
        made = gm.graph.call_function(target, args, kwargs)
    inherit_meta(made, place)
    mode = fake_mode_of(gm)
    if mode is not None:
        with fake_evaluation(mode):
            made.meta["val"] = evaluate(made)
    return made
