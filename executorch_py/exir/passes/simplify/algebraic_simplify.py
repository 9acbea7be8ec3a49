"""AlgebraicSimplify: calls whose result equals an existing tensor bit by bit are dropped.

A table of rules: padding by 0, slices and updates of a whole tensor, copies over whole tensors,
arithmetic with identity elements, casts to a wider dtype and back, permutations that cancel. A rule
names the tensor that replaces the result, which happens only if dtype, sizes and layout agree as
well. Results that leave the graph stay calls of their own. Relies on `meta["val"]` and on the
values of constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.evaluate import is_plain
from executorch_py.exir.ir.fake_values import same_metadata
from executorch_py.exir.ir.graph import (
    constant_tensors,
    erase_dead_nodes,
    flat_outputs,
    graphs_with_constants,
)
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

Constants = dict[str, torch.Tensor]
# Type of a rule: returns the node that may replace a result, its own node if rewritten, or None.
Rule = Callable[[fx.Node, Constants], fx.Node | None]

# Constants larger than this are not searched for zeros and ones.
_MAX_ELEMENTS = 1 << 16


class AlgebraicSimplify(Pass):
    """Replace such calls by the existing tensor, in bodies of control flow as well."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        constants = {k: v for k, v in constant_tensors(program).items() if is_plain(v)}
        changed = False
        for graph, known in graphs_with_constants(program, constants):
            changed |= _rewrite(graph, known)
        return changed


def _rewrite(graph: fx.Graph, constants: Constants) -> bool:
    outputs = {leaf for leaf in flat_outputs(graph) if isinstance(leaf, fx.Node)}
    changed = False
    for node in list(graph.nodes):
        rule = RULES.get(op_key(node.target)) if node.op == "call_function" else None
        if rule is None or node in outputs or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        equal = rule(node, constants)
        if equal is node:  # rewritten in place
            changed = True
            continue
        if equal is None or not same_metadata(node.meta["val"], equal.meta.get("val")):
            continue
        node.replace_all_uses_with(equal)
        graph.erase_node(node)
        changed = True
    return (erase_dead_nodes(graph) if changed else False) or changed


def _tensor(value: Any) -> torch.Tensor | None:
    found = value.meta.get("val") if isinstance(value, fx.Node) else None
    return found if isinstance(found, torch.Tensor) else None


# ---- results that are a whole operand


def _pad(node: fx.Node, _: Constants) -> fx.Node | None:
    is_empty = all(isinstance(p, int) and p == 0 for p in argument(node, "pad"))
    return argument(node, "self") if is_empty else None


def _slice(node: fx.Node, _: Constants) -> fx.Node | None:
    """A slice from 0 in steps of 1; if its sizes are those of the operand, it is all of it."""
    start = argument(node, "start")
    return argument(node, "self") if start in (None, 0) and argument(node, "step") == 1 else None


def _repeat(node: fx.Node, _: Constants) -> fx.Node | None:
    return argument(node, "self") if all(r == 1 for r in argument(node, "repeats")) else None


def _cat(node: fx.Node, _: Constants) -> fx.Node | None:
    tensors = argument(node, "tensors")
    return tensors[0] if len(tensors) == 1 else None


def _clone(node: fx.Node, _: Constants) -> fx.Node | None:
    return node.args[0] if isinstance(node.args[0], fx.Node) else None


def _slice_scatter(node: fx.Node, _: Constants) -> fx.Node | None:
    """An update of the whole tensor returns its source."""
    start, step = argument(node, "start"), argument(node, "step")
    return argument(node, "src") if start in (None, 0) and step == 1 else None


def _copy(node: fx.Node, _: Constants) -> fx.Node | None:
    """A copy over a whole tensor returns its source, expanded to the tensor's sizes."""
    source = argument(node, "src")
    value, result = _tensor(source), node.meta["val"]
    if value is None or value.dtype != result.dtype:
        return None
    if same_metadata(value, result):
        return source
    if not all(isinstance(s, int) for s in result.shape) or not result.is_contiguous():
        return None
    with node.graph.inserting_before(node):
        expanded = node.graph.call_function(
            torch.ops.aten.expand_copy.default, (source, list(result.shape))
        )
    expanded.meta.update({k: v for k, v in node.meta.items() if k != "spec"})
    return expanded


# ---- arithmetic with identity elements


def _all_equal(value: Any, wanted: float, constants: Constants, sign: bool = False) -> bool:
    """Whether a number or a constant is `wanted` everywhere; with `sign`, -0.0 and 0.0 differ."""
    if isinstance(value, (bool, int, float)):
        value = torch.tensor(value)
    elif isinstance(value, fx.Node):
        value = constants.get(value.name)
    if not isinstance(value, torch.Tensor) or not 0 < value.numel() <= _MAX_ELEMENTS:
        return False
    if value.is_complex() or not bool((value == wanted).all()):
        return False
    negative = torch.signbit(value)
    return not sign or bool((negative == (torch.signbit(torch.tensor(wanted)))).all())


def _add(node: fx.Node, constants: Constants) -> fx.Node | None:
    """x + 0 for integers; for floats, adding 0.0 turns -0.0 into 0.0, adding -0.0 does not."""
    if argument(node, "alpha") != 1:
        return None
    floats = node.meta["val"].is_floating_point()
    pair = (argument(node, "self"), argument(node, "other"))
    for x, y in (pair, pair[::-1]):
        if isinstance(x, fx.Node) and _all_equal(y, -0.0, constants, sign=floats):
            return x
    return None


