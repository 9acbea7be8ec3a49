"""InsertWriteBack: a mutation that the signature describes becomes a `copy_` in the graph.

The value returned for a mutated buffer (or mutated input) is copied into its placeholder at the end
of the graph, unless in-place operators already wrote it there. Values that are themselves mutated
placeholders are cloned first, so that exchanging two buffers works.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, OutputSpec, TensorArgument

from executorch_py.exir import memory
from executorch_py.exir.ir.graph import (
    erase_dead_nodes,
    mutation_targets,
    output_node,
    placeholders,
)
from executorch_py.exir.ir.op_traits import (
    RESHAPES,
    SOMETIMES_RESHAPES,
    is_inplace,
    mutated_positions,
    op_key,
    op_overload,
)
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts


class InsertWriteBack(Pass):
    """Copy the values returned for mutated buffers and inputs into them."""

    contract = Contract(ends=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        program._graph_signature, changed = _insert_copies(program)
        return changed


def insert_write_back_for_buffers_pass(
    ep: ExportedProgram,
) -> tuple[fx.GraphModule, ExportGraphSignature]:
    """Insert the copies; returns the same graph module, and the signature with output names."""
    return ep.graph_module, _insert_copies(ep)[0]


def _insert_copies(ep: ExportedProgram) -> tuple[ExportGraphSignature, bool]:
    """The signature of the program with the copies, and whether there is anything new."""
    gm = ep.graph_module
    by_name = {node.name: node for node in placeholders(gm.graph)}
    targets = {i: by_name[name] for i, name in mutation_targets(ep).items()}
    if not targets:
        return ep.graph_signature, False
    output = output_node(gm.graph)
    values = list(output.args[0])
    specs: list[OutputSpec] = list(ep.graph_signature.output_specs)
    written = set(targets.values())
    with gm.graph.inserting_before(output):
        for position in targets:
            value = values[position]
            if _root(value) in written and not _written_in_place(value, targets[position]):
                values[position] = _clone(gm.graph, value)
        for position, placeholder in targets.items():
            value = values[position]
            if _written_in_place(value, placeholder):
                continue
            values[position] = _copy_back(gm.graph, placeholder, value)
            specs[position] = replace(
                specs[position], arg=TensorArgument(name=values[position].name)
            )
    changed = any(new is not old for new, old in zip(values, output.args[0], strict=True))
    output.args = (tuple(values),)
    changed |= erase_dead_nodes(gm.graph)
    return ExportGraphSignature(ep.graph_signature.input_specs, specs), changed


def _copy_back(graph: fx.Graph, placeholder: fx.Node, value: fx.Node) -> fx.Node:
    node = graph.call_function(torch.ops.aten.copy_.default, (placeholder, value))
    node.meta["val"] = placeholder.meta["val"]
    for key in ("stack_trace", "debug_handle"):
        if isinstance(value, fx.Node) and key in value.meta:
            node.meta[key] = value.meta[key]
    return node


def _clone(graph: fx.Graph, value: fx.Node) -> fx.Node:
    node = graph.call_function(torch.ops.aten.clone.default, (value,))
    node.meta.update({k: v for k, v in value.meta.items() if k in ("val", "stack_trace")})
    return node


def _root(value: fx.Node) -> fx.Node:
    """The node whose memory a value may turn out to share."""
    while isinstance(value, fx.Node) and (
        value.target is memory.patch or op_key(value.target) in RESHAPES | SOMETIMES_RESHAPES
    ):
        value = value.args[0]
    return value


def _written_in_place(value: fx.Node, placeholder: fx.Node) -> bool:
    """Whether a value is the placeholder, or the placeholder after in-place operators only."""
    while isinstance(value, fx.Node) and value.op == "call_function":
        if value.target is memory.patch:
            value = value.args[0]
            continue
        if not is_inplace(value.target):
            break
        op = op_overload(value.target)
        assert op is not None
        value = value.args[mutated_positions(op)[0]]
    return value is placeholder
