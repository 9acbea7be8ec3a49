"""Values of the nodes of an exported model, computed in eager torch one after the other.

`ModelGraph` is a model as a graph, with values for its placeholders. Compares nothing.
"""

from __future__ import annotations

import operator
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind

from executorch_py.exir.ir.graph import deep_copy, lookup_tensor
from executorch_py.exir.ir.op_traits import QUANTIZE, op_key
from executorch_py.testing.reference import without_fast_paths


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
    """The graph of a copy of a model, exported at the sizes of these inputs."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"expected a torch.nn.Module, got a {type(model).__name__}")
    with torch.no_grad(), without_fast_paths(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(deep_copy(model), tuple(args), dict(kwargs))
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
    """The value of a node, from values of its operands."""
    if node.op == "placeholder":
        return inputs[node.name]
    if node.op == "get_attr":
        return operator.attrgetter(str(node.target))(module)
    args, kwargs = arguments_of(node, env)
    return node.target(*args, **kwargs)


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
