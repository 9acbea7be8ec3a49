"""Constants and buffers of an exported program by node: read, replaced, added and deleted.

Names and arguments are upstream's, for passes of users' backends. Placeholder, signature and value
change together. The exporter's own passes use constants.py.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

from executorch_py.exir.ir.fake_values import fake_mode_of
from executorch_py.exir.ir.graph import output_node, placeholders

__all__ = [
    "create_constant_placeholder",
    "create_mutable_buffer",
    "delete_constant_placeholder",
    "get_param_tensor",
    "get_tensor_name",
    "is_get_attr_node",
    "is_param_node",
    "set_param_tensor",
]

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
# The name that a script asked for, where torch.fx gave another.
_REQUESTED = "requested_name"


def _spec_of(exp_prog: ExportedProgram, node: fx.Node | None) -> InputSpec | None:
    """The signature's entry of a parameter, buffer or constant."""
    for spec in exp_prog.graph_signature.input_specs:
        if node is not None and spec.kind in _CONSTANTS and spec.arg.name == node.name:
            return spec
    return None


def _place_of(exp_prog: ExportedProgram, spec: InputSpec) -> Any:
    """The dictionary that holds the value of an entry."""
    outside = spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False
    return exp_prog.constants if outside else exp_prog.state_dict


def is_get_attr_node(node: Any) -> bool:
    """Whether a node reads an attribute of the graph module."""
    return isinstance(node, fx.Node) and node.op == "get_attr"


def is_param_node(exp_prog: ExportedProgram, node: fx.Node) -> bool:
    """Whether a node is a parameter, a buffer, a constant or an attribute."""
    return is_get_attr_node(node) or _spec_of(exp_prog, node) is not None


def _owner_of(exp_prog: ExportedProgram, node: fx.Node) -> Any:
    """The module that has a node's attribute: its graph's, else the program's."""
    module = node.graph.owning_module
    return module if hasattr(module, str(node.target)) else exp_prog.graph_module


def get_param_tensor(exp_prog: ExportedProgram, node: fx.Node | None) -> torch.Tensor | None:
    """The value of a parameter, buffer, constant or attribute; RuntimeError for other nodes."""
    if node is None:
        return None
    spec = _spec_of(exp_prog, node)
    if spec is not None:
        value: torch.Tensor = _place_of(exp_prog, spec)[spec.target]
        return value
    if is_get_attr_node(node):
        found: torch.Tensor = getattr(_owner_of(exp_prog, node), str(node.target))
        return found
    raise RuntimeError(
        f"node {node.name}: expected a parameter, a buffer, a constant or an attribute, got "
        f"{node.op}"
    )


def get_tensor_name(exp_prog: ExportedProgram, node: fx.Node | None) -> str:
    """The name of a parameter, buffer, constant or attribute; "" for None."""
    if node is None:
        return ""
    spec = _spec_of(exp_prog, node)
    return str(node.target if spec is None else spec.target)


def set_param_tensor(exp_prog: ExportedProgram, node: fx.Node, data: torch.Tensor) -> None:
    """Replace the value of a parameter, buffer, constant or attribute."""
    old = get_param_tensor(exp_prog, node)
    if isinstance(old, torch.nn.Parameter):
        data = torch.nn.Parameter(data, requires_grad=old.requires_grad)
    spec = _spec_of(exp_prog, node)
    if spec is not None:
        _place_of(exp_prog, spec)[spec.target] = data
    else:
        setattr(_owner_of(exp_prog, node), str(node.target), data)


def _example(graph: fx.Graph, data: torch.Tensor) -> Any:
    mode = fake_mode_of(graph.owning_module) if graph.owning_module is not None else None
    if mode is None:
        raise RuntimeError("expected a graph with values of nodes, got one without a fake tensor")
    return mode.from_tensor(data, static_shapes=True)


def _placeholder(graph: fx.Graph, name: str) -> fx.Node:
    """A placeholder at the current place, under another name if a node has this one."""
    used = {node.name for node in graph.nodes}
    candidates = (name if i == 0 else f"{name}_{i}" for i in count())
    node = graph.create_node("placeholder", name, name=next(c for c in candidates if c not in used))
    node.target = node.name
    node.meta[_REQUESTED] = name
    return node


def _requested(graph: fx.Graph, name: str) -> fx.Node | None:
    made = (node for node in placeholders(graph) if node.meta.get(_REQUESTED) == name)
    return next(made, None)


