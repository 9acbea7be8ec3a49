"""The graph between the edge dialect and the payload: values and nodes of XNNPACK that passes
change.

Shapes, axes and paddings are those of the exported graph (images are NCHW) whatever the layout of a
value in memory: the layout pass decides that per value, and only assemble.py turns axes into those
of memory. Knows the node kinds of the payload, not the operators of torch.
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
    """A size known at run time only: what it is called, and its largest value."""

    text: str
    upper: int


Size: TypeAlias = int | Symbol
Shape: TypeAlias = tuple[Size, ...]


def upper(shape: Iterable[Size]) -> tuple[int, ...]:
    """The largest sizes."""
    return tuple(size.upper if isinstance(size, Symbol) else size for size in shape)


def is_static(shape: Iterable[Size]) -> bool:
    return not any(isinstance(size, Symbol) for size in shape)


class Layout(Enum):
    """How the dimensions of a value follow each other in memory."""

    NATURAL = "natural"
    # Channels last: NCHW as NHWC, and NCL as an image of one row.
    IMAGE = "image"


class Needs(Enum):
    """In which layout a node works: all of its values of rank 3 and 4 have it."""

    NATURAL = "natural"
    IMAGE = "image"
    EITHER = "either"
    # The node moves data about anyway: what it reads and what it makes are each as they like.
    FREE = "free"


_IMAGE_KINDS = frozenset(
    {
        *(NodeKind.CONV_2D, NodeKind.DEPTHWISE_CONV_2D, NodeKind.CONV_TRANSPOSE_2D),
        *(NodeKind.MAX_POOLING_2D, NodeKind.AVG_POOLING_2D, NodeKind.GLOBAL_AVG_POOLING_2D),
        *(NodeKind.ARG_MAX_POOLING_2D, NodeKind.STATIC_RESIZE_BILINEAR_2D, NodeKind.PRELU),
    }
)
_NATURAL_KINDS = frozenset(
    {
        *(NodeKind.FULLY_CONNECTED, NodeKind.BATCH_MATRIX_MULTIPLY, NodeKind.SOFTMAX),
        NodeKind.STATIC_RESHAPE,
    }
)


def needs_of(kind: NodeKind) -> Needs:
    """What a kind of node needs unless its visitor says otherwise."""
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
    """One tensor. Constants have `data`, of the same shape; what nodes make has a `producer`."""

    name: str
    shape: Shape
    datatype: Datatype
    quantization: Quantization | None = None
    data: torch.Tensor | None = None
    # Of weights, whose memory order is part of what their node expects.
    is_weight: bool = False
    producer: Node | None = None
    layout: Layout = Layout.NATURAL
    # Of inputs and outputs of the delegate: the order of dimensions in the caller's memory.
    dim_order: tuple[int, ...] | None = None
    # The data file that a constant belongs to, if not the program.
    external_tag: str | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def has_layout(self) -> bool:
        """Whether the layout is open: not that of weights, nor of what has no channels."""
        return self.rank in (3, 4) and not self.is_weight


@dataclass(eq=False)
class Node:
    """One node. Attributes are those of its table, axes and lists in the exported graph's order."""

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
    """Nodes in an order in which they can run; inputs and outputs in the order of the call."""

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def readers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order, each once."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                if value is not None:
                    found.setdefault(value, []).append(node)
        return found

    def replace(self, old: Value, new: Value) -> None:
        """Let everything that reads `old` read `new`; outputs too, under their own memory order."""
        for node in self.nodes:
            if old in node.inputs:
                node.inputs = [new if value is old else value for value in node.inputs]
        if old in self.outputs:
            new.dim_order = old.dim_order
            self.outputs = [new if value is old else value for value in self.outputs]

    def replace_all(self, replacements: dict[Value, Value]) -> None:
        """`replace` for many values at once; what replaces may be replaced itself."""

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
        """Remove nodes of which nothing is read."""
        alive = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if any(value in alive for value in node.outputs):
                kept.append(node)
                alive.update(value for value in node.inputs if value is not None)
        changed = len(kept) != len(self.nodes)
        self.nodes = kept[::-1]
        return changed


def refusal(origin: fx.Node | None, found: str, needed: str) -> ExportError:
    """The error for a node that cannot be written: which, what was found and what is needed."""
    if origin is None:
        return ExportError(
            ExportErrorType.NOT_SUPPORTED, f"XNNPACK delegate: found {found}, needed is {needed}"
        )
    where = source_line(origin)
    return ExportError(
        ExportErrorType.NOT_SUPPORTED,
        f"XNNPACK delegate: node '{origin.name}' ({op_key(origin.target) or origin.op}): found "
        f"{found}, needed is {needed}{'; from ' + where if where else ''}. The partitioner must "
        "leave this node out",
    )


def text_of(shape: Sequence[Size]) -> str:
    """Sizes as read by people."""
    return str([s.text if isinstance(s, Symbol) else s for s in shape])
