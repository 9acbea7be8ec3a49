"""FuseEpilogues: element-wise steps after a product or convolution are computed by its kernel.

An activation, a residual sum, or a few of them in a row become the epilogue of an operator of the
library `executorch_py` (dialects/own_ops.py), which computes the same bits without another pass
over memory. Steps that follow no product become one `executorch_py::chain`. Values must be f32, and
all tensors of an epilogue must have the sizes and the layout of its result. Relies on `meta["val"]`
of a functional graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects import own_ops
from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.ir.evaluate import is_plain
from executorch_py.exir.ir.fake_values import is_contiguous
from executorch_py.exir.ir.graph import (
    constant_tensors,
    erase_dead_nodes,
    flat_outputs,
    graphs_with_constants,
)
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import RESHAPES, op_key, op_overload
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

Constants = dict[str, torch.Tensor]


class FuseEpilogues(Pass):
    """Add element-wise steps to the kernel of the product before them, or to one `chain`."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        constants = {k: v for k, v in constant_tensors(program).items() if is_plain(v)}
        changed = False
        for graph, known in graphs_with_constants(program, constants):
            changed |= _Fusion(graph, known).run()
        return changed


# ---- operators that are steps


@dataclass(frozen=True)
class _Step:
    """One step: the name of its loop, its numbers, and the operands of a binary step."""

    name: str
    numbers: tuple[float, ...] = ()
    operands: tuple[Any, ...] = ()  # nodes and numbers; none for a unary step


def _unary(name: str) -> Callable[[fx.Node], _Step | None]:
    return lambda node: _Step(name)


def _clamp(node: fx.Node) -> _Step | None:
    low, high = argument(node, "min"), argument(node, "max")
    return _bounds(-math.inf if low is None else low, math.inf if high is None else high)


def _hardtanh(node: fx.Node) -> _Step | None:
    return _bounds(argument(node, "min_val"), argument(node, "max_val"))


def _bounds(low: Any, high: Any) -> _Step | None:
    numbers = _numbers(low, high)
    return None if numbers is None else _Step("clamp", numbers)


def _leaky_relu(node: fx.Node) -> _Step | None:
    numbers = _numbers(argument(node, "negative_slope"))
    return None if numbers is None else _Step("leaky_relu", numbers)


def _gelu(node: fx.Node) -> _Step | None:
    return _Step("gelu_tanh" if argument(node, "approximate") == "tanh" else "gelu")


def _binary(name: str) -> Callable[[fx.Node], _Step | None]:
    def step(node: fx.Node) -> _Step | None:
        alpha = argument(node, "alpha", 1)
        if type(alpha) is not int or alpha != 1:
            return None
        return _Step(name, operands=(argument(node, "self"), argument(node, "other")))

    return step


def _numbers(*values: Any) -> tuple[float, ...] | None:
    if all(isinstance(v, (int, float)) and not math.isnan(v) for v in values):
        return tuple(float(v) for v in values)
    return None


_STEPS: dict[str, Callable[[fx.Node], _Step | None]] = {
    **{
        f"aten::{name}": _unary(name)
        for name in (
            "abs",
            "erf",
            "exp",
            "neg",
            "reciprocal",
            "relu",
            "rsqrt",
            "sigmoid",
            "sqrt",
            "tanh",
        )
    },
    **{
        f"aten::{name}.{overload}": _binary(name)
        for name in ("add", "sub", "mul", "div")
        for overload in ("Tensor", "Scalar")
    },
    "aten::maximum": _binary("maximum"),
    "aten::minimum": _binary("minimum"),
    "aten::gelu": _gelu,
    "aten::clamp": _clamp,
    "aten::hardtanh": _hardtanh,
    "aten::leaky_relu": _leaky_relu,
}
# Operators that may have an epilogue, and how many arguments their kernels take.
_PRODUCERS: dict[str, tuple[Any, int]] = {
    "aten::convolution": (torch.ops.executorch_py.convolution.default, 9),
    "aten::addmm": (torch.ops.executorch_py.addmm.default, 5),
    "aten::mm": (torch.ops.executorch_py.mm.default, 2),
}
_VIEWS = RESHAPES - {"aten::detach_copy", "aten::lift_fresh_copy"}


