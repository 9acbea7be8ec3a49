"""Constants and buffers in unusual layouts are stored contiguously.

A file can name two layouts of a constant: contiguous and channels_last. Parameters are laid out
when they are emitted.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from executorch_py.exir.ir.fake_values import contiguous_like, refresh_users
from executorch_py.exir.ir.graph import placeholders
from executorch_py.exir.passes.base import Contract, Pass


class ConvertConstantDimOrder(Pass):
    """Make constants in unusual layouts contiguous, and correct the values of dependent nodes."""

    contract = Contract()

    def run(self, program: ExportedProgram) -> bool:
        nodes = {node.name: node for node in placeholders(program.graph)}
        converted: list[Node] = []
        for spec in program.graph_signature.input_specs:
            if spec.target is None:
                continue
            if spec.kind not in (InputKind.CONSTANT_TENSOR, InputKind.BUFFER):
                continue
            # Buffers that are not persistent live with the constants.
            in_state = spec.target in program.state_dict
            holder = program.state_dict if in_state else program.constants
            tensor = holder.get(spec.target)
            if not _needs_conversion(tensor):
                continue
            holder[spec.target] = tensor.contiguous()
            node = nodes[spec.arg.name]
            node.meta["val"] = contiguous_like(node.meta["val"])
            converted.append(node)
        refresh_users(program.graph_module, converted)
        return bool(converted)


def convert_constant_dim_order_pass(exported_program: ExportedProgram) -> ExportedProgram:
    """ConvertConstantDimOrder under upstream's name, in place; returns the program."""
    ConvertConstantDimOrder().run(exported_program)
    return exported_program


def _needs_conversion(tensor: object) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_contiguous()
        and not (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
    )
