"""Names of a program's inputs and outputs as the model has them, for the signature in its file.

An output has the keys of its place in the model's result: dict keys, fields of dataclasses and
named tuples. Without keys, an input that is handed through has its name, and another output that of
the variable that its statement assigns in `forward` (`logits = …`), as the stack trace says; the
rest have numbers. The names are noted in the graph when a program enters the edge dialect, since
passes rename inputs, and delegates replace the nodes that compute results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.utils._pytree import TreeSpec

from executorch_py.exir.ir.graph import output_node, placeholders
from executorch_py.exir.ir.stack_trace import assigned_variable, is_users, trace_frames

_INPUT, _KEY = "model_input_name", "user_output_names"


def note_names(program: ExportedProgram) -> None:
    """Note the names of inputs on their nodes, and those of the user's outputs on the output node.

    Passes rename inputs that have names of builtins, `input` for example.
    """
    for node in placeholders(program.graph):
        node.meta[_INPUT] = str(node.name)
    output_node(program.graph).meta[_KEY] = _output_names(program)


def output_names(program: ExportedProgram) -> list[str]:
    """Names of the user's outputs: those noted, else those of their places in the result."""
    noted = output_node(program.graph).meta.get(_KEY)
    names = _output_names(program) if noted is None else noted
    return names if len(names) == len(_user_outputs(program)) else []


def input_name(node: fx.Node) -> str:
    """The model's name of an input."""
    return str(node.meta.get(_INPUT, node.name))


def _user_outputs(program: ExportedProgram) -> list[Any]:
    """The nodes or constants that the user's outputs are."""
    values: Sequence[Any] = output_node(program.graph).args[0]
    specs = program.graph_signature.output_specs
    kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
    return [v for v, spec in zip(values, specs, strict=False) if spec.kind in kinds]


def _output_names(program: ExportedProgram) -> list[str]:
    values = _user_outputs(program)
    spec = program.call_spec.out_spec
    if spec is None or spec.num_leaves != len(values):
        return []
    inputs = {input_name(node) for node in placeholders(program.graph)}
    named: list[str | None] = []
    for value, path in zip(values, _paths(spec), strict=True):
        if any(isinstance(key, str) for key in path):
            named.append(".".join(map(str, path)))
        elif isinstance(value, fx.Node) and value.op == "placeholder":
            named.append(input_name(value))
        else:
            variable = _variable(value)
            named.append(None if variable in inputs else variable)
    counts = Counter(named)
    return [
        name if name is not None and counts[name] == 1 else f"output_{i}"
        for i, name in enumerate(named)
    ]


def _paths(spec: TreeSpec, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys of each leaf: names where the container has them, else positions."""
    if spec.is_leaf():
        yield before
        return
    for key, child in zip(_keys(spec), spec.children(), strict=True):
        yield from _paths(child, (*before, key))


def _keys(spec: TreeSpec) -> Sequence[Any]:
    """The keys of a container's children, of dataclasses and other registered classes as well."""
    n, context = len(spec.children()), spec.context
    if hasattr(context, "_fields"):
        context = list(context._fields)
    candidates = [context, *(context if isinstance(context, (list, tuple)) else ())]
    for candidate in candidates:
        is_list = isinstance(candidate, (list, tuple)) and len(candidate) == n
        if is_list and all(isinstance(key, (str, int)) for key in candidate):
            return list(candidate)
    return range(n)


def _variable(value: Any) -> str | None:
    """The variable of `forward` that the statement of an output's node assigns."""
    if not isinstance(value, fx.Node):
        return None
    own = next((frame for frame in trace_frames(value) if is_users(frame)), None)
    return None if own is None else assigned_variable(own)
