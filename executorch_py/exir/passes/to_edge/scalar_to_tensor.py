"""Python numbers in Tensor slots become 0-d constants, as operator schemas demand.

The constants are attributes of the graph module at first; lift_constants.py makes them inputs. In
products and quotients of float16 and bfloat16 the number becomes a Scalar argument instead, because
eager computes with it in float32 and does not round it first.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from executorch_py.exir.ir.fake_values import fake_mode_of
from executorch_py.exir.passes.base import (
    Contract,
    GraphPass,
    inherit_meta,
    map_tensor_arguments,
    operator_calls,
)

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
_SCALAR_OVERLOAD: dict[Any, Any] = {
    _aten.mul.Tensor: _aten.mul.Scalar,
    _aten.div.Tensor: _aten.div.Scalar,
    _aten.div.Tensor_mode: _aten.div.Scalar_mode,
    _aten.floor_divide.default: _aten.div.Scalar_mode,
}


class ScalarToTensorPass(GraphPass):
    """`add(x, 1)` becomes `add(x, tensor(1))`; `mul(x, 0.1)` of float16 becomes `mul.Scalar`."""

    contract = Contract()

    def rewrite(self, gm: GraphModule) -> bool:
        changed = [
            _use_scalar_overload(n) or map_tensor_arguments(n, partial(_lift, gm, n))
            for n in operator_calls(gm)
        ]
        return any(changed)


def _use_scalar_overload(node: Node) -> bool:
    """Choose the Scalar overload if half-precision values are multiplied or divided by a number."""
    if node.target not in _SCALAR_OVERLOAD or len(node.args) != 2:
        return False
    value, number = (a.meta.get("val") if isinstance(a, Node) else a for a in node.args)
    result = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(result, torch.Tensor):
        return False
    if type(number) not in (int, float) or not value.dtype == result.dtype in _HALVES:
        return False
    if node.target is _aten.floor_divide.default:
        node.update_kwarg("rounding_mode", "floor")
    node.target = _SCALAR_OVERLOAD[node.target]
    return True


def _lift(gm: GraphModule, node: Node, value: Any) -> Node | None:
    if not isinstance(value, (bool, int, float, complex)):
        return None
    with _disable_current_modes():
        constant = torch.tensor(value, dtype=_constant_dtype(node, value))
    name = _free_name(gm)
    gm.register_buffer(name, constant, persistent=False)
    mode = fake_mode_of(gm)
    with gm.graph.inserting_before(node):
        attr = gm.graph.get_attr(name)
    inherit_meta(attr, node)
    attr.meta["val"] = mode.from_tensor(constant, static_shapes=True) if mode else constant
    return attr


def _constant_dtype(node: Node, value: bool | int | float | complex) -> torch.dtype | None:
    """The dtype of the constant: torch's default for the number, unless that would promote.

    A number never decides the dtype of a result, but a 0-d tensor does when all other operands
    are 0-d too. Upstream: int32 0-d + 1 becomes int64 there.
    """
    result = node.meta.get("val")
    others = [n.meta.get("val") for n in node.all_input_nodes]
    if not isinstance(result, torch.Tensor) or result.dtype == torch.bool:
        return None
    if not others or any(not isinstance(v, torch.Tensor) or v.dim() > 0 for v in others):
        return None
    default = torch.tensor(value).dtype if not isinstance(value, float) else torch.float32
    promoted = default
    for other in others:
        promoted = torch.promote_types(promoted, other.dtype)
    return result.dtype if promoted != result.dtype else None


def _free_name(gm: GraphModule) -> str:
    index = 0
    while hasattr(gm, f"_tensor_constant{index}"):
        index += 1
    return f"_tensor_constant{index}"
