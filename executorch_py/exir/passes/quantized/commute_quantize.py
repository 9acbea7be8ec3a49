"""CommuteQuantize: views, permutations and slices move integers instead of dequantized values.

Dequantization sinks below such calls, quantization rises above views and permutations. Pairs of
both that become neighbours and have equal parameters cancel. Arithmetic is then left between
dequantization and quantization, where LowerToIntegerOps finds it. Values do not change by a bit.
Relies on `meta["val"]`.
"""

from __future__ import annotations

from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation, fake_mode_of
from executorch_py.exir.ir.graph import erase_dead_nodes
from executorch_py.exir.ir.match import argument, is_call, only_user
from executorch_py.exir.ir.op_traits import PARTS, RESHAPES, TURNS, op_key
from executorch_py.exir.ir.quantized_values import affine_of, dequantized, is_quantize
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

# Operators whose result has the elements of the operand, in another order or shape.
_MOVES = (RESHAPES - {"aten::lift_fresh_copy"}) | TURNS


class CommuteQuantize(Pass):
    """Sink dequantization and raise quantization through calls that only move elements."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        graph = program.graph_module.graph
        mode = fake_mode_of(program.graph_module)
        if mode is None:
            return False
        with fake_evaluation(mode):
            changed = any([_sink(node) for node in list(graph.nodes)])
            while any([_raise(node) for node in list(graph.nodes)]):
                changed = True
        changed |= any([_cancel(node) for node in list(graph.nodes)])
        if changed:
            erase_dead_nodes(graph)
        return changed


def _sink(node: fx.Node) -> bool:
    """move(dequantize(q)) becomes dequantize(move(q))."""
    if op_key(node.target) not in _MOVES | PARTS or node.op != "call_function":
        return False
    found = dequantized(node.args[0])
    if found is None:
        return False
    source, affine = found
    args = [source, *node.args[1:]]
    kwargs = dict(node.kwargs)
    if is_call(node, "aten::constant_pad_nd"):
        if argument(node, "value") != 0:
            return False
        args, kwargs = [source, argument(node, "pad"), affine.zero_point], {}
    old = node.args[0]
    with node.graph.inserting_before(node):
        moved = node.graph.call_function(node.target, tuple(args), kwargs)
    moved.meta.update({k: v for k, v in node.meta.items() if k not in ("val", "spec")})
    moved.meta["val"] = evaluate(moved)
    node.target, node.args, node.kwargs = old.target, (moved, *old.args[1:]), dict(old.kwargs)
    return True


def _raise(node: fx.Node) -> bool:
    """quantize(move(x)) becomes move(quantize(x)), if nothing else reads move(x)."""
    if not is_quantize(node):
        return False
    move = node.args[0]
    if not is_call(move, *_MOVES) or only_user(move) != node or dequantized(move.args[0]):
        return False
    with node.graph.inserting_before(node):
        quantized = node.graph.call_function(node.target, (move.args[0], *node.args[1:]))
    quantized.meta.update({k: v for k, v in node.meta.items() if k not in ("val", "spec")})
    quantized.meta["val"] = evaluate(quantized)
    node.target, node.args, node.kwargs = move.target, (quantized, *move.args[1:]), move.kwargs
    return True


def _cancel(node: fx.Node) -> bool:
    """quantize(dequantize(q)) with equal parameters is q."""
    found = dequantized(node.args[0]) if is_quantize(node) else None
    if found is None or found[1] != affine_of(node):
        return False
    if found[0].meta["val"].stride() != node.meta["val"].stride():
        return False
    node.replace_all_uses_with(found[0])
    return True
