"""Out variants of users' operators that have a kernel but no such overload. They are registered
with torch from the functional schema, so that the emitter has a name and an order of arguments.

The overload of `mylib::softcap(Tensor x, float cap) -> Tensor` is `mylib::softcap.out(Tensor x,
float cap, *, Tensor(a!) out) -> Tensor(a!)`; several results are written to out0, out1 …. In torch
it calls the functional operator. Operators of torch's own namespaces get no out variant: they must
be decomposed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.library import Library, register_fake

from executorch_py.exir.ir.op_traits import mutated_positions

_TORCHS_OWN = frozenset(
    {"aten", "prim", "prims", "_operator", "higher_order", "quantized_decomposed"}
)


def is_users_own(operator: str) -> bool:
    """Whether the namespace of an operator's name (`mylib::softcap.out`) is not one of torch's."""
    namespace = operator.partition("::")[0]
    return namespace not in _TORCHS_OWN and namespace not in {"executorch_prim", "dim_order_ops"}


def out_variant_name(op: OpOverload) -> str | None:
    """The name that a functional operator's out variant would get; None when it can have none.

    Results must be new tensors: no lists, no numbers, no views of arguments.
    """
    schema = op._schema
    if op.namespace in _TORCHS_OWN or mutated_positions(op) or not schema.returns:
        return None
    if any(str(ret.type) != "Tensor" or ret.alias_info is not None for ret in schema.returns):
        return None
    if {arg.name for arg in schema.arguments} & set(_outs(op)):
        return None
    overload = f"{schema.overload_name}_out" if schema.overload_name else "out"
    known = torch._C._jit_get_schemas_for_operator(schema.name)
    if overload in {other.overload_name for other in known}:
        return None
    return f"{schema.name}.{overload}"


def make_out_variant(op: OpOverload) -> OpOverload:
    """Register the generated out variant, and return it."""
    name = out_variant_name(op)
    assert name is not None
    outs = _outs(op)
    library = _library(op.namespace)
    local = name.partition("::")[2]
    library.define(f"{local}{_out_schema(str(op._schema), outs)}")
    library.impl(local, _compute(op, outs), "CompositeExplicitAutograd")
    register_fake(name, _given(outs), lib=library)
    made: OpOverload = getattr(op.overloadpacket, name.rpartition(".")[2])
    return made


def _outs(op: OpOverload) -> list[str]:
    n = len(op._schema.returns)
    return ["out"] if n == 1 else [f"out{i}" for i in range(n)]


@cache
def _library(namespace: str) -> Library:
    """The library of a namespace; torch drops the operators with this object."""
    return Library(namespace, "FRAGMENT")


def _out_schema(functional: str, outs: list[str]) -> str:
    """`(Tensor x, *, Tensor(a!) out) -> Tensor(a!)` from `mylib::f(Tensor x) -> Tensor`."""
    arguments = functional[functional.index("(") + 1 : functional.rindex(") ->")]
    kinds = [f"Tensor(out_{i}!)" for i in range(len(outs))]
    written = [f"{kind} {out}" for kind, out in zip(kinds, outs, strict=True)]
    marker = [] if "*, " in arguments else ["*"]
    inside = ", ".join([*([arguments] if arguments else []), *marker, *written])
    returned = kinds[0] if len(outs) == 1 else f"({', '.join(kinds)})"
    return f"({inside}) -> {returned}"


def _compute(op: OpOverload, outs: list[str]) -> Callable[..., Any]:
    def run_out(*args: Any, **kwargs: Any) -> Any:
        given = [kwargs.pop(out) for out in outs]
        results = op(*args, **kwargs)
        for out, result in zip(given, [results] if len(outs) == 1 else results, strict=True):
            out.resize_(result.shape).copy_(result)
        return given[0] if len(outs) == 1 else tuple(given)

    return run_out


def _given(outs: list[str]) -> Callable[..., Any]:
    def shape(*args: Any, **kwargs: Any) -> Any:
        given = tuple(kwargs[out] for out in outs)
        return given[0] if len(outs) == 1 else given

    return shape
