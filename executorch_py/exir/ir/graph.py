"""Helpers over fx graphs and exported programs that every pass shares: copies, purity, constants,
messages.

Direct rewriting is the rule here: nothing in this module re-traces a graph. Values of `meta["val"]`
are shared between copies and never changed. Knows nothing of specs, memory or emission.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind

from executorch_py.exir.ir.op_traits import (
    is_delegate_call,
    is_getitem,
    is_scalar_op,
    mutated_positions,
    op_key,
    op_overload,
)
from executorch_py.exir.ir.stack_trace import is_users, trace_frames

Model = TypeVar("Model")
# The code of copied graph modules, until `recompile` generates it from the graph.
NO_CODE = "# This copy of a graph has no code yet: recompile() generates it.\n"


def deep_copy(model: Model) -> Model:
    """A deep copy, without torch's warning about its own deprecated class."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
        return copy.deepcopy(model)


def copy_graph_module(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph module with a graph and control-flow bodies of its own; tensors are shared."""
    graph = fx.Graph(tracer_cls=gm.graph._tracer_cls)
    made: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        made[node] = graph.node_copy(node, lambda n: made[n])
        # fx renames nodes that are called like a Python builtin; signatures know the old name.
        made[node].name = node.name
    graph._codegen = copy.copy(gm.graph._codegen)
    return module_over(gm, graph)


def module_over(gm: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """A module like `gm` that owns `graph`, without generated code."""
    new = fx.GraphModule(torch.nn.Module(), fx.Graph(), class_name=gm.__class__.__name__)
    new._graph = graph
    new._code = NO_CODE
    graph.owning_module = new
    new.meta = copy.copy(gm.meta)
    new._parameters = dict(gm._parameters)
    new._buffers = dict(gm._buffers)
    for name, child in gm._modules.items():
        is_body = isinstance(child, fx.GraphModule) and not hasattr(child, "processed_bytes")
        new._modules[name] = copy_graph_module(child) if is_body else child
    for name, value in gm.__dict__.items():
        if name not in new.__dict__ and not name.startswith("_"):
            new.__dict__[name] = value
    return new


def copy_program(ep: ExportedProgram) -> ExportedProgram:
    """A program that passes may change freely: new graph, signature and tables, the same tensors.

    The constructor is bypassed because it verifies the whole graph again.
    """
    new = copy.copy(ep)
    new._graph_module = copy_graph_module(ep.graph_module)
    new._graph_signature = copy.copy(ep.graph_signature)
    new._graph_signature.input_specs = list(ep.graph_signature.input_specs)
    new._graph_signature.output_specs = list(ep.graph_signature.output_specs)
    new._state_dict = dict(ep.state_dict)
    new._constants = dict(ep.constants)
    return new


def generate_code(ep: ExportedProgram) -> None:
    """Generate the code of those graph modules of a program that are copies without any."""
    for gm in all_graph_modules(ep.graph_module):
        if gm.code == NO_CODE:
            gm.recompile()


def body_modules(gm: fx.GraphModule, node: fx.Node) -> list[fx.GraphModule]:
    """The graph modules that a control-flow node is given, in argument order."""
    return [
        getattr(gm, str(arg.target))
        for arg in node.args
        if isinstance(arg, fx.Node)
        and arg.op == "get_attr"
        and isinstance(getattr(gm, str(arg.target), None), fx.GraphModule)
    ]


def all_graph_modules(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """The module itself, then the bodies of its control flow, depth first, each once."""
    seen: set[int] = set()
    stack = [gm]
    while stack:
        module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module
        stack += [body for node in module.graph.nodes for body in _bodies_of(module, node)]


def _bodies_of(gm: fx.GraphModule, node: fx.Node) -> list[fx.GraphModule]:
    if node.op != "call_function" or op_overload(node.target) or is_delegate_call(node.target):
        return []
    return body_modules(gm, node)


def placeholders(graph: fx.Graph) -> list[fx.Node]:
    """The inputs of a graph, in order."""
    return [node for node in graph.nodes if node.op == "placeholder"]


def output_node(graph: fx.Graph) -> fx.Node:
    """The node that returns the results."""
    return next(node for node in reversed(graph.nodes) if node.op == "output")


def flat_outputs(graph: fx.Graph) -> list[Any]:
    """The leaves of the output node, in order."""
    leaves: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, (list, tuple)):
            for item in value:
                visit(item)
        else:
            leaves.append(value)

    visit(output_node(graph).args[0])
    return leaves


def has_effects(node: fx.Node) -> bool:
    """Whether erasing an unused node would change what the program does."""
    if node.op in ("placeholder", "output"):
        return True
    if node.op == "get_attr":
        return False
    op = op_overload(node.target)
    if op is not None:
        return bool(mutated_positions(op)) or op_key(op).startswith("aten::_assert")
    if is_getitem(node.target) or is_scalar_op(node.target):
        return False
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def is_written(node: fx.Node) -> bool:
    """Whether a later operator updates the node's result in place."""
    for user in node.users:
        op = op_overload(user.target) if user.op == "call_function" else None
        for i in mutated_positions(op) if op is not None else ():
            if i < len(user.args) and any(n is node for n in nodes_in(user.args[i])):
                return True
    return False


def erase_dead_nodes(graph: fx.Graph) -> bool:
    """Remove unused nodes without effects; True if any was removed."""
    changed = False
    for node in reversed(graph.nodes):
        if not node.users and not has_effects(node):
            graph.erase_node(node)
            changed = True
    return changed


def trained_parameters(signature: ExportGraphSignature) -> set[str]:
    """Names of the parameters that a training program returns gradients of, to be updated."""
    kind = OutputKind.GRADIENT_TO_PARAMETER
    return {str(spec.target) for spec in signature.output_specs if spec.kind is kind}


def constant_tensors(ep: ExportedProgram) -> dict[str, torch.Tensor]:
    """Placeholder name → value: parameters that no training updates, buffers that no operator
    writes, lifted constants.
    """
    mutated = set(ep.graph_signature.buffers_to_mutate.values())
    mutated |= trained_parameters(ep.graph_signature)
    found: dict[str, torch.Tensor] = {}
    for spec in ep.graph_signature.input_specs:
        if spec.target is None or spec.target in mutated:
            continue
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            value = lookup_tensor(ep, spec.target)
            if value is not None:
                found[spec.arg.name] = value
    return found


def graphs_with_constants(
    ep: ExportedProgram, constants: dict[str, torch.Tensor]
) -> Iterator[tuple[fx.Graph, dict[str, torch.Tensor]]]:
    """Each graph and its constants by name: those of the program, and none in a body."""
    for module in all_graph_modules(ep.graph_module):
        yield module.graph, constants if module is ep.graph_module else {}


def foldable_constants(ep: ExportedProgram) -> dict[str, torch.Tensor]:
    """The constants that may be computed with now, because their values are final.

    Tensors with a `constant_tag` are excluded: they go unchanged to a data file, which another
    program may have written.
    """
    kept = {n.name for n in placeholders(ep.graph) if n.meta.get("constant_tag") is not None}
    return {name: value for name, value in constant_tensors(ep).items() if name not in kept}


def lookup_tensor(ep: ExportedProgram, fqn: str) -> torch.Tensor | None:
    """The tensor behind a fully qualified name, wherever the program keeps it."""
    value = ep.state_dict.get(fqn)
    if value is None:
        value = ep.constants.get(fqn)
    return value if isinstance(value, torch.Tensor) else None


def mutation_targets(ep: ExportedProgram) -> dict[int, str]:
    """Output position → name of the placeholder it is written back to."""
    signature = ep.graph_signature
    by_fqn = {
        spec.target: spec.arg.name
        for spec in signature.input_specs
        if spec.kind is InputKind.BUFFER and spec.target is not None
    }
    targets: dict[int, str] = {}
    for position, out in enumerate(signature.output_specs):
        if out.target is None:
            continue
        if out.kind is OutputKind.BUFFER_MUTATION:
            targets[position] = by_fqn[out.target]
        elif out.kind is OutputKind.USER_INPUT_MUTATION:
            targets[position] = out.target
    return targets


def source_line(node: fx.Node) -> str:
    """The user's source line of a node, or "".

    This is the innermost frame outside torch, if there is one.
    """
    frames = trace_frames(node)
    if not frames:
        lines = str(node.meta.get("stack_trace") or "").splitlines()
        return lines[-1].strip() if lines else ""
    frame = ([one for one in frames if is_users(one)] or frames)[-1]
    return f"{frame.where}: {frame.code}" if frame.code else frame.where


def nodes_in(value: Any) -> Iterable[fx.Node]:
    """The nodes inside an argument, at any depth."""
    if isinstance(value, fx.Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from nodes_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from nodes_in(item)
