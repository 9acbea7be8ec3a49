"""Constant tensors that the graph owns become inputs, like every other constant of the program.

Works on the top-level graph; bodies of control flow keep their constants as attributes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)
from torch.fx import Graph, Node

from executorch_py.exir.ir.fake_values import fake_mode_of
from executorch_py.exir.ir.graph import placeholders
from executorch_py.exir.passes.base import Contract, Pass


class LiftConstants(Pass):
    """Turn `get_attr` tensors into buffers `_lifted_tensor_constantN`."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        gm, signature = program.graph_module, program.graph_signature
        mode = fake_mode_of(gm)
        attributes = [
            node
            for node in gm.graph.find_nodes(op="get_attr")
            if isinstance(getattr(gm, str(node.target), None), torch.Tensor)
        ]
        if not attributes:
            return False
        before = _first_user_input(gm.graph, signature)
        assert before is not None
        lifted: list[InputSpec] = []
        index = len(signature.buffers)
        for node in attributes:
            value = getattr(gm, str(node.target))
            while f"_lifted_tensor_constant{index}" in program.state_dict:
                index += 1
            name = f"_lifted_tensor_constant{index}"
            with gm.graph.inserting_before(before):
                constant = gm.graph.placeholder(name)
            constant.meta = dict(node.meta)
            constant.meta["val"] = _constant_value(value, mode)
            node.replace_all_uses_with(constant)
            gm.graph.erase_node(node)
            lifted.append(InputSpec(InputKind.BUFFER, TensorArgument(constant.name), name, True))
            program.state_dict[name] = value
        for node in attributes:
            if hasattr(gm, str(node.target)):
                delattr(gm, str(node.target))
        specs = signature.input_specs
        kinds = [spec.kind for spec in specs]
        has_user_input = InputKind.USER_INPUT in kinds
        position = kinds.index(InputKind.USER_INPUT) if has_user_input else len(kinds)
        signature.input_specs = [*specs[:position], *lifted, *specs[position:]]
        return True


def lift_constant_tensor_pass(ep: ExportedProgram) -> ExportedProgram:
    """LiftConstants under upstream's name: changes the program in place, and returns it."""
    if LiftConstants().run(ep):
        ep.graph_module.recompile()
    return ep


def _first_user_input(graph: Graph, signature: ExportGraphSignature) -> Node | None:
    """The node that constants go before: the first user input, else the first call."""
    kinds = [spec.kind for spec in signature.input_specs]
    inputs = placeholders(graph)
    position = kinds.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in kinds else len(kinds)
    if position < len(inputs):
        return inputs[position]
    return next((node for node in graph.nodes if node.op != "placeholder"), None)


def _constant_value(value: torch.Tensor, mode: Any) -> Any:
    if mode is None:
        return value
    fake = mode.from_tensor(value, static_shapes=True)
    # Re-tracing passes see the real value through this attribute and can fold with it.
    fake.constant = value
    return fake