def _sub(node: fx.Node, constants: Constants) -> fx.Node | None:
    if argument(node, "alpha") != 1:
        return None
    floats = node.meta["val"].is_floating_point()
    same = _all_equal(argument(node, "other"), 0.0, constants, sign=floats)
    return argument(node, "self") if same else None


def _mul(node: fx.Node, constants: Constants) -> fx.Node | None:
    pair = (argument(node, "self"), argument(node, "other"))
    for x, y in (pair, pair[::-1]):
        if isinstance(x, fx.Node) and _all_equal(y, 1, constants):
            return x
    return None


def _div(node: fx.Node, constants: Constants) -> fx.Node | None:
    same = _all_equal(argument(node, "other"), 1, constants)
    return argument(node, "self") if same else None


def _pow(node: fx.Node, constants: Constants) -> fx.Node | None:
    return argument(node, "self") if _all_equal(argument(node, "exponent"), 1, constants) else None


def _clamp(node: fx.Node, _: Constants) -> fx.Node | None:
    """A lower bound and then an upper bound become one clamp, which applies them in that order."""
    source = node.args[0]
    if not is_call(source, "aten::clamp") or len(source.users) != 1:
        return None
    assert isinstance(source, fx.Node)
    low, high = argument(source, "min"), argument(node, "max")
    others = (argument(source, "max"), argument(node, "min"))
    if others != (None, None) or not all(type(b) in (int, float) and b == b for b in (low, high)):
        return None
    values = [_tensor(n) for n in (source.args[0], source, node)]
    if len({None if value is None else value.dtype for value in values}) != 1:
        return None
    node.args, node.kwargs = (source.args[0], low, high), {}
    return node


# ---- pairs that cancel


def _cast(node: fx.Node, _: Constants) -> fx.Node | None:
    """A cast to the operand's own dtype, or back from a dtype that holds every value of it."""
    source = node.args[0]
    value, result = _tensor(source), node.meta["val"]
    if value is None or not isinstance(source, fx.Node):
        return None
    if value.dtype == result.dtype:
        return source
    before = _tensor(source.args[0]) if op_key(source.target) in CASTS else None
    if before is None or before.dtype != result.dtype or not _holds(value.dtype, before.dtype):
        return None
    return source.args[0] if isinstance(source.args[0], fx.Node) else None


def _holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether `wide` represents every value of `narrow` exactly."""
    if wide.is_complex or narrow.is_complex or wide == torch.bool:
        return False
    if narrow == torch.bool:
        return True
    if narrow.is_floating_point:
        if not wide.is_floating_point:
            return False
        a, b = torch.finfo(wide), torch.finfo(narrow)
        return bool(a.eps <= b.eps and a.max >= b.max and a.tiny <= b.tiny)
    low, high = torch.iinfo(narrow).min, torch.iinfo(narrow).max
    if wide.is_floating_point:
        return bool(high - low < 2 / torch.finfo(wide).eps and high <= torch.finfo(wide).max)
    return bool(torch.iinfo(wide).min <= low and high <= torch.iinfo(wide).max)


def _permute(node: fx.Node, _: Constants) -> fx.Node | None:
    """Two permutations in a row become one, or none."""
    source = node.args[0]
    outer = _permutation(node)
    inner = _permutation(source) if isinstance(source, fx.Node) else None
    if outer is None or not isinstance(source, fx.Node):
        return None
    if outer == list(range(len(outer))):
        return source
    first = source.args[0] if inner is not None else None
    if inner is None or not isinstance(first, fx.Node):
        return None
    joined = [inner[dim] for dim in outer]
    if joined == list(range(len(joined))):
        return first
    if len(source.users) == 1:
        node.target = torch.ops.aten.permute_copy.default
        node.args, node.kwargs = (first, joined), {}
        return node
    return None


def _permutation(node: fx.Node) -> list[int] | None:
    """The dimension of the input that each dimension of the result is."""
    key = op_key(node.target) if node.op == "call_function" else ""
    value = _tensor(node.args[0]) if node.args else None
    if value is None or value.dim() == 0:
        return None
    rank = value.dim()
    if key == "aten::permute_copy":
        return [dim % rank for dim in argument(node, "dims")]
    dims = list(range(rank))
    if key == "aten::transpose_copy.int":
        a, b = argument(node, "dim0") % rank, argument(node, "dim1") % rank
        dims[a], dims[b] = dims[b], dims[a]
        return dims
    return dims[::-1] if key == "aten::t_copy" else None


CASTS = frozenset({"aten::_to_copy", "dim_order_ops::_to_dim_order_copy"})
CLONES = frozenset(
    {
        "aten::alias_copy",
        "aten::clone",
        "aten::detach_copy",
        "aten::lift_fresh_copy",
        "dim_order_ops::_clone_dim_order",
    }
)
RULES: dict[str, Rule] = {
    **{key: _clone for key in CLONES},
    "aten::constant_pad_nd": _pad,
    "aten::slice_copy.Tensor": _slice,
    "aten::repeat": _repeat,
    "aten::cat": _cat,
    "aten::slice_scatter": _slice_scatter,
    "aten::copy": _copy,
    "aten::add.Tensor": _add,
    "aten::add.Scalar": _add,
    "aten::sub.Tensor": _sub,
    "aten::sub.Scalar": _sub,
    "aten::mul.Tensor": _mul,
    "aten::mul.Scalar": _mul,
    "aten::div.Tensor": _div,
    "aten::div.Scalar": _div,
    "aten::pow.Tensor_Scalar": _pow,
    "aten::clamp": _clamp,
    **{key: _cast for key in CASTS},
    "aten::permute_copy": _permute,
    "aten::transpose_copy.int": _permute,
    "aten::t_copy": _permute,
}
