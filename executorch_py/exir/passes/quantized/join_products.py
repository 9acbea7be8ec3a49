"""JoinProducts: products of the same rows with weights in groups become one call.

    a = qlinear_groups(rms_norm(x, …), A)            a, b, c = joint_qlinear_groups(x, …, [A, B, C])
    b = qlinear_groups(rms_norm(x, …), B)      ->
    c = qlinear_groups(rms_norm(x, …), C)

    chain(qlinear_groups(x, A), steps, [qlinear_groups(x, B)])  ->  gated_qlinear_groups(x, [A, B])

A norm before a single product becomes part of it, too.
The rows are quantized once, threads meet once, and what lies between is in the cache. Every number
is computed as before, with the same bits. Relies on the steps that FuseEpilogues found.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.dialects.joint_ops import GATED, JOINT, MAX_PRODUCTS
from executorch_py.exir.ir.graph import all_graph_modules, erase_dead_nodes, flat_outputs
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import op_overload
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_PRODUCT = "executorch_py::qlinear_groups"
_NORM = "executorch_py::rms_norm"
_CHAIN = "executorch_py::chain"
_LISTS = ("weight", "scales", "minimums", "sums", "addends")
_ABSENT = ("scale", "zero_point", "zero_points", "norm_eps")


class JoinProducts(Pass):
    """Merge products of the same rows, the norm before them and the steps on two of them."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        changed = False
        for module in all_graph_modules(program.graph_module):
            joined = [_gate(node) for node in list(module.graph.nodes)]
            joined += [_join(products) for products in _sets(module.graph)]
            if any(joined):
                erase_dead_nodes(module.graph)
                changed = True
        return changed


class _Rows(NamedTuple):
    """The rows that products read, and the norm before them."""

    x: fx.Node
    norm_weight: fx.Node | None
    norm_eps: float | None


def _is_product(node: Any) -> bool:
    """Whether a node is a product of rows of f32, which no norm precedes yet."""
    return is_call(node, _PRODUCT) and all(argument(node, name) is None for name in _ABSENT)


def _is_bare(node: Any) -> bool:
    """Whether a node is a product with nothing behind it."""
    return _is_product(node) and argument(node, "residual") is None


def _rows(products: list[fx.Node]) -> _Rows:
    """The rows of products that read the same ones; a norm with other readers stays a call."""
    x = argument(products[0], "input")
    if is_call(x, _NORM) and set(x.users) == set(products):
        return _Rows(argument(x, "input"), argument(x, "weight"), argument(x, "eps"))
    return _Rows(x, None, None)


def _operands(products: list[fx.Node]) -> tuple[Any, ...]:
    """The arguments that both operators have first."""
    lists = [[argument(node, name) for node in products] for name in _LISTS]
    return (*_rows(products), *lists, argument(products[0], "group"))


def _gate(node: fx.Node) -> bool:
    """Merges the two products that a chain of steps begins with and reads."""
    if not is_call(node, _CHAIN):
        return False
    first, text, numbers, tensors = node.args
    products = [first, *tensors]
    if len(products) != 2 or products[0] is products[1] or not all(map(_is_bare, products)):
        return False
    shared = [[argument(p, name) for p in products] for name in ("input", "group", "channels")]
    if any(a != b for a, b in shared) or any(set(p.users) != {node} for p in products):
        return False
    node.args = (*_operands(products), shared[2][0], text, numbers)
    node.target = edge_op(GATED)
    return True


def _sets(graph: fx.Graph) -> list[list[fx.Node]]:
    """Products of the same rows in groups of one size; others, and outputs, alone."""
    found: dict[Any, list[fx.Node]] = {}
    outputs = flat_outputs(graph)
    for node in filter(_is_product, graph.nodes):
        is_alone = node in outputs or not _is_bare(node)
        key = node if is_alone else (argument(node, "input"), argument(node, "group"))
        found.setdefault(key, []).append(node)
    step = MAX_PRODUCTS
    return [nodes[i : i + step] for nodes in found.values() for i in range(0, len(nodes), step)]


def _join(products: list[fx.Node]) -> bool:
    """Merges products, or one product and the norm before it."""
    first = products[0]
    if len(products) == 1:
        rows = _rows(products)
        if rows.norm_eps is None:
            return False
        op = op_overload(first.target)
        assert op is not None
        names = [arg.name for arg in op._schema.arguments]
        merged = {"input": rows.x, "norm_weight": rows.norm_weight, "norm_eps": rows.norm_eps}
        first.args = tuple(merged.get(name, argument(first, name)) for name in names)
        first.kwargs = {}
        return True
    channels = [argument(node, "channels") for node in products]
    with first.graph.inserting_before(first):
        call = first.graph.call_function(edge_op(JOINT), (*_operands(products), channels))
        call.meta = {k: v for k, v in first.meta.items() if k not in ("val", "spec")}
        call.meta["val"] = [node.meta["val"] for node in products]
        for i, node in enumerate(products):
            item = first.graph.call_function(operator.getitem, (call, i))
            item.meta = dict(node.meta)
            node.replace_all_uses_with(item)
    return True
