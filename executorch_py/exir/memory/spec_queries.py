"""Tensor specs of a list of nodes, and their lifetimes, for planning passes written for upstream.

Names, arguments and results are upstream's. The planner of this package uses `lifetime` instead,
which also follows control-flow bodies. Relies on `node.meta["spec"]`; knows nothing of offsets.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

from torch import fx
from torch.export.graph_signature import ExportGraphSignature
from torch.utils import _pytree as pytree

from executorch_py.exir import memory
from executorch_py.exir.error import internal_assert
from executorch_py.exir.ir.op_traits import (
    CONTROL_FLOW,
    higher_order_name,
    is_delegate_call,
    is_inplace,
    is_out_variant,
)
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.memory.lifetime import mutable_placeholders, node_specs


def filter_nodes(inputs: Iterable[Any]) -> list[fx.Node]:
    """The nodes among some arguments, those inside lists and dicts included."""
    return [item for item in pytree.tree_leaves(list(inputs)) if isinstance(item, fx.Node)]


def get_node_tensor_specs(node: fx.Node) -> list[TensorSpec]:
    """The tensor specs of a node's result, as a list; for a view, those of its base."""
    base = node.args[0] if node.target is memory.view else node
    return list(node_specs(base)) if isinstance(base, fx.Node) else []


def get_graph_input_tensors(
    nodes: Iterable[fx.Node], graph_signature: ExportGraphSignature | None = None
) -> set[TensorSpec]:
    """Specs of the placeholders, without buffers that the method writes."""
    mutable = mutable_placeholders(graph_signature)
    return {
        spec
        for node in nodes
        if node.op == "placeholder" and node.name not in mutable
        for spec in get_node_tensor_specs(node)
    }


def get_graph_output_tensors(nodes: Iterable[fx.Node]) -> set[TensorSpec]:
    """Specs of everything the graph returns."""
    return {s for node in nodes if node.op == "output" for s in get_node_tensor_specs(node)}


def collect_specs_from_nodes(
    nodes: Iterable[fx.Node],
    graph_signature: ExportGraphSignature | None = None,
    ignore_graph_input: bool = False,
    ignore_graph_output: bool = False,
    ignore_mutable_buffers: bool = False,
    ignore_const: bool = True,
    ignore_out_var_node: bool = True,
    dedup: bool = True,
    do_assertion: bool = True,
    ignore_dynamic_unbound_tensor: bool = True,
) -> Iterator[TensorSpec]:
    """The specs of some nodes, without those that an `ignore_` argument names.

    In-place operators give none: their results are their arguments. With `do_assertion`, a node
    that neither reserves memory nor is an input, an output or a call with a body is an error.
    """
    nodes = list(nodes)
    skipped: set[TensorSpec] = set()
    if ignore_graph_input:
        skipped |= get_graph_input_tensors(nodes, graph_signature)
    if ignore_graph_output:
        skipped |= get_graph_output_tensors(nodes)
    if ignore_mutable_buffers:
        mutable = mutable_placeholders(graph_signature)
        skipped.update(s for n in nodes if n.name in mutable for s in get_node_tensor_specs(n))
    for node in nodes:
        specs = _specs_of(node, ignore_out_var_node)
        internal_assert(
            not specs or not do_assertion or _reserves_memory(node),
            f"{node.format_node()}: no memory is planned for this kind of node; "
            "plan after ToOutVarPass, or pass do_assertion=False",
        )
        for spec in specs:
            unbound = ignore_dynamic_unbound_tensor and spec.is_dynamic_unbound_tensor
            if unbound or spec in skipped or (ignore_const and spec.const):
                continue
            if dedup:
                skipped.add(spec)
            yield spec


def _specs_of(node: fx.Node, ignore_out_var_node: bool) -> list[TensorSpec]:
    if node.op == "get_attr":
        return []
    if node.op == "call_function" and (
        is_inplace(node.target) or (ignore_out_var_node and is_out_variant(node.target))
    ):
        return []
    return get_node_tensor_specs(node)


def _reserves_memory(node: fx.Node) -> bool:
    return (
        node.op in ("placeholder", "output")
        or node.target in (memory.alloc, memory.view, memory.concat, memory.patch)
        or node.target is operator.getitem
        or higher_order_name(node.target) in CONTROL_FLOW
        or is_delegate_call(node.target)
    )


def update_tensor_lifetime(
    node: fx.Node,
    spec: TensorSpec,
    node_idx: int,
    max_node_idx: int,
    gs: ExportGraphSignature | None = None,
) -> None:
    """Let a tensor live at `node_idx` too: inputs live from the start, written buffers to the
    end.
    """
    start, end = spec.lifetime
    is_input = node.op == "placeholder"
    start = 0 if is_input else node_idx if start is None else min(start, node_idx)
    end = node_idx if end is None else max(end, node_idx)
    if is_input and node.name in mutable_placeholders(gs):
        end = max_node_idx
    spec.lifetime = [start, end]
