"""Values of the nodes of an exported model, computed in eager torch one after the other.

`ModelGraph` is a model as a graph, with values for its placeholders. Compares nothing.
"""

from __future__ import annotations

import operator
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind

from executorch_py.exir.ir.graph import deep_copy, lookup_tensor
from executorch_py.exir.ir.op_traits import QUANTIZE, op_key
from executorch_py.testing.equal_elements import in_stable_order
from executorch_py.testing.reference import NotComparable, named_error, without_fast_paths


@dataclass(frozen=True)
class ModelGraph:
    """A model as torch.export traces it: its graph, values of all placeholders, names of inputs.

    `inputs` are the values before a run: a run gets copies, from fresh_inputs().
    """

    module: fx.GraphModule
    inputs: dict[str, Any]
    given: set[str]

    @property
    def is_quantized(self) -> bool:
        return any(op_key(node.target) in QUANTIZE for node in self.module.graph.nodes)

    def fresh_inputs(self) -> dict[str, Any]:
        """Copies of the placeholders' values for one run, since graphs write to buffers and inputs.

        A tensor that two placeholders share is copied once.
        """
        copies = {id(v): v.clone() for v in self.inputs.values() if isinstance(v, torch.Tensor)}
        return {name: copies.get(id(v), v) for name, v in self.inputs.items()}


def model_graph(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    flat: Sequence[Any],
) -> ModelGraph:
    """The graph of a copy of a model, exported at the sizes of these inputs.

    NotComparable if the model has none.
    """
    if not isinstance(model, torch.nn.Module):
        raise NotComparable(f"expected a torch.nn.Module, got a {type(model).__name__}")
    copy = deep_copy(model)
    with torch.no_grad(), without_fast_paths(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = torch.export.export(copy, tuple(args), dict(kwargs))
        except Exception as error:  # torch.export has no class of its own for models it refuses
            raise NotComparable(f"torch.export: {named_error(error)}") from error
    inputs: dict[str, Any] = {}
    user = iter(flat)
    given = set()
    for spec in exported.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            inputs[spec.arg.name] = next(user)
            given.add(spec.arg.name)
        else:
            inputs[spec.arg.name] = lookup_tensor(exported, str(spec.target))
    return ModelGraph(exported.graph_module, inputs, given)


def arguments_of(node: fx.Node, env: Mapping[fx.Node, Any]) -> tuple[Any, Any]:
    """Positional and keyword arguments of a call, with values for nodes."""
    found = fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: env[n])
    return found[0], found[1]


def value_of(
    module: fx.GraphModule, node: fx.Node, inputs: Mapping[str, Any], env: Mapping[fx.Node, Any]
) -> Any:
    """The value of a node, from values of its operands; equal elements have the runtime's order."""
    if node.op == "placeholder":
        return inputs[node.name]
    if node.op == "get_attr":
        return operator.attrgetter(str(node.target))(module)
    args, kwargs = arguments_of(node, env)
    try:
        return in_stable_order(node.target)(*args, **kwargs)
    except Exception as error:  # of an operator that runs in the graph alone
        raise NotComparable(f"{described(node)}: {named_error(error)}") from error


def varying(graph: ModelGraph) -> set[fx.Node]:
    """The nodes whose values depend on those that the user gives."""
    found: set[fx.Node] = set()
    for node in graph.module.graph.nodes:
        if node.name in graph.given or any(n in found for n in node.all_input_nodes):
            found.add(node)
    return found


def ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes from which others are computed."""
    found: set[fx.Node] = set()
    stack = list(nodes)
    while stack:
        for node in stack.pop().all_input_nodes:
            if node not in found:
                found.add(node)
                stack.append(node)
    return found


def described(node: Any) -> str:
    """A node with its operator and the module that it belongs to."""
    if not isinstance(node, fx.Node):
        return repr(node)
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    facts = [op_key(node.target) if node.op == "call_function" else node.op, path]
    facts = [part for part in facts if part]
    return f"'{node.name}'" + (f" ({', '.join(facts)})" if facts else "")


def last_uses(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """For each node, the values that no later node reads."""
    last: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        last[node] = node
        for operand in node.all_input_nodes:
            last[operand] = node
    spent: dict[fx.Node, list[fx.Node]] = defaultdict(list)
    for value, node in last.items():
        spent[node].append(value)
    return spent