# ---- epilogues


@dataclass(frozen=True)
class _Epilogue:
    """Steps so far, from the value of `start` to that of `last`."""

    start: fx.Node
    last: fx.Node
    steps: tuple[fx.Node, ...] = ()
    text: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    tensors: tuple[fx.Node, ...] = field(default=())


class _Fusion:
    def __init__(self, graph: fx.Graph, constants: Constants) -> None:
        self.graph = graph
        self.constants = constants
        self.outputs = {leaf for leaf in flat_outputs(graph) if isinstance(leaf, fx.Node)}

    def run(self) -> bool:
        changed = False
        for node in list(self.graph.nodes):
            if op_key(node.target) in _PRODUCERS and _is_f32(node):
                epilogue = self._after(node)
                if epilogue is not None:
                    self._rewrite(epilogue, node)
                    changed = True
        if changed:
            erase_dead_nodes(self.graph)
        return changed | self._fuse_rest()

    def _fuse_rest(self) -> bool:
        """Fuse at least two steps in a row that follow no product."""
        taken: set[fx.Node] = set()
        for node in list(self.graph.nodes):
            epilogue = self._from(node) if node not in taken else None
            if epilogue is not None:
                taken.update(epilogue.steps)
                self._rewrite(epilogue, None)
        if taken:
            erase_dead_nodes(self.graph)
        return bool(taken)

    def _after(self, producer: fx.Node) -> _Epilogue | None:
        """The longest epilogue after which nothing else reads the result of the product."""
        best = None
        for first in dict.fromkeys(user for user, _ in self._uses(producer)):
            waiting = {user for user, _ in self._uses(producer)} - {first}
            for epilogue in self._grow(_Epilogue(producer, producer), first):
                waiting.discard(epilogue.last)
                if not waiting and (best is None or len(epilogue.text) > len(best.text)):
                    best = epilogue
        return best

    def _from(self, node: fx.Node) -> _Epilogue | None:
        """The longest row of at least two steps that begins with the step `node`."""
        if op_key(node.target) not in _STEPS or not _is_f32(node):
            return None
        best = None
        for start in node.all_input_nodes:
            if not _is_f32(start) or not _same_layout(start, node) or start.name in self.constants:
                continue
            for epilogue in self._grow(_Epilogue(start, start), node):
                n_steps = len(epilogue.text)
                if n_steps >= 2 and (best is None or n_steps > len(best.text)):
                    best = epilogue
        return best

    def _grow(self, epilogue: _Epilogue, step: fx.Node) -> Iterator[_Epilogue]:
        """Epilogues of growing length; each value but the last is read by the next step alone."""
        next_step: fx.Node | None = step
        while next_step is not None and len(epilogue.text) < own_ops.MAX_STEPS:
            grown = self._add(epilogue, next_step)
            if grown is None:
                return
            epilogue = grown
            yield epilogue
            users = {user for user, _ in self._uses(epilogue.last)}
            next_step = users.pop() if len(users) == 1 else None

    def _add(self, epilogue: _Epilogue, node: fx.Node) -> _Epilogue | None:
        """The epilogue with one more step; None where the kernels have no such step."""
        make = _STEPS.get(op_key(node.target)) if node.op == "call_function" else None
        if (
            make is None
            or not _is_f32(node)
            or not _same_layout(epilogue.last, node, reshaped=True)
        ):
            return None
        step = make(node)
        if step is None:
            return None
        text, numbers, tensors = step.name, [*epilogue.numbers, *step.numbers], [*epilogue.tensors]
        for i, operand in enumerate(step.operands):
            code = self._source(epilogue, node, operand, i, numbers, tensors)
            if code is None:
                return None
            text += (":" if i == 0 else "") + code
        if not step.operands and self._value_of(node.args[0]) is not self._value_of(epilogue.last):
            return None
        return replace(
            epilogue,
            last=node,
            steps=(*epilogue.steps, node),
            text=(*epilogue.text, text),
            numbers=tuple(numbers),
            tensors=tuple(tensors),
        )

    def _source(
        self,
        epilogue: _Epilogue,
        node: fx.Node,
        operand: Any,
        position: int,
        numbers: list[float],
        tensors: list[fx.Node],
    ) -> str | None:
        """The code of an operand, which is appended to the numbers or tensors if it is new."""
        number = self._number(operand)
        if number is not None:
            numbers.append(number)
            return "s" if position == 1 else None
        if not isinstance(operand, fx.Node):
            return None
        value = self._value_of(operand)
        if value is self._value_of(epilogue.last):
            return "_"
        if value is self._value_of(epilogue.start):
            return "x"
        if not _is_f32(operand) or not _same_layout(operand, node):
            return None
        if operand not in tensors:
            tensors.append(operand)
        return str(tensors.index(operand)) if len(tensors) <= own_ops.MAX_TENSORS else None

    def _number(self, operand: Any) -> float | None:
        """The number that an operand is, or the value of a one-element constant."""
        if isinstance(operand, fx.Node):
            value = self.constants.get(operand.name)
            if value is None or value.numel() != 1 or value.is_complex():
                return None
            if value.dim() > 0 and value.dtype != torch.float32:
                return None  # its dtype counts
            operand = value.item()
        numbers = _numbers(operand)
        return None if numbers is None else numbers[0]

    def _value_of(self, node: Any) -> Any:
        """The node that computed the value of `node`, which may be a view of it."""
        while is_call(node, *_VIEWS) and _is_row_major(node) and _is_row_major(node.args[0]):
            node = node.args[0]
        return node

    def _uses(self, node: fx.Node) -> list[tuple[fx.Node, fx.Node]]:
        """Readers of a value, with the view that they read; outputs of the graph are readers."""
        found = []
        for user in node.users:
            if self._value_of(user) is not user and user not in self.outputs:
                found += self._uses(user)
            else:
                found.append((user, node))
        return found

    def _rewrite(self, epilogue: _Epilogue, producer: fx.Node | None) -> None:
        """Turn the last step into the fused call; it keeps its name and meta."""
        last = epilogue.last
        if producer is None:
            op, args = torch.ops.executorch_py.chain.default, [epilogue.start]
        else:
            op, count = _PRODUCERS[op_key(producer.target)]
            plain = op_overload(producer.target)
            assert plain is not None
            args = [argument(producer, arg.name) for arg in plain._schema.arguments[:count]]
        args += [" ".join(epilogue.text), list(epilogue.numbers), list(epilogue.tensors)]
        if _same_layout(epilogue.start, last):
            last.target, last.args, last.kwargs = edge_op(op), tuple(args), {}
            return
        with self.graph.inserting_before(last):
            fused = self.graph.call_function(edge_op(op), tuple(args))
        fused.meta.update({k: v for k, v in epilogue.start.meta.items() if k != "spec"})
        last.target = edge_op(torch.ops.aten.view_copy.default)
        last.args, last.kwargs = (fused, list(last.meta["val"].shape)), {}


def _is_f32(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _is_row_major(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and is_contiguous(value)


def _same_layout(a: fx.Node, b: fx.Node, reshaped: bool = False) -> bool:
    """Whether two results have the same sizes and order in memory in every run.

    With `reshaped`, row-major results of other sizes count as equal too where sizes are static.
    """
    x, y = a.meta["val"], b.meta["val"]
    equal = x.dim() == y.dim() and all(map(_is_same, x.shape, y.shape))
    if reshaped and not equal:
        sizes = [*x.shape, *y.shape]
        static = all(isinstance(s, int) for s in sizes)
        return static and x.numel() == y.numel() and _is_row_major(a) and _is_row_major(b)
    if not equal:
        return False
    if _is_row_major(a) or _is_row_major(b):
        return _is_row_major(a) and _is_row_major(b)
    return all(
        _is_same(s, t) or size == 1
        for s, t, size in zip(x.stride(), y.stride(), x.shape, strict=True)
    )


def _is_same(a: object, b: object) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return getattr(getattr(a, "node", None), "expr", a) == getattr(
        getattr(b, "node", None), "expr", b
    )
