"""Conversion of operators to out variants, and of names to operators, under upstream's names."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from executorch_py.exir.ir.op_traits import is_inplace, op_overload, out_arguments
from executorch_py.exir.ir.out_variants import find_out_variant


def unwrap_op_overload(target: object) -> OpOverload:
    """The torch operator of a node's target, edge and backend operators included."""
    op = op_overload(target)
    if op is None:
        raise TypeError(
            "expected an operator overload such as torch.ops.aten.add.Tensor or "
            f"exir_ops.edge.aten.add.Tensor, got {target!r} of type {type(target).__name__}"
        )
    return op


def parse_qualified_opname(qualified_opname: str) -> tuple[str, str]:
    """Namespace and name of `namespace::name`."""
    namespace, colons, name = qualified_opname.partition("::")
    if not (namespace and colons and name) or "::" in name:
        raise RuntimeError(f"operator name: expected namespace::name, got {qualified_opname!r}")
    return namespace, name


def get_op_overload(qualified_opname: str, overload: str) -> OpOverload:
    """The operator `namespace::name` with this overload; an empty one is the default."""
    namespace, name = parse_qualified_opname(qualified_opname)
    op: OpOverload = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    return op


def get_out_args_from_opoverload(op_overload: OpOverload) -> tuple[str, ...]:
    """Names of the arguments that an out variant writes."""
    names = tuple(out_arguments(op_overload))
    if not names:
        raise AssertionError(f"expected an out variant, got {op_overload} without out arguments")
    return names


def is_out_variant(qualified_opname: str, overload: str) -> bool:
    """Whether the operator writes its result to a keyword-only out argument."""
    return bool(out_arguments(get_op_overload(qualified_opname, overload)))


def is_inplace_variant(qualified_opname: str, overload: str) -> bool:
    """Whether the operator changes its first argument."""
    return is_inplace(get_op_overload(qualified_opname, overload))


def to_out_variant(op_overload: OpOverload) -> tuple[OpOverload, tuple[str, ...]]:
    """The out variant of an operator and the names of its out arguments."""
    if out_arguments(op_overload):
        return op_overload, get_out_args_from_opoverload(op_overload)
    found = find_out_variant(op_overload)
    if found is None:
        raise RuntimeError(
            f"Missing out variant for {op_overload._schema}: torch knows none with these "
            "arguments; register one beside it (`(…, *, Tensor(a!) out) -> Tensor(a!)`) or import "
            "the library that does"
        )
    return found, get_out_args_from_opoverload(found)


__all__ = [
    "get_op_overload",
    "get_out_args_from_opoverload",
    "is_inplace_variant",
    "is_out_variant",
    "parse_qualified_opname",
    "to_out_variant",
    "unwrap_op_overload",
]
