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
from executorch_py.testing.operator_rounding import (
    ROUNDING,
    is_fused_behind_others,
    rounding_of,
)

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
    a result may differ by beyond its rounding error, or None. If the file does not have a result
    that it may have fused, its rounding error moves the results computed from it.
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
            limit, inherited = _limits(node, value, env, loose, slack_of)
            found = pool.nearest(value, limit)
            (walk.differing if found is None else walk.agreeing).append(node)
            if found is not None:
                value = torch.empty_like(value).copy_(found)
            elif inherited is not None:
                loose[node] = inherited
        env[node] = value
        for spent in last[node]:
            del env[spent]
            loose.pop(spent, None)
    return walk


def _limits(
    node: fx.Node,
    value: torch.Tensor,
    env: dict[fx.Node, Any],
    loose: dict[fx.Node, torch.Tensor],
    slack_of: Slack | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Limits of a result's difference: where the file has it, and what the next results inherit."""
    args, kwargs = arguments_of(node, env)
    limit, inherited = rounding_of(node.target, args, kwargs, value)
    more = slack_of(node, args, value) if slack_of else None
    moves = [] if more is None else [more.to(value.dtype)]
    for operand in node.all_input_nodes if is_fused_behind_others(node.target) else ():
        if operand in loose:
            moves += _moves(node, value, env, operand, loose[operand])
    for move in moves:
        limit = limit + move
        inherited = move if inherited is None else inherited + move
    return limit, inherited


def _moves(
    node: fx.Node,
    value: torch.Tensor,
    env: dict[fx.Node, Any],
    operand: fx.Node,
    by: torch.Tensor,
) -> list[torch.Tensor]:
    """How far a result moves when one operand moves both ways: the larger of both, if it does."""
    largest: torch.Tensor | None = None
    for sign in (1.0, -1.0):
        args, kwargs = arguments_of(node, {**env, operand: env[operand] + sign * by})
        with torch.no_grad():
            moved = node.target(*args, **kwargs)
        if not isinstance(moved, torch.Tensor) or moved.shape != value.shape:
            return []
        change = (moved - value).abs().nan_to_num(nan=0.0, posinf=0.0)
        largest = change if largest is None else torch.maximum(largest, change)
    return [] if largest is None else [largest]


def _is_compared(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in ROUNDING and value.numel() > 1
