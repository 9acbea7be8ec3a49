"""ToOutVarPass: functional operators become out variants that write into `memory.alloc` nodes.

Each result gets one `alloc` right before the call; its size is the upper bound of the result's
shape. In-place operators, views, scalar operators, delegates and control flow are left as they are.
A user's operator with a kernel and without an out variant gets an out variant. Operators without
either are reported together.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.generated_out_variants import make_out_variant, out_variant_name
from executorch_py.exir.ir.graph import all_graph_modules, source_line
from executorch_py.exir.ir.op_traits import (
    is_inplace,
    is_scalar_op,
    op_key,
    op_overload,
    out_arguments,
)
from executorch_py.exir.ir.out_variants import find_out_variant
from executorch_py.exir.ir.runtime_kernels import has_kernel_named, kernel_advice
from executorch_py.exir.ir.tensor_spec import TensorSpec


class ToOutVarPass(PassBase):
    """Rewrite functional operators to their out variants."""

    def __init__(self, ignore_to_out_var_failure: bool = False) -> None:
        super().__init__()
        self.ignore_to_out_var_failure = ignore_to_out_var_failure

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        missing: dict[str, fx.Node] = {}
        changed = False
        for module in all_graph_modules(graph_module):
            for node in list(module.graph.nodes):
                op = op_overload(node.target) if node.op == "call_function" else None
                if op is None or is_inplace(op) or is_scalar_op(op) or out_arguments(op):
                    continue
                out_variant = _out_variant_of(node.target, op)
                if out_variant is None:
                    missing.setdefault(op_key(op), node)
                    continue
                _rewrite(module.graph, node, out_variant)
                changed = True
        if missing and not self.ignore_to_out_var_failure:
            raise _missing_error(missing)
        return PassResult(graph_module, changed)


def _out_variant_of(target: Any, op: OpOverload) -> OpOverload | None:
    found = find_out_variant(op)
    if found is None and hasattr(target, "to_out_variant"):
        try:
            found = op_overload(target.to_out_variant())
        except RuntimeError:
            found = None
    if found is None and has_kernel_named(out_variant_name(op) or ""):
        found = make_out_variant(op)
    return found


def _rewrite(graph: fx.Graph, node: fx.Node, out_variant: OpOverload) -> None:
    names = out_arguments(out_variant)
    specs = node.meta["spec"] if "spec" in node.meta else _specs_of_value(node)
    returns_list = len(names) == 1 and not isinstance(specs, TensorSpec)
    groups = [specs] if len(names) == 1 else list(specs)
    outs: dict[str, Any] = {}
    with graph.inserting_before(node):
        for name, group in zip(names, groups, strict=True):
            if returns_list and isinstance(group, (list, tuple)):
                outs[name] = [_alloc(graph, node, spec) for spec in group]
            else:
                outs[name] = _alloc(graph, node, group)
    kept = {arg.name for arg in out_variant._schema.arguments}
    args, kwargs = _fit_arguments(node, out_variant, kept)
    node.target, node.args = out_variant, args
    node.kwargs = {**kwargs, **outs}


def _specs_of_value(node: fx.Node) -> Any:
    """The specs of a node that SpecPropPass did not visit."""
    return pytree.tree_map_only(torch.Tensor, TensorSpec.from_tensor, node.meta["val"])


def _alloc(graph: fx.Graph, node: fx.Node, spec: Any) -> fx.Node | None:
    if not isinstance(spec, TensorSpec):
        return None
    alloc = graph.call_function(memory.alloc, ((tuple(spec.shape), spec.dtype),))
    alloc.meta["spec"] = spec
    for key in ("stack_trace", "nn_module_stack"):
        if key in node.meta:
            alloc.meta[key] = node.meta[key]
    return alloc


def _fit_arguments(
    node: fx.Node, out_variant: OpOverload, kept: set[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the functional call, in the out variant's order."""
    source = op_overload(node.target)
    assert source is not None
    given = {
        arg.name: value for arg, value in zip(source._schema.arguments, node.args, strict=False)
    }
    given.update(node.kwargs)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    positional = True
    for arg in out_variant._schema.arguments:
        if arg.name not in given:
            positional = False
        elif positional and not arg.kwarg_only:
            args.append(given[arg.name])
        elif arg.name in kept:
            kwargs[arg.name] = given[arg.name]
    return tuple(args), kwargs


def _missing_error(missing: dict[str, fx.Node]) -> ExportError:
    lines = []
    advice = ""
    for key, node in missing.items():
        where = source_line(node)
        lines.append(f"  {key} (node {node.name})" + (f" at {where}" if where else ""))
        op = op_overload(node.target)
        name = None if op is None else out_variant_name(op)
        if op is not None and name and not advice:
            n_outputs = len(op._schema.returns)
            n_args = len(op._schema.arguments) + n_outputs + 1
            advice = f"\n{kernel_advice(name, n_args, n_outputs)}"
    return ExportError(
        ExportErrorType.NOT_SUPPORTED,
        "Missing out variants: these operators have no out variant registered with torch, so no "
        "kernel can be called for them:\n"
        + "\n".join(lines)
        + "\nDecompose them, delegate them to a backend, "
        "or register `<name>.out` with torch.library before lowering." + advice,
    )
