"""SimplifySoftmaxGuards: the guard around attention's softmax reads the scores less often.

    where(not any(not (scores == -inf)), full_like(weights, 0), weights)

This guard gives 0 for a query that may see no key. All elements of a row are -inf exactly if the
largest is, so `amax(scores) == -inf` is the same condition, NaN included, and reads the scores
once. One zero is enough for `where`. Bits do not change. Upstream has all of these operators.
Relies on `meta["val"]`.
"""

from __future__ import annotations

import math

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import statically_known_true

from executorch_py.exir.ir.fake_values import evaluate, rewrite_calls
from executorch_py.exir.ir.match import argument, is_call, only_user
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts


class SimplifySoftmaxGuards(Pass):
    """Find rows of -inf by their largest element, and use one zero for all weights."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        return rewrite_calls(program, _simplify)


def _simplify(node: fx.Node) -> bool:
    if is_call(node, "aten::logical_not"):
        return _simplify_guard(node)
    if is_call(node, "aten::where.self"):
        return _simplify_zeros(node)
    return False


def _simplify_guard(guard: fx.Node) -> bool:
    """not any(not (x == -inf)) becomes amax(x) == -inf, where the dimension is not empty."""
    found = guard.args[0]
    if not is_call(found, "aten::any.dim") or only_user(found) is None:
        return False
    inner = found.args[0]
    if not is_call(inner, "aten::logical_not") or only_user(inner) is None:
        return False
    hidden = inner.args[0]
    if not is_call(hidden, "aten::eq.Scalar") or only_user(hidden) is None:
        return False
    x, dim, keepdim = hidden.args[0], argument(found, "dim"), argument(found, "keepdim")
    if argument(hidden, "other") != -math.inf or not x.meta["val"].is_floating_point():
        return False
    if x.meta["val"].dim() == 0 or not statically_known_true(x.meta["val"].shape[dim] >= 1):
        return False
    with guard.graph.inserting_before(guard):
        largest = guard.graph.call_function(torch.ops.aten.amax.default, (x, [dim], keepdim))
        largest.meta["val"] = evaluate(largest)
        short = guard.graph.call_function(torch.ops.aten.eq.Scalar, (largest, -math.inf))
    short.meta.update({k: v for k, v in guard.meta.items() if k != "spec"})
    guard.replace_all_uses_with(short)
    return True


def _simplify_zeros(node: fx.Node) -> bool:
    """A 0-d tensor replaces a filled one beside an operand that has the result's sizes."""
    _, filled, other = node.args
    if not is_call(filled, "aten::full_like") or not isinstance(other, fx.Node):
        return False
    value, result, beside = filled.meta["val"], node.meta["val"], other.meta["val"]
    if value.dtype != result.dtype or beside.shape != result.shape or value.dim() == 0:
        return False
    number = argument(filled, "fill_value")
    if not isinstance(number, (int, float)):
        return False
    with node.graph.inserting_before(node):
        one = node.graph.call_function(
            torch.ops.aten.full.default, ([], number), {"dtype": value.dtype}
        )
    one.meta["val"] = evaluate(one)
    node.args = (node.args[0], one, other)
    return True
