"""FunctionalForms: in-place operators of the user's passes become functional ones.

`reinplace_pass` writes `relu_(x)`, `add_(x, y)` or `index_put_(buffer, …)` on request, and only the
last has a kernel. `relu(x)` has the same value; later passes let it share the memory of `x`, and
update buffers in place. `index_copy_` becomes `index_put`, which has a kernel. A call stays as it
is if the old contents are read afterwards, if it changes a tensor that the method may not, and if
the operator is a user's with a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument

from executorch_py.exir.dialects.edge_ops import EdgeOpOverload, edge_op, ops
from executorch_py.exir.ir.graph import mutation_targets, output_node
from executorch_py.exir.ir.inplace_calls import functional_variant, is_read_after, owner_of
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import mutated_positions, op_key, op_overload
from executorch_py.exir.ir.runtime_kernels import has_kernel_named
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts


class FunctionalForms(Pass):
    """Replace in-place operators by their functional forms."""

    contract = Contract(ensures=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        graph = program.graph_module.graph
        found = [node for node in graph.nodes if _has_form(node)]
        if not found:
            return False
        position = {node: i for i, node in enumerate(graph.nodes)}
        renamed = _read_results(program, found, position)
        changeable = set(mutation_targets(program).values())
        safe = [node for node in found if _is_safe(node, position, changeable)]
        for node in safe:
            _make_functional(node)
        return bool(safe) or renamed


def _read_results(
    program: ExportedProgram, found: Sequence[fx.Node], position: Mapping[fx.Node, int]
) -> bool:
    """Let later readers of buffers that are their own new values read the operators' results.

    A pass that adds `index_put_(buffer, …)` returns the buffer as its new value, where torch.export
    returns the result.
    """
    specs = program.graph_signature.output_specs
    returned: Any = output_node(program.graph).args[0]
    states = {
        returned[i]: i
        for i, name in mutation_targets(program).items()
        if getattr(returned[i], "op", "") == "placeholder" and returned[i].name == name
    }
    changed = False
    for node in found:
        written: Any = node.args[0]
        i = states.pop(written, None) if isinstance(written, fx.Node) else None
        if i is None:
            continue
        written.replace_all_uses_with(
            node, lambda reader, after=position[node]: position[reader] > after
        )
        specs[i] = replace(specs[i], arg=TensorArgument(node.name))
        states[node] = i
        node.meta.setdefault("val", written.meta["val"])
        changed = True
    return changed


def _has_form(node: fx.Node) -> bool:
    op = op_overload(node.target) if node.op == "call_function" else None
    if op is None or not mutated_positions(op) or functional_variant(op) is None:
        return False
    key = op_key(op)
    return key == "aten::index_put_" or not has_kernel_named(key)


def _is_safe(node: fx.Node, position: dict[fx.Node, int], changeable: set[str]) -> bool:
    written = node.args[0]
    if not isinstance(written, fx.Node):
        return False
    owner = owner_of(written)
    if owner.op == "placeholder" and owner.name not in changeable:
        return False
    return not is_read_after(owner, position[node], position, {node})


def _make_functional(node: fx.Node) -> None:
    op = op_overload(node.target)
    form = functional_variant(op) if op is not None else None
    assert form is not None
    if op_key(form) == "aten::index_copy" and argument(node, "index").meta["val"].dim() == 1:
        tensor, dim, index, source = (argument(node, a.name) for a in form._schema.arguments)
        indices = [None] * (dim % node.meta["val"].dim()) + [index]
        node.target, node.kwargs = ops.edge.aten.index_put.default, {}
        node.args = (tensor, indices, source)
    else:
        node.target = edge_op(form) if isinstance(node.target, EdgeOpOverload) else form
