"""Decomposition of torchao's quantization operators that have neither a kernel nor a delegate.

    choose_qparams_affine, quantize_affine, dequantize_affine, and any operator of torchao's that
    torch can write as core operators

Partitioners, PerTokenQparams and WeightOnlyQuantization know these operators. The rest (activations
of 7 bits, scales fixed before export, products of integers in a form that
decompose/torchao_linear.py does not know) is computed by torchao's own arithmetic, with the numbers
of eager torch. Leaves ATen operators, which the passes to the edge dialect must follow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx

from executorch_py.exir.ir.generated_out_variants import out_variant_name
from executorch_py.exir.ir.graph import all_graph_modules, erase_dead_nodes
from executorch_py.exir.ir.op_traits import is_getitem, op_overload
from executorch_py.exir.ir.out_variants import find_out_variant
from executorch_py.exir.ir.runtime_kernels import has_kernel_named
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts, inherit_meta


class DecomposeAffine(Pass):
    """Compute torchao's quantization without kernels by core operators."""

    # Casts stay `_to_copy`, which has a kernel; the edge dialect would cast in dim orders.
    contract = Contract(requires=facts(Fact.FUNCTIONAL), ends=facts(Fact.DIM_ORDER))

    def run(self, program: ExportedProgram) -> bool:
        changed = False
        for module in all_graph_modules(program.graph_module):
            found = [node for node in module.graph.nodes if _has_no_kernel(node)]
            for node in found:
                _decompose(node)
            if found:
                erase_dead_nodes(module.graph)
                changed = True
        return changed


def _has_no_kernel(node: fx.Node) -> bool:
    op = op_overload(node.target) if node.op == "call_function" else None
    if op is None or op.namespace != "torchao":
        return False
    if not op._can_decompose() or find_out_variant(op) is not None:
        return False
    return not has_kernel_named(out_variant_name(op) or "")


def _decompose(node: fx.Node) -> None:
    """Put the operator's decomposition in its place."""
    graph, operands = node.graph, list(node.all_input_nodes)
    traced = _traced(node, operands)
    made = dict(zip(traced.graph.find_nodes(op="placeholder"), operands, strict=True))
    results: list[fx.Node] = []
    with graph.inserting_before(node):
        for call in traced.graph.nodes:
            if call.op == "output":
                results = [made[result] for result in call.args[0]]
            elif call.op != "placeholder":
                made[call] = graph.node_copy(call, made.__getitem__)
                inherit_meta(made[call], node)
    for user in list(node.users):
        if is_getitem(user.target):
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
    if node.users:
        node.replace_all_uses_with(results[0])
    graph.erase_node(node)


def _traced(node: fx.Node, operands: list[fx.Node]) -> fx.GraphModule:
    """The graph of the operator in core operators, for its operands' shapes."""
    op = op_overload(node.target)
    assert op is not None

    def run(*values: Any) -> list[torch.Tensor]:
        given = dict(zip(operands, values, strict=True))
        args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
        found = op.decompose(*args, **kwargs)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    table = torch._decomp.core_aten_decompositions()
    with torch.no_grad():
        traced = make_fx(run, table)(*(operand.meta["val"] for operand in operands))
    traced.graph.eliminate_dead_code()
    return traced
