"""The signature stored in a program: torch's tree specs, names, dtypes and bounds.

The two container strings of a plan are PyTorch's JSON tree specs. The root object of the input
string carries one more key, `signature`, which torch's loader skips and a runtime without torch
reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.exir import schema
from executorch_py.exir.ir.scalar_type import dtype_of_number, short_name

_TYPE_NAMES = {
    schema.Null: "none",
    schema.Int: "int",
    schema.Bool: "bool",
    schema.Double: "float",
    schema.String: "str",
}


def tree_json(spec: pytree.TreeSpec | None) -> str:
    """torch's JSON of a tree spec; containers it cannot name are written as tuples."""
    if spec is None:
        return ""
    try:
        return str(pytree.treespec_dumps(spec))
    except NotImplementedError:
        return str(pytree.treespec_dumps(pytree.tree_structure(_as_tuples(spec))))


def _as_tuples(spec: pytree.TreeSpec) -> Any:
    """A tree of zeros shaped like `spec`, with unknown containers turned into tuples."""
    if spec.is_leaf():
        return 0
    children = [_as_tuples(child) for child in spec.children()]
    if spec.type is list:
        return children
    if spec.type is dict:
        return dict(zip(spec.context, children, strict=True))
    return tuple(children)


def with_signature(tree: str, inputs: list[Any], outputs: list[Any]) -> str:
    """The input string with the signature added to its root object."""
    if not tree:
        return tree
    protocol, root = json.loads(tree)
    root["signature"] = {"inputs": inputs, "outputs": outputs}
    return json.dumps([protocol, root])


class Symbols:
    """Names for the free symbols of one method's sizes, in the order they are met: s0, s1, …"""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def follow(self, size: torch.SymInt) -> list[Any]:
        """The symbol that a size depends on: [], [symbol], or [symbol, scale, offset].

        Empty for a size that is no linear function of one symbol with a whole, positive scale.
        """
        expr = size.node.expr
        if len(expr.free_symbols) != 1:
            return []
        (symbol,) = expr.free_symbols
        scale = expr.coeff(symbol, 1)
        offset = expr - scale * symbol
        if not (scale.is_Integer and scale > 0 and offset.is_Integer):
            return []
        name = self._names.setdefault(symbol, f"s{len(self._names)}")
        return [name] if scale == 1 and offset == 0 else [name, int(scale), int(offset)]


def describe(
    name: str,
    value: schema.KernelTypes,
    traced: Any,
    ranges: Mapping[Any, Any],
    symbols: Symbols,
) -> dict[str, Any]:
    """One input or output: a tensor with its bounds, or a scalar with its value if it is fixed.

    A size that may change is [smallest, largest], followed by the symbol it depends on.
    `ranges` are the program's range constraints: what the user allowed, where tracing assumed more.
    """
    if isinstance(value, schema.Tensor):
        dims = list(getattr(traced, "shape", value.sizes))
        shape = [
            int(upper)
            if isinstance(dim, int)
            else [lower_bound(dim, ranges), int(upper), *symbols.follow(dim)]
            for dim, upper in zip(dims, value.sizes, strict=True)
        ]
        return {
            "name": name,
            "dtype": short_name(dtype_of_number(value.scalar_type)),
            "shape": shape,
        }
    entry: dict[str, Any] = {"name": name, "type": _TYPE_NAMES[type(value)]}
    if isinstance(traced, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return entry
    if not isinstance(value, schema.Null):
        entry["value"] = next(iter(vars(value).values()))
    if isinstance(value, schema.Double) and not math.isfinite(value.double_val):
        entry["value"] = repr(value.double_val)  # JSON has no such numbers
    return entry


def lower_bound(size: torch.SymInt, ranges: Mapping[Any, Any]) -> int:
    """The smallest value the size can take, at least 0."""
    from torch.utils._sympy.value_ranges import bound_sympy

    traced = size.node.shape_env.var_to_range
    lower = bound_sympy(size.node.expr, {**traced, **ranges}).lower
    return max(int(lower), 0) if lower.is_finite else 0


def container_metadata(
    ep: ExportedProgram, inputs: list[Any], outputs: list[Any]
) -> schema.ContainerMetadata:
    """Both strings of a method's plan."""
    call_spec = ep.call_spec
    tree = tree_json(call_spec.in_spec)
    return schema.ContainerMetadata(
        with_signature(tree, inputs, outputs), tree_json(call_spec.out_spec)
    )
