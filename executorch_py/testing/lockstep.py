"""Lockstep of a converted graph with a file: each node computes from the file's own integers.

Backends round at the same places as eager torch, but with other intermediate precision, so that an
integer near a tie may be the other one. Later layers amplify that, untrained ones without limit.
Here eager torch runs the converted graph, and behind each quantize operator goes on with the
integers that the file has there. Each comparison is then of one layer, and the first layer that
differs has a name.

A backend may keep the integers of dynamic quantization inside. Then the first floats behind them
that the file has are compared with floats for which nothing was rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.exir.ir.op_traits import (
    ATEN_MOVES,
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    QUANTIZE,
    is_getitem,
    op_key,
)
from executorch_py.testing.file_values import FileValue
from executorch_py.testing.graph_values import (
    ModelGraph,
    arguments_of,
    last_uses,
    value_of,
    varying,
)
from executorch_py.testing.nearest import Distances, Match, Pool


@dataclass(frozen=True)
class Rounding:
    """Results of a quantize operator, and the numbers that it rounded, both in steps.

    `node` is the operator; others may have moved its results since. `grid` is the scale, the zero
    point and the range, where they are numbers; else `floats` is the operand.
    """

    node: fx.Node
    exact: Any
    rounded: Any
    grid: tuple[float, int, int, int] | None
    floats: Any = None

    def moved(self, move: Callable[[Any], Any]) -> Rounding:
        """The same behind an operator that moves elements; it may make a list of tensors."""
        return replace(self, exact=move(self.exact), rounded=move(self.rounded))


@dataclass(frozen=True)
class Difference:
    """A quantize operator whose integers the file has nowhere, and the nearest that it has.

    `is_behind`: the file keeps the integers inside, or has the floats that are rounded, so the
    difference is behind them.
    """

    node: fx.Node
    rounding: Rounding
    match: Match | None = None
    is_behind: bool = False


@dataclass
class Walk:
    """Result of a run in lockstep: output nodes and values, and how quantize operators compare.

    `unrounded` has for each output the value without the last rounding that the file keeps inside,
    or None. `differing` has operators whose integers the file has neither whole, nor in parts or in
    another order; for dynamic ones no floats behind them.
    """

    nodes: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    unrounded: list[Any] = field(default_factory=list)
    agreeing: dict[fx.Node, Distances | None] = field(default_factory=dict)
    differing: dict[fx.Node, Difference] = field(default_factory=dict)


class Lockstep:
    """A run of a graph with the tensors that a file computed."""

    def __init__(self, graph: ModelGraph, values: Sequence[FileValue]) -> None:
        self._module, self._inputs = graph.module, graph.fresh_inputs()
        self._varies = varying(graph)
        self._pool = Pool(values)
        self._env: dict[fx.Node, Any] = {}
        # Integers that the file does not have as they are, and moves of them.
        self._open: dict[fx.Node, Rounding] = {}
        # Values behind dynamic quantization, computed from floats that were not rounded, and the
        # quantize operator.
        self._loose: dict[fx.Node, tuple[Any, fx.Node]] = {}
        self._walk = Walk()

    def run(self) -> Walk:
        """Runs the graph, once."""
        last = last_uses(self._module.graph)
        for node in self._module.graph.nodes:
            if node.op == "output":
                break
            with torch.no_grad():
                unrounded = self._unrounded(node)  # first, since operators may write to operands
                self._env[node] = value_of(self._module, node, self._inputs, self._env)
                if node in self._varies and node.op == "call_function":
                    self._compare(node, unrounded)
            for spent in last[node]:
                for table in (self._env, self._open, self._loose):
                    table.pop(spent, None)
        leaves = pytree.tree_leaves(node.args[0])
        self._walk.nodes = leaves
        self._walk.outputs = [self._env[n] if isinstance(n, fx.Node) else n for n in leaves]
        self._walk.unrounded = [self._loose.get(n, (None,))[0] for n in leaves]
        return self._walk

    def _compare(self, node: fx.Node, unrounded: Any) -> None:
        """Replaces integers, floats that were integers, and floats behind hidden integers."""
        rounding = self._rounding(node)
        if rounding is None:
            self._compare_floats(node, unrounded)
            return
        if isinstance(rounding.rounded, torch.Tensor):
            grid = None if rounding.grid is None else rounding.grid[:2]
            match = self._pool.integers(rounding.exact, rounding.rounded, grid)
            if match is not None and match.is_near:
                self._agree(rounding.node, match.distances)
                self._env[node] = _like(self._env[node], match.found, rounding.grid)
                return
            if rounding.node not in self._walk.agreeing:
                is_behind = rounding.floats is not None and self._has(rounding)
                self._walk.differing.setdefault(
                    rounding.node, Difference(rounding.node, rounding, match, is_behind)
                )
        self._open[node] = rounding

    def _has(self, rounding: Rounding) -> bool:
        """Whether the file has the floats that an operator rounds, or keeps the integers inside."""
        is_input = rounding.node.all_input_nodes[0].op == "placeholder"
        is_hidden = not self._pool.shows(rounding.rounded)
        return is_input or is_hidden or self._pool.has(rounding.floats)

    def _agree(self, node: fx.Node, distances: Distances | None) -> None:
        self._walk.differing.pop(node, None)
        self._walk.agreeing[node] = distances

    def _rounding(self, node: fx.Node) -> Rounding | None:
        """The integers behind a node's value: rounded here, or rounded before and moved."""
        key = op_key(node.target)
        before = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
        carried = self._open.get(before) if before is not None else None
        args, kwargs = arguments_of(node, self._env)
        if key in QUANTIZE:
            grid = _grid(args) if key == "quantized_decomposed::quantize_per_tensor" else None
            if carried is not None and grid is not None and carried.grid == grid:
                return carried
            exact = _exact(key, args, self._env[node])
            return Rounding(node, exact, self._env[node], grid, None if grid else args[0].clone())
        if carried is None or carried.grid is None:
            return None
        if key in DEQUANTIZE:
            return carried
        if key in ATEN_MOVES or is_getitem(node.target):
            return carried.moved(lambda x: node.target(x, *args[1:], **kwargs))
        return None

    def _unrounded(self, node: fx.Node) -> Any:
        """The value of a node behind hidden integers, computed from floats that nobody rounded."""
        if node.op != "call_function" or op_key(node.target) in CHOOSE_QPARAMS:
            return None
        if not any(n in self._loose for n in node.all_input_nodes):
            return None
        mixed = {n: self._loose.get(n, (self._env[n],))[0] for n in node.all_input_nodes}
        args, kwargs = pytree.tree_map(_copied, arguments_of(node, mixed))
        return node.target(*args, **kwargs)

    def _compare_floats(self, node: fx.Node, unrounded: Any) -> None:
        value, source = self._env[node], node.args[0] if node.args else None
        if op_key(node.target) in DEQUANTIZE:
            rounding = self._open.get(source) if isinstance(source, fx.Node) else None
            if rounding is not None and rounding.floats is not None:
                floats = rounding.floats.to(value.dtype).reshape(value.shape)
                self._loose[node] = floats, rounding.node
            return
        if unrounded is None:
            return
        root = next(self._loose[n][1] for n in node.all_input_nodes if n in self._loose)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 1:
            match = self._pool.floats(unrounded, value)
            if match is not None and match.is_near:
                self._agree(root, None)
                self._env[node] = _like(value, match.found, None)
                return
            known = self._walk.differing.get(root)
            if match is not None and match.is_certain and known is not None and not known.match:
                self._walk.differing[root] = replace(known, match=match)
        self._loose[node] = unrounded, root


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _like(
    value: torch.Tensor, found: torch.Tensor, grid: tuple[float, int, int, int] | None
) -> torch.Tensor:
    """The file's tensor in the layout of a node's value, dequantized if that is of floats."""
    if value.is_floating_point() and not found.is_floating_point() and grid is not None:
        scale, zero, low, high = grid
        found = torch.ops.quantized_decomposed.dequantize_per_tensor.default(
            found, scale, zero, low, high, found.dtype
        )
    return torch.empty_like(value).copy_(found)


def _grid(args: Sequence[Any]) -> tuple[float, int, int, int]:
    return float(args[1]), int(args[2]), int(args[3]), int(args[4])


def _exact(key: str, args: Sequence[Any], rounded: torch.Tensor) -> torch.Tensor:
    """The numbers before they were rounded, or after where the operator is another one."""
    if "per_tensor" in key or "per_token" in key:
        x, scale, zero, low, high = args[:5]
    elif key == "quantized_decomposed::quantize_per_channel":
        x, scale, zero, axis, low, high = args[:6]
        view = [-1 if d == axis else 1 for d in range(x.dim())]
        scale, zero = scale.reshape(view), zero.reshape(view)
    else:
        return rounded.to(torch.float64)
    if isinstance(scale, torch.Tensor):
        scale = scale.to(torch.float64)
    return (x.to(torch.float64) / scale + zero).clamp(float(low), float(high))
