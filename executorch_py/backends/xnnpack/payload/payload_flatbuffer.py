"""The payload format of the XNNPACK delegate: flatbuffer tables as dataclasses, writer, reader.

A payload is a header of 32 bytes and a flatbuffer. Old files have constants behind it; today all
constants are named data. The order of fields below is the order of slots in the tables. Relies on
the flatbuffer writer of the exporter; knows neither torch nor graphs.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from executorch_py.exir.serialize.flatbuffer import (
    I32,
    U32,
    U64,
    Field,
    FlatbufferError,
    Kind,
    Layouts,
    Numbers,
    Reader,
    Scalar,
    Table,
    Tables,
    Text,
    Union,
    Writer,
)

MAGIC = b"XH00"
IDENTIFIER = b"XN01"
HEADER_BYTES = 32
NO_ID = 0xFFFFFFFF
NO_DEBUG_HANDLE = 65535
NAMED_OFFSET = 2**64 - 1
MAX_DIMS = 6

EXTERNAL_INPUT = 1
EXTERNAL_OUTPUT = 2

_HEADER = struct.Struct("<I4sHIIIQ2x")
_F32 = Scalar("f")


class Datatype(IntEnum):
    """Element types of values."""

    INVALID = 0
    FP32 = 1
    FP16 = 2
    QINT8 = 3
    QUINT8 = 4
    QINT32 = 5
    QCINT8 = 6
    QCINT32 = 7
    QCINT4 = 8
    QDINT8 = 9
    QBINT4 = 10
    QPINT8 = 11
    INT32 = 12
    PFP32 = 13
    BF16 = 14


class NodeKind(IntEnum):
    """Kinds of nodes; the values are their codes in the union."""

    ADD = 1
    FULLY_CONNECTED = 2
    SOFTMAX = 3
    SIGMOID = 4
    STATIC_TRANSPOSE = 5
    CLAMP = 6
    CONV_2D = 7
    DIV = 8
    STATIC_RESIZE_BILINEAR_2D = 9
    STATIC_CONSTANT_PAD = 10
    AVG_POOLING_2D = 11
    MINIMUM = 12
    DEPTHWISE_CONV_2D = 13
    MAX_POOLING_2D = 14
    MULTIPLY = 15
    SUBTRACT = 16
    FLOOR = 17
    CONVERT = 18
    GLOBAL_AVG_POOLING_2D = 19
    STATIC_RESHAPE = 20
    ARG_MAX_POOLING_2D = 21
    SQUARE_ROOT = 22
    CEILING = 23
    HARDSWISH = 24
    LEAKY_RELU = 25
    MAXIMUM = 26
    NEGATE = 27
    SQUARE = 28
    ELU = 29
    ABS = 30
    PRELU = 31
    CONCATENATE_2 = 32
    CONCATENATE_3 = 33
    CONCATENATE_4 = 34
    STATIC_SLICE = 35
    SCALED_DOT_PRODUCT_ATTENTION = 36
    BATCH_MATRIX_MULTIPLY = 37
    CONCATENATE_5 = 38
    CONV_TRANSPOSE_2D = 39
    RECIPROCAL_SQUARE_ROOT = 40
    LOG = 41
    GELU = 42
    TANH = 43
    EXP = 44
    SIN = 45
    COPY = 46
    COS = 47


_IDS = Numbers("I")
_Slots = tuple[tuple[str, Kind], ...]


def _u32(*names: str) -> _Slots:
    return tuple((name, U32) for name in names)


_UNARY = _u32("input_id", "output_id", "flags")
_BINARY = _u32("input1_id", "input2_id", "output_id", "flags")
_SIDES = ("padding_top", "padding_right", "padding_bottom", "padding_left")
_CONCATENATE = _u32(
    "axis",
    "input1_id",
    "input2_id",
    "input3_id",
    "input4_id",
    "output_id",
    "flags",
    "input5_id",
)
_CONVOLUTION = _u32(
    *_SIDES,
    "kernel_height",
    "kernel_width",
    "subsampling_height",
    "subsampling_width",
    "dilation_height",
    "dilation_width",
    "group_input_channels",
    "group_output_channels",
    "groups",
    "adjustment_height",
    "adjustment_width",
    "input1_id",
    "filter_id",
    "bias_id",
    "output_id",
    "flags",
)
_POOLING = _u32(
    *_SIDES,
    "pooling_height",
    "pooling_width",
    "stride_height",
    "stride_width",
    "dilation_height",
    "dilation_width",
    "input_id",
    "output_id",
    "flags",
)

# The tables of all kinds but element-wise ones with one input, which have _UNARY.
_SLOTS: dict[NodeKind, _Slots] = {
    NodeKind.FULLY_CONNECTED: _u32("input1_id", "filter_id", "bias_id", "output_id", "flags"),
    NodeKind.STATIC_TRANSPOSE: (("num_dims", U32), ("perm", _IDS), *_UNARY),
    NodeKind.STATIC_RESIZE_BILINEAR_2D: _u32("new_height", "new_width") + _UNARY,
    NodeKind.STATIC_CONSTANT_PAD: (
        ("pre_paddings", _IDS),
        ("post_paddings", _IDS),
        ("padding_value", _F32),
        *_UNARY,
    ),
    NodeKind.STATIC_RESHAPE: (("num_dims", U32), ("new_shape", _IDS), *_UNARY),
    NodeKind.STATIC_SLICE: (("num_dims", U32), ("offsets", _IDS), ("sizes", _IDS), *_UNARY),
    NodeKind.ARG_MAX_POOLING_2D: _u32(
        *_SIDES,
        "pooling_height",
        "pooling_width",
        "input_id",
        "output_value_id",
        "output_index_id",
        "flags",
    ),
    NodeKind.LEAKY_RELU: (("negative_slope", _F32), *_UNARY),
    NodeKind.ELU: (("alpha", _F32), *_UNARY),
    NodeKind.SCALED_DOT_PRODUCT_ATTENTION: _u32(
        "query_id", "key_id", "value_id", "scale_id", "mask_id", "output_id", "flags"
    ),
    **dict.fromkeys((NodeKind.AVG_POOLING_2D, NodeKind.MAX_POOLING_2D), _POOLING),
    **dict.fromkeys(
        (NodeKind.CONV_2D, NodeKind.DEPTHWISE_CONV_2D, NodeKind.CONV_TRANSPOSE_2D), _CONVOLUTION
    ),
    **dict.fromkeys(
        (
            NodeKind.ADD,
            NodeKind.DIV,
            NodeKind.MINIMUM,
            NodeKind.MULTIPLY,
            NodeKind.SUBTRACT,
            NodeKind.MAXIMUM,
            NodeKind.PRELU,
            NodeKind.BATCH_MATRIX_MULTIPLY,
        ),
        _BINARY,
    ),
    **dict.fromkeys(
        (
            NodeKind.CONCATENATE_2,
            NodeKind.CONCATENATE_3,
            NodeKind.CONCATENATE_4,
            NodeKind.CONCATENATE_5,
        ),
        _CONCATENATE,
    ),
}


def _number(value: Kind) -> bool:
    return isinstance(value, Scalar)


def _node_table(kind: NodeKind) -> type:
    """Make the frozen dataclass of a node kind; all fields are optional."""
    fields = [
        (name, Any, dataclasses.field(default=0 if _number(what) else ()))
        for name, what in _SLOTS.get(kind, _UNARY)
    ]
    return dataclasses.make_dataclass(kind.name, fields, frozen=True)


NODE_TABLES: dict[NodeKind, type] = {kind: _node_table(kind) for kind in NodeKind}


@dataclass(frozen=True)
class ConstantDataOffset:
    """Offset and size of a constant; with a key it is named data."""

    offset: int
    size: int
    named_key: str | None


@dataclass(frozen=True)
class OutputMinMax:
    """The range to which a node's results are clamped."""

    output_min: float
    output_max: float


