"""Sensitivity of a graph: how far its outputs move when its inputs move a little.

A deep network with untrained weights amplifies one rounding to a visible part of its output. The
measure is the signal-to-noise ratio of the same graph in eager torch on inputs that moved by a
relative 1e-4, less than the rounding of any quantized value. Knows no programs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir.ir.decibels import sqnr_db
from executorch_py.testing.graph_values import ModelGraph, last_uses, value_of

RELATIVE = 1e-4
# One rounding of a float32.
ONE_ROUNDING = 2.0**-23
_DRAWS = 2


def sqnr_of(result: torch.Tensor, wanted: torch.Tensor) -> float:
    """The power of the wanted values over that of the difference, in decibels."""
    exact = wanted.to(torch.float64)
    noise = result.to(torch.float64) - exact
    return sqnr_db(float(exact.square().sum()), float(noise.square().sum()))


def moved_sqnr_db(graph: ModelGraph, relative: float = RELATIVE) -> list[float | None]:
    """The SQNR of each output after its inputs moved, the lowest of some draws; None of integers.

    Embeddings stand for inputs of integers.
    """
    still = _outputs(graph, None, relative)
    lowest: list[float | None] = [None] * len(still)
    for seed in range(_DRAWS):
        generator = torch.Generator().manual_seed(seed)
        for i, moved in enumerate(_outputs(graph, generator, relative)):
            if isinstance(moved, torch.Tensor) and moved.is_floating_point():
                found, before = sqnr_of(moved, still[i]), lowest[i]
                lowest[i] = found if before is None else min(found, before)
    return lowest


def _outputs(graph: ModelGraph, generator: torch.Generator | None, relative: float) -> list[Any]:
    """The outputs; with a generator, the first floats that depend on given inputs are moved."""
    module, inputs = graph.module, graph.fresh_inputs()
    env: dict[fx.Node, Any] = {}
    varies: dict[fx.Node, bool] = {}  # and whether it moved
    last = last_uses(module.graph)
    for node in module.graph.nodes:
        if node.op == "output":
            leaves = pytree.tree_leaves(node.args[0])
            return [env[n] if isinstance(n, fx.Node) else n for n in leaves]
        with torch.no_grad():
            value = value_of(module, node, inputs, env)
        operands = [n for n in node.all_input_nodes if n in varies]
        if operands or node.name in graph.given:
            varies[node] = any(varies[n] for n in operands)
            if generator is not None and not varies[node] and _is_float(value):
                value = _moved(value, generator, relative)
                varies[node] = True
        env[node] = value
        for spent in last[node]:
            del env[spent]
    return []


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _moved(value: torch.Tensor, generator: torch.Generator, relative: float) -> torch.Tensor:
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float32).to(value.dtype)
    return value * (1 + relative * noise)
