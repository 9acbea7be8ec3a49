"""HoistLoopConstants: results that a control-flow body computes from constants move out of it.

Small results become constants of the body. Transposed weights move in front of the control-flow
node, where FoldConstants folds them like those of any other layer; so a loop does not transpose its
weights in every round. Operands that no body reads any more are dropped. Runs before FoldConstants.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.constants import drop_unused_constants
from executorch_py.exir.ir.evaluate import (
    TRANSPOSES,
    dense_example,
    depends_on_operands_only,
    evaluate,
    is_plain,
    laid_out_like,
    result_bytes,
)
from executorch_py.exir.ir.graph import (
    all_graph_modules,
    body_modules,
    erase_dead_nodes,
    foldable_constants,
    placeholders,
)
from executorch_py.exir.ir.op_traits import QUANT_OPS, higher_order_name, op_key
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

# Position of the operands that every body reads as its last inputs and no body changes.
_OPERANDS = {"cond": 3, "map_impl": 2, "scan": 3, "while_loop": 3}
_SMALL_BYTES = 4096

Values = dict[fx.Node, Any]


class HoistLoopConstants(Pass):
    """Compute constants of control-flow bodies once: in front of their node, or at export."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        gm = program.graph_module
        known = {k: v for k, v in foldable_constants(program).items() if is_plain(v)}
        values: Values = {
            node: known[node.name].detach() for node in placeholders(gm.graph) if node.name in known
        }
        with torch.no_grad():
            changed = _visit(gm, values, _shared_bodies(gm))
        if changed:
            drop_unused_constants(program, set(known))
        return changed


def _shared_bodies(gm: fx.GraphModule) -> set[int]:
    """Bodies that several control-flow nodes run: their inputs cannot change for one of them."""
    count = Counter(
        id(body)
        for module in all_graph_modules(gm)
        for node in module.graph.nodes
        if higher_order_name(node.target) in _OPERANDS
        for body in body_modules(module, node)
    )
    return {body for body, uses in count.items() if uses > 1}


def _visit(module: fx.GraphModule, values: Values, shared: set[int]) -> bool:
    """Fold in the bodies of a module, innermost first; `values` are the constants it reads."""
    changed = False
    for node in list(module.graph.nodes):
        position = _OPERANDS.get(higher_order_name(node.target))
        if node.op != "call_function" or position is None:
            continue
        bodies = body_modules(module, node)
        if any(id(body) in shared for body in bodies):
            continue
        for body in bodies:
            inputs = _operand_inputs(body, node, position)
            inner = {i: values[o] for i, o in inputs.items() if o in values}
            inner.update(_attributes(body))
            changed |= _visit(body, inner, shared)
            changed |= _fold_small(body, inner)
        changed |= _hoist_transposes(module, node, bodies, position, values)
        changed |= _drop_unread_operands(node, bodies, position)
    return changed


def _operands(node: fx.Node, position: int) -> list[Any]:
    return list(node.args[position]) if len(node.args) > position else []


def _operand_inputs(body: fx.GraphModule, node: fx.Node, position: int) -> dict[fx.Node, Any]:
    """Placeholder of the body → operand that it reads."""
    operands = _operands(node, position)
    last = placeholders(body.graph)[-len(operands) :] if operands else []
    return dict(zip(last, operands, strict=True))


def _attributes(body: fx.GraphModule) -> Values:
    found: Values = {}
    for node in body.graph.nodes:
        value = getattr(body, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor):
            node.meta.setdefault("val", value)
            found[node] = value.detach()
    return found


def _fold_small(body: fx.GraphModule, values: Values) -> bool:
    """Replace small results that depend on constants only by attributes of the body."""
    constant = set(values)
    for node in body.graph.nodes:
        if depends_on_operands_only(node, QUANT_OPS) and all(
            n in constant for n in node.all_input_nodes
        ):
            constant.add(node)
    results = [
        node
        for node in body.graph.nodes
        if node in constant
        and node not in values
        and result_bytes(node) <= _SMALL_BYTES
        and any(user not in constant for user in node.users)
    ]
    for node in results:
        example = dense_example(node.meta["val"])
        _replace_by_attribute(body, node, laid_out_like(evaluate(node, values), example), example)
    if results:
        erase_dead_nodes(body.graph)
    return bool(results)


def _replace_by_attribute(
    body: fx.GraphModule, node: fx.Node, value: torch.Tensor, example: torch.Tensor
) -> None:
    name = f"_folded_{node.name}"
    body.register_buffer(name, value.contiguous() if value.dim() < 4 else value, persistent=False)
    with body.graph.inserting_before(node):
        made = body.graph.get_attr(name)
    made.meta.update({k: node.meta[k] for k in ("stack_trace",) if k in node.meta})
    made.meta["val"] = example
    node.replace_all_uses_with(made)


def _hoist_transposes(
    module: fx.GraphModule,
    node: fx.Node,
    bodies: list[fx.GraphModule],
    position: int,
    values: Values,
) -> bool:
    """Transpose constant operands in front of a control-flow node instead of inside its bodies."""
    hoisted: dict[Any, fx.Node] = {}
    for i, operand in enumerate(_operands(node, position)):
        inputs = [list(_operand_inputs(body, node, position))[i] for body in bodies]
        readers = [user for item in inputs for user in item.users]
        if operand not in values or not readers or not all(map(_is_transpose, readers)):
            continue
        if higher_order_name(node.target) == "cond" and len(operand.users) > 1:
            continue  # A transposition would run for branches not taken too, and may not fold.
        for reader in readers:
            key = (operand, op_key(reader.target), str(reader.args[1:]))
            if key not in hoisted:
                with module.graph.inserting_before(node):
                    hoisted[key] = module.graph.node_copy(reader, lambda _, o=operand: o)
                _add_operand(node, bodies, position, hoisted[key])
            body = next(b for b in bodies if b.graph is reader.graph)
            at = _operands(node, position).index(hoisted[key])
            reader.replace_all_uses_with(list(_operand_inputs(body, node, position))[at])
    for body in bodies:
        erase_dead_nodes(body.graph)
    return bool(hoisted)


def _is_transpose(node: fx.Node) -> bool:
    return op_key(node.target) in TRANSPOSES and not node.kwargs


def _add_operand(
    node: fx.Node, bodies: list[fx.GraphModule], position: int, operand: fx.Node
) -> None:
    node.args = (*node.args[:position], (*_operands(node, position), operand))
    for body in bodies:
        after = next(n for n in body.graph.nodes if n.op != "placeholder")
        with body.graph.inserting_before(after):
            made = body.graph.placeholder(operand.name)
        made.meta["val"] = operand.meta["val"]


def _drop_unread_operands(node: fx.Node, bodies: list[fx.GraphModule], position: int) -> bool:
    operands = _operands(node, position)
    inputs = [list(_operand_inputs(body, node, position)) for body in bodies]
    unread = {i for i in range(len(operands)) if not any(column[i].users for column in inputs)}
    for body, column in zip(bodies, inputs, strict=True):
        for i in unread:
            body.graph.erase_node(column[i])
    if unread:
        kept = tuple(item for i, item in enumerate(operands) if i not in unread)
        node.args = (*node.args[:position], kept)
    return bool(unread)
