"""Results of `cond` computed in place: a branch writes its outputs straight into the result's
storage.

The branch's output gets the spec of the result, so both are one value of the emitted program, and
no copy is needed. Done before lifetimes are computed. A branch that returns one of its inputs, a
constant, a view, or the same tensor twice keeps its own storage, and the emitter copies.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.ir.graph import all_graph_modules, body_modules, flat_outputs
from executorch_py.exir.ir.op_traits import higher_order_name
from executorch_py.exir.ir.tensor_spec import TensorSpec


def place_branch_outputs_in_results(gm: fx.GraphModule) -> None:
    """Give branch outputs the specs of the `cond` results that they become; outer ones first."""
    for module in all_graph_modules(gm):
        for node in module.graph.nodes:
            if node.op == "call_function" and higher_order_name(node.target) == "cond":
                results = _leaves(node.meta.get("spec"))
                for body in body_modules(module, node):
                    _join(results, body)


def _leaves(structure: Any) -> list[Any]:
    return list(pytree.tree_leaves(structure))


def _join(results: list[Any], body: fx.GraphModule) -> None:
    owned = {
        spec
        for node in body.graph.nodes
        if node.target is memory.alloc
        for spec in _leaves(node.meta.get("spec"))
        if isinstance(spec, TensorSpec)
    }
    bases = {
        spec.storage_base
        for node in body.graph.nodes
        for spec in _leaves(node.meta.get("spec"))
        if isinstance(spec, TensorSpec)
    }
    leaves = flat_outputs(body.graph)
    specs = [leaf.meta.get("spec") if isinstance(leaf, fx.Node) else None for leaf in leaves]
    renamed: dict[int, TensorSpec] = {}
    for result, spec in zip(results, specs, strict=False):
        if spec in owned and spec not in bases and specs.count(spec) == 1 and _fits(spec, result):
            renamed[id(spec)] = result
    if renamed:
        for node in body.graph.nodes:
            if "spec" in node.meta:
                node.meta["spec"] = pytree.tree_map(
                    lambda s: renamed.get(id(s), s), node.meta["spec"]
                )


def _fits(spec: TensorSpec, result: Any) -> bool:
    return (
        isinstance(result, TensorSpec)
        and result.dtype is spec.dtype
        and result.dim_order == spec.dim_order
        and result.shape_dynamism == spec.shape_dynamism
        and list(result.shape) == list(spec.shape)
    )
