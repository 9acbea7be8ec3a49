"""Placeholders that hold the same tensor become one placeholder.

A trace that is not strict finds tensors by the objects that hold them. A key/value cache whose
tensors are also buffers of the module is then recorded twice: as buffers, which nothing reads, and
as constants, which the graph changes in place. torch's `run_decompositions` refuses such a program
("expected compiled_fn to be GraphModule"), and a runtime would keep two copies, of which one never
changes. Tensors that overlap in another way are left alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from executorch_py.exir.ir.graph import copy_program

# The order in which a kind is kept: a constant is replaced by a parameter or a buffer.
_RANK = {InputKind.PARAMETER: 0, InputKind.BUFFER: 1, InputKind.CONSTANT_TENSOR: 2}


def merge_shared_constants(program: ExportedProgram) -> ExportedProgram:
    """The program, or a copy in which no constant is the tensor of another placeholder."""
    replaced = _duplicates(program)
    if not replaced:
        return program
    program = copy_program(program)
    graph = program.graph_module.graph
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    for name, kept in replaced.items():
        nodes[name].replace_all_uses_with(nodes[kept])
        graph.erase_node(nodes[name])
    signature = program.graph_signature
    for spec in signature.input_specs:
        if getattr(spec.arg, "name", None) in replaced:
            program.constants.pop(spec.target, None)
    signature.input_specs = [
        spec for spec in signature.input_specs if getattr(spec.arg, "name", None) not in replaced
    ]
    program.graph_module.recompile()
    return program


def _duplicates(program: ExportedProgram) -> dict[str, str]:
    """Names of constants by placeholder, and the placeholders that hold the same tensors."""
    kept: dict[Any, str] = {}
    replaced: dict[str, str] = {}
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind in _RANK]
    for spec in sorted(specs, key=lambda spec: _RANK[spec.kind]):
        key = _place_of(_value_of(program, spec))
        if key is None:
            continue
        first = kept.setdefault(key, spec.arg.name)
        if first != spec.arg.name and spec.kind is InputKind.CONSTANT_TENSOR:
            replaced[spec.arg.name] = first
    return replaced


def _value_of(program: ExportedProgram, spec: InputSpec) -> Any:
    target = spec.target
    assert target is not None
    return program.state_dict.get(target, program.constants.get(target))


def _place_of(value: Any) -> Any:
    """Storage, offset, type and layout of a tensor in memory; None for others and empty ones."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    if value.numel() == 0 or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    layout = (value.storage_offset(), value.dtype, tuple(value.shape), value.stride())
    return (value.untyped_storage().data_ptr(), *layout)
