"""EdgeOpArgValidator: runs a graph of edge operators, and collects calls of illegal dtypes.

Name, attributes and errors are upstream's. The verifier (verifier.py) checks the same rules on the
values of nodes, without a run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_py.exir.dialects.edge_ops import EdgeOpOverload
from executorch_py.exir.error import ExportError, InternalError

__all__ = ["EdgeOpArgValidator", "RunHigherOrderOperatorError"]

Types = dict[str, torch.dtype | None]


class RunHigherOrderOperatorError(Exception):
    """A graph with a delegate or another operator that takes graphs, which is not run."""


class EdgeOpArgValidator(fx.Interpreter):
    """`run(*inputs)` fills `violating_ops`: operator to dtypes by argument, and the node."""

    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module)
        self.violating_ops: dict[EdgeOpOverload, tuple[Types, fx.Node]] = {}

    def run_node(self, n: fx.Node) -> Any:
        self.node = n
        try:
            return super().run_node(n)
        except (InternalError, ExportError, RunHigherOrderOperatorError):
            raise
        except Exception as error:
            raise InternalError(f"node {n.name}: {error}") from error

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise RunHigherOrderOperatorError(
                f"node {self.node.name}: expected an operator on tensors, got {target}"
            )
        if isinstance(target, EdgeOpOverload):
            types = _types(target, args, kwargs) | _result_types(target, self.node.meta["val"])
            if not target._schema.dtype_constraint.validate(types):
                self.violating_ops[target] = (types, self.node)
        return super().call_function(target, args, kwargs)


def _types(op: EdgeOpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Types:
    found: Types = {}
    for position, argument in enumerate(op._schema.schema.arguments):
        if argument.name in kwargs:
            value = kwargs[argument.name]
        elif not argument.kwarg_only and position < len(args):
            value = args[position]
        else:
            continue
        _note(found, argument.name, value)
    return found


def _result_types(op: EdgeOpOverload, results: Any) -> Types:
    found: Types = {}
    values = results if isinstance(results, (tuple, list)) else [results]
    returns = op._schema.schema.returns
    if len(returns) == 1:
        values = [results]
    for i, (declared, value) in enumerate(zip(returns, values, strict=True)):
        _note(found, declared.name or f"__ret_{i}", value)
    return found


def _note(found: Types, name: str, value: Any) -> None:
    """Note the dtype of a tensor, or of the first of several; None for an empty list."""
    if isinstance(value, torch.Tensor):
        found[name] = value.dtype
    elif isinstance(value, (tuple, list)):
        tensors = [item for item in value if isinstance(item, torch.Tensor)]
        if len(tensors) == len(value):
            found[name] = tensors[0].dtype if tensors else None