@dataclass(frozen=True)
class XNode:
    """One node: its table (an instance of one of NODE_TABLES) and the fields of all nodes."""

    xnode_union: Any
    debug_handle: int = NO_DEBUG_HANDLE
    output_min_max: OutputMinMax | None = None

    @property
    def kind(self) -> NodeKind:
        return NodeKind[type(self.xnode_union).__name__]


@dataclass(frozen=True)
class XNNTensorValue:
    """A value: element type, sizes in memory order, and its constant or external id, if any."""

    datatype: Datatype
    num_dims: int
    dims: Sequence[int]
    constant_buffer_idx: int
    external_id: int
    flags: int
    id_out: int


@dataclass(frozen=True)
class PerChannelQuant:
    scale: Sequence[float]
    channel_dim: int
    scale_buffer_idx: int
    num_scales: int


@dataclass(frozen=True)
class PerTensorQuant:
    scale: float
    zero_point: int


@dataclass(frozen=True)
class PerTokenDynamicQuant:
    num_nonbatch_dims: int


@dataclass(frozen=True)
class PerChannelGroupQuant:
    scale: Sequence[float]
    channel_dim: int
    group_size: int
    scale_bf16: Sequence[int]
    scale_buffer_idx: int
    num_scales: int


@dataclass(frozen=True)
class XNNQuantizedTensorValue:
    """A quantized value and its quantization parameters."""

    tensor_value: XNNTensorValue
    quant_params: Any


