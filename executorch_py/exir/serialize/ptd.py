"""Named tensors and blobs as a .ptd data file (FlatTensor) and back.

Relies on the flatbuffer writer; which weights go into which file is decided by the emitter and by
`serialize_for_executorch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from executorch_py.exir.ir.tensor_layout import TensorLayout
from executorch_py.exir.schema import DataSegment, ScalarType
from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.flatbuffer import (
    U32,
    U64,
    Field,
    Layouts,
    Numbers,
    Reader,
    Scalar,
    Table,
    Tables,
    Text,
    Writer,
)
from executorch_py.exir.serialize.header import (
    HEADER_OFFSET,
    SEGMENT_ALIGNMENT,
    FlatTensorHeader,
    align_up,
)
from executorch_py.exir.serialize.named_data import DataEntry
from executorch_py.exir.serialize.segments import SegmentList, cut_segments

IDENTIFIER = b"FT01"


@dataclass(frozen=True)
class NamedData:
    """Place of a key's bytes, and their layout if they are a tensor."""

    key: str
    segment_index: int
    tensor_layout: TensorLayout | None


@dataclass(frozen=True)
class FlatTensor:
    """The root of a data file."""

    version: int
    segments: list[DataSegment]
    named_data: list[NamedData]


@dataclass
class DataPayload:
    """The content of a data file: unique buffers, and the keys that name them."""

    buffers: Sequence[Any]
    named_data: Mapping[str, DataEntry]


LAYOUTS: Layouts = {
    FlatTensor: (
        Field("version", U32),
        Field("segments", Tables(DataSegment), list),
        Field("named_data", Tables(NamedData), list),
    ),
    DataSegment: (Field("offset", U64), Field("size", U64)),
    NamedData: (
        Field("key", Text(), str),
        Field("segment_index", U32),
        Field("tensor_layout", Table(TensorLayout)),
    ),
    TensorLayout: (
        Field("scalar_type", Scalar("b", ScalarType)),
        Field("sizes", Numbers("i"), list),
        Field("dim_order", Numbers("B"), list),
    ),
}


def serialize_data_file(payload: DataPayload, segment_alignment: int = SEGMENT_ALIGNMENT) -> Cord:
    """The data file, in pieces; keys in the order given, equal buffers once."""
    segments = SegmentList(segment_alignment)
    placed: dict[int, int] = {}
    named = []
    for key, entry in payload.named_data.items():
        index = placed.get(entry.buffer_index)
        if index is None:
            index = segments.add(payload.buffers[entry.buffer_index], entry.alignment)
            placed[entry.buffer_index] = index
        named.append(NamedData(key, index, entry.tensor_layout))
    writer = Writer(LAYOUTS, IDENTIFIER, FlatTensorHeader.ROOM)
    file = Cord()
    for chunk in writer.finish(FlatTensor(0, segments.table, named)):
        file.append(chunk)
    base = align_up(len(file), segment_alignment)
    room = FlatTensorHeader.ROOM
    header = FlatTensorHeader(room, len(file) - room, base, len(segments.data)).to_bytes()
    writer.head[HEADER_OFFSET : HEADER_OFFSET + len(header)] = header
    file.pad_to(segment_alignment)
    file.append(segments.data)
    return file


def deserialize_data_file(data: bytes) -> DataPayload:
    """The content of a data file; ValueError when it is damaged."""
    view = memoryview(data).cast("B")
    header = FlatTensorHeader.from_file(view)
    end = header.flatbuffer_offset + header.flatbuffer_size
    root: FlatTensor = Reader(LAYOUTS, view[:end]).root(FlatTensor, IDENTIFIER)
    if root.version != 0:
        raise ValueError(f"data file: expected version 0, got {root.version}")
    segments = cut_segments(root.segments, view[header.segment_base_offset :])
    for entry in root.named_data:
        if entry.segment_index >= len(segments):
            raise ValueError(
                f"named data '{entry.key}' is segment {entry.segment_index}, "
                f"the file has {len(segments)}"
            )
    entries = {n.key: DataEntry(n.segment_index, 1, n.tensor_layout) for n in root.named_data}
    return DataPayload([s.tobytes() for s in segments], entries)
