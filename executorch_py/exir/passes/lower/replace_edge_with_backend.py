"""EdgeToBackendOpsPass: Python functions on sizes become operators that the runtime has.

Most functions have an `executorch_prim` operator of their own. The others are written with
operators that exist in every runtime: `a != b` is `not a == b`, a floor is a negated ceiling, a
square root is taken of a 0-d float64 tensor. Values and specs of the nodes that stay are kept.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.op_traits import is_getitem, op_overload
from executorch_py.exir.ir.prim_ops import prim_op_for
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_MAX_POWER = 8


class EdgeToBackendOpsPass(GraphPass):
    """Retarget symbolic arithmetic to runtime operators."""

    contract = Contract(ensures=facts(Fact.RUNTIME_ARITHMETIC))

    def rewrite(self, gm: fx.GraphModule) -> bool:
        found = [n for n in gm.graph.nodes if n.op == "call_function" and is_python_arithmetic(n)]
        for node in found:
            _retarget(gm.graph, node)
        return bool(found)


def is_python_arithmetic(node: fx.Node) -> bool:
    """Whether a call is of a Python function on sizes or other numbers."""
    target = node.target
    if op_overload(target) is not None or is_getitem(target):
        return False
    if prim_op_for(target) is not None:
        return True
    is_operator = isinstance(target, torch._ops.HigherOrderOperator)
    return not is_operator and isinstance(node.meta.get("val"), _SYMBOLS)


def _retarget(graph: fx.Graph, node: fx.Node) -> None:
    op = prim_op_for(node.target)
    if op is not None:
        node.target = op
        return
    expand = _EXPANSIONS.get(node.target)
    with graph.inserting_before(node):
        result = expand(_Calls(graph, node), *node.args) if expand is not None else None
    if result is None:
        raise _unsupported(node)
    result.meta.update(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _unsupported(node: fx.Node) -> ExportError:
    name = getattr(node.target, "__name__", str(node.target))
    where = source_line(node)
    return ExportError(
        ExportErrorType.NOT_SUPPORTED,
        f"node {node.name} computes {name}{node.args} of sizes or items: expected + - * // / %, "
        "comparisons, min or max, which runtimes have operators for. Write it with these, or "
        "compute it on tensors." + (f" At {where}" if where else ""),
    )


class _Calls:
    """Insertion of the calls that replace one node."""

    def __init__(self, graph: fx.Graph, node: fx.Node) -> None:
        self.graph = graph
        self.node = node

    def prim(self, function: Any, *args: Any) -> fx.Node:
        """An operator on numbers."""
        made = self.graph.call_function(prim_op_for(function), args)
        made.meta.update({**self.node.meta, "val": None, "spec": None})
        return made

    def on_tensor(self, op: Any, number: Any, *args: Any) -> fx.Node:
        """An operator on a 0-d tensor of the number; the result is a number again."""
        double = {"dtype": torch.float64}
        tensor = self._tensor(torch.ops.aten.scalar_tensor.default, (number,), double)
        result = self._tensor(op, (tensor, *args), {})
        return self.graph.call_function(torch.ops.aten._local_scalar_dense.default, (result,))

    def _tensor(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        made = self.graph.call_function(op, args, kwargs)
        example = torch.empty((), dtype=torch.float64, device="meta")
        made.meta.update({**self.node.meta, "val": example, "spec": TensorSpec(torch.float64, ())})
        return made


# ---- functions without an operator of their own; None where a call cannot be written with others

_Expansion = Callable[..., "fx.Node | None"]


def _is_bool(calls: _Calls) -> bool:
    return isinstance(calls.node.meta.get("val"), torch.SymBool)


def _not_equal(calls: _Calls, a: Any, b: Any) -> fx.Node:
    return calls.prim(torch.sym_not, calls.prim(operator.eq, a, b))


def _floor(calls: _Calls, a: Any) -> fx.Node:
    return calls.prim(operator.neg, calls.prim(math.ceil, calls.prim(operator.neg, a)))


def _power(calls: _Calls, base: Any, exponent: Any) -> fx.Node | None:
    if isinstance(exponent, float):
        return calls.on_tensor(torch.ops.aten.pow.Tensor_Scalar, base, exponent)
    if not isinstance(exponent, int) or not 1 <= exponent <= _MAX_POWER:
        return None
    product = calls.prim(operator.mul, base, 1)
    for _ in range(exponent - 1):
        product = calls.prim(operator.mul, product, base)
    return product


def _shift_left(calls: _Calls, a: Any, places: Any) -> fx.Node | None:
    return calls.prim(operator.mul, a, 1 << places) if isinstance(places, int) else None


def _shift_right(calls: _Calls, a: Any, places: Any) -> fx.Node | None:
    return calls.prim(operator.floordiv, a, 1 << places) if isinstance(places, int) else None


def _and(calls: _Calls, a: Any, b: Any) -> fx.Node | None:
    """The conjunction of two conditions, or an integer with a mask of ones."""
    if _is_bool(calls):
        return calls.prim(torch.sym_ite, a, b, False)
    a, mask = (b, a) if isinstance(a, int) else (a, b)
    is_mask = isinstance(mask, int) and mask > 0 and mask & (mask + 1) == 0
    return calls.prim(operator.mod, a, mask + 1) if is_mask else None


def _or(calls: _Calls, a: Any, b: Any) -> fx.Node | None:
    return calls.prim(torch.sym_ite, a, True, b) if _is_bool(calls) else None


def _sum(calls: _Calls, items: Any) -> fx.Node:
    total = calls.prim(operator.add, 0, 0)
    for item in items:
        total = calls.prim(operator.add, total, item)
    return total


def _square_root(calls: _Calls, a: Any) -> fx.Node:
    return calls.on_tensor(torch.ops.aten.sqrt.default, a)


_EXPANSIONS: dict[Any, _Expansion] = {
    operator.ne: _not_equal,
    operator.pow: _power,
    operator.lshift: _shift_left,
    operator.rshift: _shift_right,
    operator.and_: _and,
    operator.or_: _or,
    math.floor: _floor,
    torch.sym_sum: _sum,
    torch._sym_sqrt: _square_root,
}