@dataclass(frozen=True)
class XValue:
    xvalue_union: XNNTensorValue | XNNQuantizedTensorValue

    @property
    def tensor(self) -> XNNTensorValue:
        value = self.xvalue_union
        return value.tensor_value if isinstance(value, XNNQuantizedTensorValue) else value


@dataclass(frozen=True)
class XNNGraph:
    """The root table. The runtime finds inputs and outputs by the flags of values."""

    version: str
    xnodes: Sequence[XNode]
    xvalues: Sequence[XValue]
    num_externs: int
    input_ids: Sequence[int]
    output_ids: Sequence[int]
    constant_buffer: Sequence[Any] | None
    mem_buffer_sizes: Sequence[int] | None
    constant_data: Sequence[ConstantDataOffset]


def _fields(*slots: tuple[str, Kind]) -> tuple[Field, ...]:
    """Rows of the flatbuffer writer; absent vectors read as empty, absent tables as None."""
    return tuple(Field(n, k, tuple if isinstance(k, (Numbers, Tables)) else None) for n, k in slots)


_F32S = Numbers("f")
_QUANT = Union((PerChannelQuant, PerTensorQuant, PerTokenDynamicQuant, PerChannelGroupQuant))

LAYOUTS: Layouts = {
    **{NODE_TABLES[kind]: _fields(*_SLOTS.get(kind, _UNARY)) for kind in NodeKind},
    ConstantDataOffset: _fields(("offset", U64), ("size", U64), ("named_key", Text())),
    OutputMinMax: _fields(("output_min", _F32), ("output_max", _F32)),
    XNode: _fields(
        ("xnode_union", Union(tuple(NODE_TABLES.values()))),
        ("debug_handle", U32),
        ("output_min_max", Table(OutputMinMax)),
    ),
    XNNTensorValue: _fields(
        ("datatype", Scalar("h", Datatype)),
        ("num_dims", U32),
        ("dims", _IDS),
        ("constant_buffer_idx", U32),
        ("external_id", U32),
        ("flags", U32),
        ("id_out", U32),
    ),
    PerChannelQuant: _fields(
        ("scale", _F32S), ("channel_dim", I32), ("scale_buffer_idx", U32), ("num_scales", U32)
    ),
    PerTensorQuant: _fields(("scale", _F32), ("zero_point", I32)),
    PerTokenDynamicQuant: _fields(("num_nonbatch_dims", I32)),
    PerChannelGroupQuant: _fields(
        ("scale", _F32S),
        ("channel_dim", I32),
        ("group_size", I32),
        ("scale_bf16", Numbers("H")),
        ("scale_buffer_idx", U32),
        ("num_scales", U32),
    ),
    XNNQuantizedTensorValue: _fields(
        ("tensor_value", Table(XNNTensorValue)), ("quant_params", _QUANT)
    ),
    XValue: _fields(("xvalue_union", Union((XNNTensorValue, XNNQuantizedTensorValue)))),
    XNNGraph: _fields(
        ("version", Text()),
        ("xnodes", Tables(XNode)),
        ("xvalues", Tables(XValue)),
        ("num_externs", U32),
        ("input_ids", _IDS),
        ("output_ids", _IDS),
        # Old payloads have constants in these tables; they are never written.
        ("constant_buffer", _IDS),
        ("mem_buffer_sizes", _IDS),
        ("constant_data", Tables(ConstantDataOffset)),
    ),
}


def payload_bytes(graph: XNNGraph) -> bytes:
    """The payload of a graph whose constants are named data."""
    chunks = Writer(LAYOUTS, IDENTIFIER).finish(graph)
    flat = b"".join(bytes(chunk) for chunk in chunks)
    behind = -len(flat) % 16
    header = _HEADER.pack(
        0, MAGIC, 30, HEADER_BYTES, len(flat), HEADER_BYTES + len(flat) + behind, 0
    )
    return header + flat + bytes(behind)


def read_payload(data: bytes) -> XNNGraph:
    """The graph of a payload with a header; raises FlatbufferError for malformed bytes."""
    if len(data) < HEADER_BYTES or data[4:8] != MAGIC:
        raise FlatbufferError(
            f"payload: expected {MAGIC!r} at byte 4, got {data[:8]!r} at its start"
        )
    _, _, _, offset, size, _, _ = _HEADER.unpack_from(data)
    graph = Reader(LAYOUTS, data[offset : offset + size]).root(XNNGraph, IDENTIFIER)
    assert isinstance(graph, XNNGraph)
    return graph
