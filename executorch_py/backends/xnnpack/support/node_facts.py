"""A node as capability checks see it: its operands, which of them are constant, its numbers.

Reads quantization through: a constant behind its dequantize node is a constant still, and the
conversion of an activation tells how the node is quantized. Knows no operator's limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.graph import constant_tensors, nodes_in
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import (
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    QUANTIZE,
    is_getitem,
    is_scalar_op,
    op_key,
)

FLOATS = (torch.float32, torch.float16)


class Quantized(Enum):
    """How the number behind a dequantize node came to be."""

    CONSTANT = 1  # integers of the program, such as weights
    STATIC = 2  # an activation with a scale known ahead of time
    DYNAMIC = 3  # an activation whose scale is found at run time


@dataclass(frozen=True)
class Options:
    """What a partitioner was asked for beyond the default."""

    bf16: bool = False


class Site:
    """One node of a program, with what checks ask about it."""

    def __init__(
        self, node: fx.Node, constants: dict[str, torch.Tensor], options: Options | None = None
    ) -> None:
        self.node, self.constants, self.options = node, constants, options or Options()

    def argument(self, name: str) -> Any:
        """The argument of that name, or its default."""
        return argument(self.node, name)

    def fake(self, arg: Any) -> torch.Tensor | None:
        """The example of a tensor argument; None for anything else."""
        value = arg.meta.get("val") if isinstance(arg, fx.Node) else None
        return value if isinstance(value, torch.Tensor) else None

    def operands(self) -> list[fx.Node]:
        """The nodes given as arguments that are tensors."""
        return [arg for arg in nodes_in(self.node.args) if self.fake(arg) is not None] + [
            arg for arg in nodes_in(self.node.kwargs) if self.fake(arg) is not None
        ]

    def results(self) -> list[torch.Tensor]:
        """Examples of what the node makes, of those results that somebody reads."""
        value = self.node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return [value]
        if not isinstance(value, (list, tuple)):
            return []
        read = {user.args[1] for user in self.node.users if is_getitem(user.target)}
        return [v for i, v in enumerate(value) if i in read and isinstance(v, torch.Tensor)]

    @property
    def image(self) -> torch.Tensor:
        """The example of the first operand."""
        first = self.fake(self.node.args[0])
        assert first is not None
        return first

    def constant(self, arg: Any) -> torch.Tensor | None:
        """The tensor behind a constant operand, integers where it is quantized."""
        while isinstance(arg, fx.Node) and is_dequantize(arg):
            arg = arg.args[0]
        return self.constants.get(arg.name) if isinstance(arg, fx.Node) else None

    def number(self, name: str) -> float | None:
        """A number known ahead of time: written in the graph, or a constant of one element."""
        arg = self.argument(name)
        if isinstance(arg, (int, float)):
            return float(arg)
        found = self.constant(arg)
        return float(found.item()) if found is not None and found.numel() == 1 else None

    def integers(self, name: str) -> list[int] | None:
        """A list of whole numbers known ahead of time; None if one is found at run time."""
        arg = self.argument(name)
        items = list(arg) if isinstance(arg, (list, tuple)) else [arg]
        return items if all(isinstance(item, int) for item in items) else None

    def quantized(self, arg: Any) -> Quantized | None:
        """How an operand is quantized; None for plain numbers."""
        return quantization_of(arg, self.constants)


def is_dequantize(node: Any) -> bool:
    """Whether a node turns integers into the numbers they stand for."""
    return isinstance(node, fx.Node) and op_key(node.target) in DEQUANTIZE


def is_quantize(node: Any) -> bool:
    """Whether a node turns numbers into integers with a scale."""
    return isinstance(node, fx.Node) and op_key(node.target) in QUANTIZE


def quantization_of(arg: Any, constants: dict[str, torch.Tensor]) -> Quantized | None:
    """How the value of a node is quantized, from the dequantize node that it is."""
    if not is_dequantize(arg):
        return None
    source = arg.args[0]
    if isinstance(source, fx.Node) and source.name in constants:
        return Quantized.CONSTANT
    return Quantized.DYNAMIC if dynamic_chain(arg) else Quantized.STATIC


def dynamic_chain(dequantize: fx.Node) -> list[fx.Node]:
    """What finds a scale at run time and quantizes with it, up to its dequantize node; or []."""
    quantize = dequantize.args[0]
    if not is_quantize(quantize):
        return []
    assert isinstance(quantize, fx.Node)
    parts = [arg for arg in quantize.args[1:] if isinstance(arg, fx.Node)]
    sources = {p.args[0] if is_getitem(p.target) else p for p in parts}
    chosen = [s for s in sources if isinstance(s, fx.Node) and op_key(s.target) in CHOOSE_QPARAMS]
    return [*chosen, *parts, quantize, dequantize] if chosen else []


def known_tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The constants of a program by the names of their placeholders."""
    return constant_tensors(program)


def size_sources(node: fx.Node) -> tuple[list[fx.Node], list[fx.Node]]:
    """The nodes that compute sizes among a node's arguments, and the tensors that they read."""
    scalars: dict[fx.Node, None] = {}
    tensors: dict[fx.Node, None] = {}
    waiting = [arg for arg in node.all_input_nodes if _is_size(arg)]
    while waiting:
        scalar = waiting.pop()
        if scalar in scalars:
            continue
        scalars[scalar] = None
        for arg in scalar.all_input_nodes:
            if _is_size(arg):
                waiting.append(arg)
            else:
                tensors[arg] = None
    return list(scalars), list(tensors)


def _is_size(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return is_scalar_op(node.target) or (
        node.op == "call_function" and isinstance(value, (int, torch.SymInt))
    )
