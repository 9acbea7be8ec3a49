"""Out variants of functional operators: looked up in torch's schema registry, and cached.

An out variant fits when its ordinary arguments are those of the functional operator, leaving out
what a given output makes redundant (dtype, layout, device, pinning). Knows nothing of graphs or
memory.
"""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from executorch_py.exir.ir.attention_op import attention_out
from executorch_py.exir.ir.op_traits import is_inplace, out_arguments

_IMPLIED_BY_OUT = frozenset({"dtype", "layout", "device", "pin_memory"})
# Argument names that differ between the two forms although the meaning is the same.
_EXPLICIT = {
    "aten::max": "unary_out",
    "aten::min": "unary_out",
    "aten::pow.Scalar": "Scalar_out",
    "aten::pow.Tensor_Scalar": "Tensor_Scalar_out",
    "aten::pow.Tensor_Tensor": "Tensor_Tensor_out",
}
# Operators whose out variant is one of this project's own.
_OWN = {"aten::scaled_dot_product_attention": attention_out}


def _signature(op: OpOverload, drop_implied: bool) -> tuple[tuple[str, str], ...]:
    skipped = out_arguments(op)
    return tuple(
        (arg.name, str(arg.real_type))
        for arg in op._schema.arguments
        if arg.name not in skipped and not (drop_implied and arg.name in _IMPLIED_BY_OUT)
    )


_known: dict[OpOverload, OpOverload] = {}


def find_out_variant(op: OpOverload) -> OpOverload | None:
    """The out variant of a functional operator, or None when torch knows none.

    A missing variant is looked up again: a user may register it after reading the error.
    """
    if op not in _known:
        found = _find(op)
        if found is None:
            return None
        _known[op] = found
    return _known[op]


def _overloads(op: OpOverload) -> list[OpOverload]:
    """All overloads of the operator's name; torch's packet caches those of its first use."""
    schemas = torch._C._jit_get_schemas_for_operator(op._schema.name)
    return [getattr(op.overloadpacket, s.overload_name or "default") for s in schemas]


def _find(op: OpOverload) -> OpOverload | None:
    if is_inplace(op):
        return None
    packet = op.overloadpacket
    name = op._schema.name + (f".{op._schema.overload_name}" if op._schema.overload_name else "")
    if name in _EXPLICIT:
        return getattr(packet, _EXPLICIT[name])
    if name in _OWN:
        return _OWN[name]()
    candidates = [c for c in _overloads(op) if out_arguments(c)]
    for drop_implied in (False, True):
        wanted = _signature(op, drop_implied)
        fitting = [c for c in candidates if _signature(c, drop_implied) == wanted]
        fitting = [c for c in fitting if _outputs_match(op, c)]
        if fitting:
            return min(fitting, key=lambda c: c._schema.overload_name)
    return None


def _outputs_match(op: OpOverload, out_variant: OpOverload) -> bool:
    returns = op._schema.returns
    if len(returns) == len(out_arguments(out_variant)):
        return True
    is_list = len(returns) == 1 and str(returns[0].real_type).startswith("List")
    return is_list and len(out_arguments(out_variant)) == 1


def kernel_arity(op: OpOverload) -> int:
    """Number of entries of a kernel call of an operator: its arguments, and a result once more."""
    return len(op._schema.arguments) + bool(op._schema.returns)
