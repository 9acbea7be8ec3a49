"""From a functional operator overload to the overload that writes into given tensors.

An out variant has the same arguments, minus the tensor options (dtype, layout, device,
pin_memory: the output tensor carries them), plus writable keyword-only `out` arguments. Works on
torch's schema registry alone, so libraries loaded later are seen as well.
"""

from __future__ import annotations

from typing import Any

import torch

_TENSOR_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})


def out_argument_names(schema: torch._C.FunctionSchema) -> list[str]:
    """Names of the arguments an out variant writes to; empty for any other schema."""
    return [
        arg.name
        for arg in schema.arguments
        if arg.kwarg_only and arg.alias_info is not None and arg.alias_info.is_write
    ]


def _signature(schema: torch._C.FunctionSchema) -> tuple[Any, ...]:
    names = {arg.name for arg in schema.arguments}
    dropped = set(out_argument_names(schema))
    if names >= _TENSOR_OPTIONS:
        dropped |= _TENSOR_OPTIONS
    return tuple(
        (arg.name, str(arg.type), arg.kwarg_only, arg.has_default_value(), str(arg.default_value))
        for arg in schema.arguments
        if arg.name not in dropped
    )


def is_out_variant(schema: torch._C.FunctionSchema) -> bool:
    """Whether every return of the schema is one of its writable keyword arguments."""
    return bool(out_argument_names(schema)) and not any(
        arg.alias_info is not None and arg.alias_info.is_write and not arg.kwarg_only
        for arg in schema.arguments
    )


def find_out_variant(op: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The out variant of `op`; RuntimeError names the overloads that were looked at."""
    wanted = _signature(op._schema)
    packet = op.overloadpacket
    for overload in packet.overloads():
        candidate: torch._ops.OpOverload = getattr(packet, overload)
        if is_out_variant(candidate._schema) and _signature(candidate._schema) == wanted:
            return candidate
    found = "; ".join(str(getattr(packet, name)._schema) for name in packet.overloads())
    raise RuntimeError(
        f"out variant of operator {op.name()} can't be found. A kernel writes into given memory, "
        f"so the library of {op.name()} has to define an overload with the same arguments and a "
        f"keyword-only 'out'. Overloads seen: {found}"
    )
