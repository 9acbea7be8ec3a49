"""Divisors that quantization would round to 0 stay float.

The step of a quantized value has the size of its range, and a lower bound. A magnitude with an
epsilon, as in a hand-written norm, may be far below the step: rounded, it is 0, and a division by
it gives NaN or infinity. Such a value is read as a float where it is a divisor. The smallest number
of the calibration decides; annotations stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.quantizer.annotate import LEFT_FLOAT, LeftFloat
from executorch_py.quantizer.observers import Watched, module_path
from executorch_py.quantizer.patterns import LIMITS, SHARING

aten = torch.ops.aten

# Operators that divide by an operand, and its position.
_DIVIDE: dict[Any, int] = {
    aten.div.Tensor: 1,
    aten.div.Tensor_mode: 1,
    aten.div_.Tensor: 1,
    aten.reciprocal.default: 0,
    aten.rsqrt.default: 0,
}
# Operators that give 0 where all operands are 0.
_KEEP_ZERO = (SHARING - LIMITS) | {
    aten.abs.default,
    aten.add.Tensor,
    aten.expand_as.default,
    aten.mul.Tensor,
    aten.relu.default,
    aten.sqrt.default,
    aten.square.default,
}


def keep_divisors(model: fx.GraphModule) -> None:
    """Remove the observers of divisors that would be 0, and add rows about them to `left_float`."""
    rows: dict[str, LeftFloat] = {}
    for node in list(model.graph.nodes):
        divisor = _divisor(node)
        if divisor is not None:
            _keep(model, node, divisor, node, rows)
    if rows:
        model.meta[LEFT_FLOAT] = (*model.meta.get(LEFT_FLOAT, ()), *rows.values())
        model.recompile()


def _divisor(node: fx.Node) -> fx.Node | None:
    """The operand by which a call divides."""
    value: Any = None
    if node.op == "call_function" and node.target in _DIVIDE:
        value = node.args[_DIVIDE[node.target]]
    elif node.target is aten.pow.Tensor_Scalar and argument(node, "exponent") < 0:
        value = node.args[0]
    return value if isinstance(value, fx.Node) else None


def _keep(
    model: fx.GraphModule,
    reader: fx.Node,
    value: fx.Node,
    divides: fx.Node,
    rows: dict[str, LeftFloat],
) -> None:
    """Let `reader` read floats, if `value` is 0 whenever the divisor of `divides` is."""
    if value.op == "call_module":
        observer, (value, *_) = value, value.all_input_nodes
        why = _rounds_to_zero(model.get_submodule(str(observer.target)))
        if why is None:
            return
        reader.replace_input_with(observer, value)
        if not observer.users:
            model.graph.erase_node(observer)
        operator = op_key(value.target).removeprefix("aten::") or value.op
        reason = f"it is part of the divisor of {divides.name}, and {why}"
        rows[value.name] = LeftFloat(value.name, module_path(value), operator, reason)
    if value.op == "call_function" and value.target in _KEEP_ZERO:
        for operand in value.all_input_nodes:
            _keep(model, value, operand, divides, rows)


def _rounds_to_zero(observer: torch.nn.Module) -> str | None:
    """The reason if the smallest number that an observer saw, which is not 0, may become 0.

    A number below one step is 0 after rounding, or is so for inputs that are little different.
    """
    if not isinstance(observer, Watched):
        return None
    least = max(observer.seen.least, -observer.seen.greatest)
    if not 0 < least < float("inf"):  # both signs, or nothing seen
        return None
    scale, _ = observer.calculate_qparams()
    if scale.numel() != 1 or least >= float(scale):
        return None
    return f"a quantization step of {float(scale):.3g} would round numbers of {least:.3g} to 0"


__all__ = ["keep_divisors"]
