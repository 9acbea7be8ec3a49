"""EdgeToBackendOpsPass: Python functions on sizes become `executorch_prim` operators that the
runtime has.

Comparisons the runtime lacks are written with those it has (`a != b` is `not a == b`). Pure target
rewriting; values and specs stay.
"""

from __future__ import annotations

import operator

import torch
from torch import fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import all_graph_modules, source_line
from executorch_py.exir.ir.op_facts import is_getitem, op_overload
from executorch_py.exir.ir.prim_ops import prim_op_for


class EdgeToBackendOpsPass(PassBase):
    """Retarget symbolic arithmetic to runtime operators."""

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        changed = False
        for module in all_graph_modules(graph_module):
            for node in list(module.graph.nodes):
                if node.op == "call_function" and _is_python_arithmetic(node):
                    _retarget(module.graph, node)
                    changed = True
        return PassResult(graph_module, changed)


def _is_python_arithmetic(node: fx.Node) -> bool:
    target = node.target
    if op_overload(target) is not None or is_getitem(target):
        return False
    return prim_op_for(target) is not None or target in (operator.ne, operator.pow)


def _retarget(graph: fx.Graph, node: fx.Node) -> None:
    op = prim_op_for(node.target)
    if op is not None:
        node.target = op
        return
    if node.target is operator.ne:
        equal, negate = prim_op_for(operator.eq), prim_op_for(torch.sym_not)
        with graph.inserting_before(node):
            inner = graph.call_function(equal, node.args)
        inner.meta.update({**node.meta, "val": None})
        inner.meta["spec"] = None
        node.target, node.args = negate, (inner,)
        return
    base, exponent = node.args
    if isinstance(exponent, int) and 1 <= exponent <= 8:
        _expand_power(graph, node, base, exponent)
        return
    where = source_line(node)
    raise ExportError(
        ExportErrorType.NOT_SUPPORTED,
        f"node {node.name} raises a size to a power that is not a small constant; no runtime "
        "operator does that. Compute it with multiplications." + (f" At {where}" if where else ""),
    )


def _expand_power(graph: fx.Graph, node: fx.Node, base: object, exponent: int) -> None:
    multiply = prim_op_for(operator.mul)
    product = base
    with graph.inserting_before(node):
        for _ in range(exponent - 1):
            product = graph.call_function(multiply, (product, base))
            product.meta.update(node.meta)
    node.replace_all_uses_with(product)
    graph.erase_node(node)
