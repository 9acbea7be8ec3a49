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
    graph: ModelGraph, values: Sequence[FileValue], compute: Callable[..., Any] = value_of
) -> FloatWalk:
    """Runs the graph with the floats that the file has at its nodes.

    `compute` gives the value of a node, as value_of does.
    """
    pool, inputs = Pool(values), graph.fresh_inputs()
    varies = varying(graph)
    env: dict[fx.Node, Any] = {}
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
            found = pool.nearest(value, _limit(value))
            (walk.differing if found is None else walk.agreeing).append(node)
            if found is not None:
                value = torch.empty_like(value).copy_(found)
        env[node] = value
        for spent in last[node]:
            del env[spent]
    return walk


def _is_compared(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in ROUNDING and value.numel() > 1


def _limit(value: torch.Tensor) -> torch.Tensor:
    of_element, of_largest = ROUNDING[value.dtype]
    size = value.abs().nan_to_num(nan=0.0, posinf=0.0)
    return of_element * size + of_largest * size.max()
