"""Results of `cond` computed in place: each branch writes its outputs straight into the result's
storage.

Otherwise a branch's own tensor would have to stay in memory for as long as the result is used, once
per branch. Done before lifetimes are computed; a branch that returns one of its inputs, a constant,
or the same tensor twice keeps its own storage.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.ir.graph import all_graph_modules, body_modules, flat_outputs
from executorch_py.exir.ir.op_facts import higher_order_name
from executorch_py.exir.ir.tensor_spec import TensorSpec


def place_branch_outputs_in_results(gm: fx.GraphModule) -> None:
    """Let branch outputs use the memory of the `cond` results they become."""
    for module in all_graph_modules(gm):
        for node in module.graph.nodes:
            if node.op == "call_function" and higher_order_name(node.target) == "cond":
                results = pytree.tree_leaves(node.meta.get("spec"))
                for body in body_modules(module, node):
                    _join(results, body)


def _join(results: list[Any], body: fx.GraphModule) -> None:
    allocated = {
        spec
        for node in body.graph.nodes
        if node.target is memory.alloc
        for spec in pytree.tree_leaves(node.meta.get("spec"))
        if isinstance(spec, TensorSpec)
    }
    leaves = flat_outputs(body.graph)
    specs = [leaf.meta.get("spec") if isinstance(leaf, fx.Node) else None for leaf in leaves]
    for result, spec in zip(results, specs, strict=False):
        if not isinstance(result, TensorSpec) or not isinstance(spec, TensorSpec):
            continue
        if spec not in allocated or specs.count(spec) > 1 or spec.storage_base is not None:
            continue
        if result.dtype is spec.dtype and spec.nbytes() <= result.nbytes():
            spec.storage_base = result
            spec.storage_base_offset = 0
