"""The delegate's intermediate graph of XNNPACK nodes and values, between edge dialect and payload.

Shapes, axes and paddings are those of the exported graph (images are NCHW), whatever the layout of
a value in memory. The layout pass chooses a layout per value, and only write_payload.py converts
axes to those of memory. This graph has the node kinds of the payload, not the operators of torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import torch
from torch import fx

from executorch_py.backends.xnnpack.payload.payload_flatbuffer import (
    NO_DEBUG_HANDLE,
    Datatype,
    NodeKind,
)
from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.op_traits import op_key


@dataclass(frozen=True)
class Symbol:
    """A size known at run time only: its expression and its largest value."""

    text: str
    upper: int


Size: TypeAlias = int | Symbol
Shape: TypeAlias = tuple[Size, ...]


def upper(shape: Iterable[Size]) -> tuple[int, ...]:
    """The sizes of a shape, with upper bounds for symbols."""
    return tuple(size.upper if isinstance(size, Symbol) else size for size in shape)


def is_static(shape: Iterable[Size]) -> bool:
    return not any(isinstance(size, Symbol) for size in shape)


class Layout(Enum):
    """Memory layouts of values."""

    NATURAL = "natural"
    # Channels last: NCHW as NHWC, and NCL as an image of one row.
    IMAGE = "image"


class Needs(Enum):
    """Layouts that a node requires of its values of rank 3 and 4."""

    NATURAL = "natural"
    IMAGE = "image"
    EITHER = "either"
    # The node moves elements: its operands and results may have different layouts.
    FREE = "free"


_IMAGE_KINDS = frozenset(
    {
        NodeKind.ARG_MAX_POOLING_2D,
        NodeKind.AVG_POOLING_2D,
        NodeKind.CONV_2D,
        NodeKind.CONV_TRANSPOSE_2D,
        NodeKind.DEPTHWISE_CONV_2D,
        NodeKind.GLOBAL_AVG_POOLING_2D,
        NodeKind.MAX_POOLING_2D,
        NodeKind.PRELU,
        NodeKind.STATIC_RESIZE_BILINEAR_2D,
    }
)
_NATURAL_KINDS = frozenset(
    {
        NodeKind.BATCH_MATRIX_MULTIPLY,
        NodeKind.FULLY_CONNECTED,
        NodeKind.SOFTMAX,
        NodeKind.STATIC_RESHAPE,
    }
)


def needs_of(kind: NodeKind) -> Needs:
    """The layout that a kind of node requires by default."""
    if kind in _IMAGE_KINDS:
        return Needs.IMAGE
    if kind in _NATURAL_KINDS:
        return Needs.NATURAL
    return Needs.FREE if kind is NodeKind.STATIC_TRANSPOSE else Needs.EITHER


@dataclass(frozen=True)
class PerTensor:
    """One scale and zero point."""

    scale: float
    zero_point: int


@dataclass(frozen=True, eq=False)
class PerChannel:
    """A scale for each index of one dimension."""

    scales: torch.Tensor
    axis: int


@dataclass(frozen=True, eq=False)
class PerGroup:
    """A scale for each group of columns of each row: [rows, columns / group_size]."""

    scales: torch.Tensor
    group_size: int


@dataclass(frozen=True)
class Dynamic:
    """Scales found at run time, over the last dimensions."""

    n_nonbatch_dims: int


Quantization: TypeAlias = PerTensor | PerChannel | PerGroup | Dynamic


@dataclass(eq=False)
class Value:
    """One tensor. Constants have `data` of the same shape; results of nodes have a `producer`."""

    name: str
    shape: Shape
    datatype: Datatype
    quantization: Quantization | None = None
    data: torch.Tensor | None = None
    # Weights have the memory order that their node expects.
    is_weight: bool = False
    producer: Node | None = None
    layout: Layout = Layout.NATURAL
    # The order of dimensions in the caller's memory; inputs and outputs of the delegate only.
    dim_order: tuple[int, ...] | None = None
    # The external data file of a constant; None if it is in the program.
    external_tag: str | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def has_layout(self) -> bool:
        """Whether the layout can be chosen: not of weights, nor of other ranks than 3 and 4."""
        return self.rank in (3, 4) and not self.is_weight


@dataclass(eq=False)
class Node:
    """One node. Attributes are the fields of its table, in the exported graph's dimensions."""

    kind: NodeKind
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any] = field(default_factory=dict)
    flags: int = 0
    clamp: tuple[float, float] | None = None
    needs: Needs = Needs.EITHER
    origin: fx.Node | None = None

    @property
    def output(self) -> Value:
        return self.outputs[0]

    def input(self, i: int = 0) -> Value:
        value = self.inputs[i]
        assert value is not None
        return value

    @property
    def debug_handle(self) -> int:
        handle = self.origin.meta.get("debug_handle") if self.origin is not None else None
        return handle if isinstance(handle, int) else NO_DEBUG_HANDLE


@dataclass(eq=False)
class Graph:
    """Nodes in topological order; inputs and outputs in the order of the delegate call."""

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def readers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order and without duplicates."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                if value is not None:
                    found.setdefault(value, []).append(node)
        return found

    def replace(self, old: Value, new: Value) -> None:
        """Replace a value in nodes and outputs; outputs keep their memory order."""
        for node in self.nodes:
            if old in node.inputs:
                node.inputs = [new if value is old else value for value in node.inputs]
        if old in self.outputs:
            new.dim_order = old.dim_order
            self.outputs = [new if value is old else value for value in self.outputs]

    def can_return(self, value: Value, replacements: dict[Value, Value]) -> bool:
        """Whether an output can become this value, by a replacement beside those given.

        Each output of the graph is a value of its own, and no input or constant.
        """
        external = value in self.outputs or value in self.inputs or value.is_constant
        return not external and all(
            replacements.get(output) is not value for output in self.outputs
        )

    def replace_all(self, replacements: dict[Value, Value]) -> None:
        """Replace many values at once; a replacement may itself be replaced."""

        def final(value: Value) -> Value:
            while value in replacements:
                value = replacements[value]
            return value

        for node in self.nodes:
            node.inputs = [None if value is None else final(value) for value in node.inputs]
        for i, value in enumerate(self.outputs):
            if value in replacements:
                self.outputs[i] = final(value)
                self.outputs[i].dim_order = value.dim_order

    def drop_dead(self) -> bool:
        """Remove nodes whose results are not read; True if there were any."""
        alive = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if any(value in alive for value in node.outputs):
                kept.append(node)
                alive.update(value for value in node.inputs if value is not None)
        changed = len(kept) != len(self.nodes)
        self.nodes = kept[::-1]
        return changed


def refusal(origin: fx.Node | None, got: str, expected: str) -> ExportError:
    """The error for a node that cannot be serialized."""
    if origin is None:
        return ExportError(
            ExportErrorType.NOT_SUPPORTED, f"XNNPACK delegate: expected {expected}, got {got}"
        )
    where = source_line(origin)
    return ExportError(
        ExportErrorType.NOT_SUPPORTED,
        f"XNNPACK delegate: node '{origin.name}' ({op_key(origin.target) or origin.op}): expected "
        f"{expected}, got {got}{'; from ' + where if where else ''}. The partitioner must leave "
        "this node out",
    )


def text_of(shape: Sequence[Size]) -> str:
    """A shape as text for messages."""
    return str([s.text if isinstance(s, Symbol) else s for s in shape])