def create_constant_placeholder(
    exp_program: ExportedProgram,
    graph: fx.Graph,
    name: str,
    kind: InputKind,
    data: torch.Tensor,
    persistent_buffer: bool | None = None,
) -> fx.Node:
    """Add a parameter, buffer or constant at the graph's current place, before user inputs.

    A second request of a name returns the first node.
    """
    known = _requested(graph, name)
    if known is not None:
        if known.name in exp_program.graph_signature.buffers_to_mutate:
            raise RuntimeError(f"'{name}': expected no mutable buffer of that name, got one")
        return known
    if kind not in _CONSTANTS:
        raise RuntimeError(f"'{name}': expected a parameter, buffer or constant, got {kind.name}")
    if kind is InputKind.BUFFER and persistent_buffer is None:
        raise RuntimeError(f"'{name}': expected persistent_buffer for a buffer, got None")
    example = _example(graph, data)
    node = _placeholder(graph, name)
    node.meta["val"] = example
    index = [n.name for n in placeholders(graph)].index(node.name)
    specs = exp_program.graph_signature.input_specs
    if any(spec.kind is InputKind.USER_INPUT for spec in specs[:index]):
        graph.erase_node(node)
        raise RuntimeError(f"'{name}': expected a place before user inputs, got input {index}")
    spec = InputSpec(kind, TensorArgument(node.name), node.name, persistent_buffer)
    is_parameter = kind is InputKind.PARAMETER
    value = torch.nn.Parameter(data, requires_grad=False) if is_parameter else data
    _place_of(exp_program, spec)[node.name] = value
    _sign(exp_program, [*specs[:index], spec, *specs[index:]])
    return node


def delete_constant_placeholder(exp_program: ExportedProgram, node: fx.Node) -> None:
    """Delete a parameter, buffer or constant that nothing reads, with its value."""
    if node.users:
        raise RuntimeError(f"node {node.name}: expected no users, got {len(node.users)}")
    spec = _spec_of(exp_program, node)
    if spec is None:
        raise RuntimeError(
            f"node {node.name}: expected a parameter, a buffer or a constant, got {node.op}"
        )
    del _place_of(exp_program, spec)[spec.target]
    _sign(exp_program, [s for s in exp_program.graph_signature.input_specs if s is not spec])
    node.graph.erase_node(node)


def create_mutable_buffer(exp_program: ExportedProgram, name: str, data: torch.Tensor) -> fx.Node:
    """Add a buffer that the program may write, after its other buffers; it is its own result.

    The name begins with `b_` by convention, and the buffer has the rest of it.
    """
    if not name or not name.strip():
        raise ValueError("name: expected the name of a buffer, got none")
    if not isinstance(data, torch.Tensor):
        raise ValueError(f"data: expected a tensor, got a {type(data).__name__}")
    graph, signature = exp_program.graph_module.graph, exp_program.graph_signature
    target = name.removeprefix("b_")
    if target in exp_program.state_dict or _requested(graph, name) is not None:
        raise RuntimeError(f"'{name}': expected a new name of a buffer, got one that is used")
    example, specs = _example(graph, data), signature.input_specs
    later = (InputKind.CONSTANT_TENSOR, InputKind.USER_INPUT)
    index = next((i for i, s in enumerate(specs) if s.kind in later), len(specs))
    inputs = placeholders(graph)
    following = inputs[index] if index < len(inputs) else next(iter(graph.nodes))
    with graph.inserting_before(following):
        node = _placeholder(graph, name)
    node.meta["val"] = example
    if node.name != name:
        target = node.name.removeprefix("b_")
    exp_program.state_dict[target] = data
    argument = TensorArgument(node.name)
    spec = InputSpec(InputKind.BUFFER, argument, target, persistent=True)
    results = signature.output_specs
    at = next((i for i, s in enumerate(results) if s.kind is OutputKind.USER_OUTPUT), 0)
    mutation = OutputSpec(OutputKind.BUFFER_MUTATION, argument, target)
    last = output_node(graph)
    values: Any = last.args[0]
    last.args = ((*values[:at], node, *values[at:]),)
    _sign(
        exp_program,
        [*specs[:index], spec, *specs[index:]],
        [*results[:at], mutation, *results[at:]],
    )
    return node


def _sign(
    ep: ExportedProgram, inputs: list[InputSpec], outputs: list[OutputSpec] | None = None
) -> None:
    """Change the signature in place: a pass manager that runs now has the same one."""
    ep.graph_signature.input_specs[:] = inputs
    if outputs is not None:
        ep.graph_signature.output_specs[:] = outputs
