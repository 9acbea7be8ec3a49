"""Arithmetic on operands of different dtypes gets explicit casts to the promoted dtype.

Only operators in the tables get casts; others promote in their kernels. Dtype rules of the dialect
do not look at ranks. A 0-d tensor that does not take part in promotion is therefore cast to the
dtype of the others. As the second factor or divisor of float16 or bfloat16 it is cast to float32
instead, which eager computes in.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes
from torch.fx import GraphModule, Node

from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation, fake_mode_of, refresh_users
from executorch_py.exir.passes.base import (
    Contract,
    Fact,
    GraphPass,
    facts,
    inherit_meta,
    map_tensor_arguments,
    operator_calls,
)

_aten = torch.ops.aten
_PROMOTION: dict[Any, KIND] = {
    _aten.add.Tensor: KIND.DEFAULT,
    _aten.sub.Tensor: KIND.DEFAULT,
    _aten.mul.Tensor: KIND.DEFAULT,
    _aten.minimum.default: KIND.DEFAULT,
    _aten.div.Tensor: KIND.INT_TO_FLOAT,
    _aten.div.Tensor_mode: KIND.DEFAULT,
    _aten.gcd.default: KIND.DEFAULT,
    _aten.hypot.default: KIND.DEFAULT,
    _aten.nextafter.default: KIND.DEFAULT,
}
# Operands are cast only where ranks decide; kernels do all other promotion.
_PROMOTION_BY_RANK: dict[Any, KIND] = {
    _aten.bitwise_and.Tensor: KIND.DEFAULT,
    _aten.bitwise_or.Tensor: KIND.DEFAULT,
    _aten.bitwise_xor.Tensor: KIND.DEFAULT,
    _aten.floor_divide.default: KIND.DEFAULT,
    _aten.fmod.Tensor: KIND.DEFAULT,
    _aten.pow.Tensor_Tensor: KIND.BOOL_TO_LONG,
    _aten.remainder.Tensor: KIND.DEFAULT,
    _aten.where.self: KIND.DEFAULT,
}
# A 0-d second operand is not rounded to the half-precision dtype of the first.
_UNROUNDED_BESIDE_HALVES = (
    _aten.mul.Tensor,
    _aten.div.Tensor,
    _aten.div.Tensor_mode,
    _aten.floor_divide.default,
)
# Operators whose result has the promoted dtype of all operands.
_JOINS = (_aten.cat.default, _aten.stack.default)


def _operands(node: Node) -> list[Node]:
    """The tensors that promote each other, which a condition does not."""
    condition = node.args[0] if node.target is _aten.where.self else None
    return [n for n in node.all_input_nodes if _is_tensor(n) and n is not condition]


def _promoted_dtype(node: Node, operands: list[Node]) -> torch.dtype | None:
    """The dtype to cast operands to; None where the operator takes them as they are."""
    dtypes = {n.meta["val"].dtype for n in operands}
    by_rank = node.target in _PROMOTION_BY_RANK
    result: torch.dtype
    if node.target in _JOINS:
        result = node.meta["val"].dtype
        return None if dtypes == {result} else result
    if len(dtypes) == 1 and (by_rank or dtypes == {node.meta["val"].dtype}):
        return None
    kind = {**_PROMOTION, **_PROMOTION_BY_RANK}[node.target]
    if node.target is _aten.div.Tensor_mode and node.kwargs.get("rounding_mode") is None:
        kind = KIND.INT_TO_FLOAT
    result = elementwise_dtypes(*(n.meta["val"] for n in operands), type_promotion_kind=kind)[1]
    return None if by_rank and reduce(torch.promote_types, dtypes) == result else result


def _unrounded(node: Node, operand: Node, dtype: torch.dtype) -> torch.dtype:
    """The dtype to cast this operand to, while the others are cast to `dtype`."""
    if node.target not in _UNROUNDED_BESIDE_HALVES or dtype not in (torch.float16, torch.bfloat16):
        return dtype
    left, right = node.args[:2]
    if operand is not right or operand is left or not _is_tensor(left):
        return dtype
    is_scalar = operand.meta["val"].dim() == 0 and left.meta["val"].dim() > 0
    return torch.float32 if is_scalar and operand.meta["val"].dtype != dtype else dtype


class RemoveMixedTypeOperators(GraphPass):
    """Insert `_to_copy(dtype=promoted)` where an operand has another dtype."""

    contract = Contract(requires=facts(Fact.TENSOR_OPERANDS))

    def rewrite(self, gm: GraphModule) -> bool:
        mode = fake_mode_of(gm)
        changed = []
        for node in operator_calls(gm):
            if mode is None or not (
                node.target in _PROMOTION
                or node.target in _PROMOTION_BY_RANK
                or node.target in _JOINS
            ):
                continue
            operands = _operands(node)
            dtype = _promoted_dtype(node, operands)
            if dtype is None:
                continue

            def cast(a: Any, n: Node = node, d: torch.dtype = dtype, o: Any = operands) -> Any:
                return _cast(gm, n, a, _unrounded(n, a, d), mode) if a in o else None

            if node.target in _JOINS:
                node.update_arg(0, [cast(a) or a for a in node.args[0]])
                changed.append(node)
            elif map_tensor_arguments(node, cast):
                changed.append(node)
        _refresh_layouts(gm, changed)
        return bool(changed)


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _refresh_layouts(gm: GraphModule, changed: list[Node]) -> None:
    # A cast keeps the layout of its operand, so at most a new result dtype could spread; promotion
    # gives the dtype that the operator had before.
    refresh_users(gm, [n for node in changed for n in node.all_input_nodes])


def _cast(gm: GraphModule, node: Node, value: Any, dtype: torch.dtype, mode: Any) -> Node | None:
    if not isinstance(value, Node) or not _is_tensor(value) or value.meta["val"].dtype == dtype:
        return None
    with gm.graph.inserting_before(node):
        cast = gm.graph.call_function(_aten._to_copy.default, (value,), {"dtype": dtype})
    inherit_meta(cast, node)
    with fake_evaluation(mode):
        cast.meta["val"] = evaluate(cast)
    return cast
