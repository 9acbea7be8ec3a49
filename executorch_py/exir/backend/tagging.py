"""Tagging of data: partitioners own the parameters and buffers that their operators use."""

from __future__ import annotations

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from executorch_py.exir.ir.graph import trained_parameters

_DATA = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def _data_placeholders(edge_program: ExportedProgram) -> list[tuple[fx.Node, bool]]:
    """(placeholder of a parameter, buffer or constant, whether the program writes it).

    Weights that training updates are left out: an optimiser could not reach them in a delegate.
    """
    signature = edge_program.graph_signature
    mutated, trained = set(signature.buffers_to_mutate.values()), trained_parameters(signature)
    specs = {
        spec.arg.name: spec
        for spec in signature.input_specs
        if spec.kind in _DATA and spec.target not in trained
    }
    return [
        (node, specs[node.name].target in mutated)
        for node in edge_program.graph.nodes
        if node.op == "placeholder" and node.name in specs
    ]


def _tag_by_users(node: fx.Node) -> None:
    """The smallest tag among the users, so that it does not depend on their order."""
    tags = {user.meta.get("delegation_tag") for user in node.users} - {None}
    if tags:
        node.meta["delegation_tag"] = min(tags)


def tag_constant_data(edge_program: ExportedProgram) -> None:
    """Let partitions own the parameters, constants and unwritten buffers that they use."""
    for node, mutated in _data_placeholders(edge_program):
        if not mutated:
            _tag_by_users(node)


def tag_mutated_buffer(edge_program: ExportedProgram) -> None:
    """Let partitions own the buffers that they write."""
    for node, mutated in _data_placeholders(edge_program):
        if mutated:
            _tag_by_users(node)


def remove_first_quant_and_last_dequant(graph_module: fx.GraphModule) -> None:
    """Make a quantised graph take and return quantised values."""
    from executorch_py.exir.ir.op_traits import op_key

    for node in graph_module.graph.nodes:
        key = op_key(node.target) if node.op == "call_function" else ""
        source = node.args[0] if node.args else None
        if key == "quantized_decomposed::quantize_per_tensor":
            if isinstance(source, fx.Node) and source.op == "placeholder":
                node.replace_all_uses_with(source)
        elif key == "quantized_decomposed::dequantize_per_tensor":
            for user in [u for u in node.users if u.op == "output"]:
                user.replace_input_with(node, source)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
