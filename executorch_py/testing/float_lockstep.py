"""Lockstep of a graph of floats with a file: each operator computes from the file's own floats.

A chaotic network turns the rounding of one float into its whole result, so neither its output nor
the model in float64 is a measure. Here eager torch runs the graph, and behind each operator goes on
with the floats that the file has there. Each comparison is then of one operator, however far the
rounding was amplified. Floats that a delegate keeps inside are computed from those before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.testing.file_values import FileValue
from executorch_py.testing.graph_values import (
    ModelGraph,
    ancestors,
    arguments_of,
    described,
    last_uses,
    value_of,
    varying,
)
from executorch_py.testing.nearest import Pool

# Largest difference of one operator's result, relative to the element and to the largest element of
# the tensor: sums in another order, and functions of a few roundings. Narrower types have no
# difference that tells a rounding from a wrong value.
ROUNDING = {torch.float32: (1e-5, 1e-6), torch.float64: (1e-13, 1e-14)}


Slack = Callable[[fx.Node, Sequence[Any], Any], torch.Tensor | None]


@dataclass(frozen=True)
class FloatWalk:
    """Outputs that follow from the file's floats, and the nodes whose results the file has."""

    outputs: list[Any]
    agreeing: list[fx.Node]
    differing: list[fx.Node]

    def explained(self) -> list[str]:
        n_all = len(self.agreeing) + len(self.differing)
        text = f"operators whose floats agree: {len(self.agreeing)} of {n_all}"
        leads = ancestors(self.agreeing)
        first = next((node for node in self.differing if node not in leads), None)
        if first is None:
            return [text]
        return [
            f"first difference: {described(first)}: the file has no floats near those that eager "
            "torch computes from the file's",
            text,
        ]


def in_lockstep(
    graph: ModelGraph,
    values: Sequence[FileValue],
    compute: Callable[..., Any] = value_of,
    slack_of: Slack | None = None,
) -> FloatWalk:
    """Runs the graph with the floats that the file has at its nodes.

    `compute` gives the value of a node, as value_of does. slack_of(node, arguments, value) is what
    else a result may differ by, or None. Of a result that the file does not have, it moves the
    results computed from it.
    """
    pool, inputs = Pool(values), graph.fresh_inputs()
    varies = varying(graph)
    env: dict[fx.Node, Any] = {}
    loose: dict[fx.Node, torch.Tensor] = {}
    walk = FloatWalk([], [], [])
    last = last_uses(graph.module.graph)
    for node in graph.module.graph.nodes:
        if node.op == "output":
            leaves = pytree.tree_leaves(node.args[0])
            walk.outputs.extend(env[n] if isinstance(n, fx.Node) else n for n in leaves)
            break
        with torch.no_grad():
            value = compute(graph.module, node, inputs, env)
        if node in varies and node.op == "call_function" and _is_compared(value):
            slack = _slack(node, value, env, loose, slack_of) if slack_of else None
            limit = rounding_limit(value)
            found = pool.nearest(value, limit if slack is None else limit + slack)
            (walk.differing if found is None else walk.agreeing).append(node)
            if found is not None:
                value = torch.empty_like(value).copy_(found)
            elif slack is not None:
                loose[node] = slack
        env[node] = value
        for spent in last[node]:
            del env[spent]
            loose.pop(spent, None)
    return walk


def _slack(
    node: fx.Node,
    value: torch.Tensor,
    env: dict[fx.Node, Any],
    loose: dict[fx.Node, torch.Tensor],
    slack_of: Slack,
) -> torch.Tensor | None:
    """Limit of a difference: a result's own slack, and that of its operands, both ways."""
    args, kwargs = arguments_of(node, env)
    total = slack_of(node, args, value)
    for operand in node.all_input_nodes:
        for sign in (1.0, -1.0) if operand in loose else ():
            moved_env = {**env, operand: env[operand] + sign * loose[operand]}
            args, kwargs = arguments_of(node, moved_env)
            with torch.no_grad():
                moved = node.target(*args, **kwargs)
            if not isinstance(moved, torch.Tensor) or moved.shape != value.shape:
                return None
            change = (moved - value).abs()
            total = change if total is None else torch.maximum(total, change)
    return None if total is None else total.to(value.dtype)


def _is_compared(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in ROUNDING and value.numel() > 1


def rounding_limit(value: torch.Tensor) -> torch.Tensor:
    """Limit of each element's difference in an operator of a few roundings."""
    of_element, of_largest = ROUNDING[value.dtype]
    size = value.abs().nan_to_num(nan=0.0, posinf=0.0)
    return of_element * size + of_largest * size.max()
