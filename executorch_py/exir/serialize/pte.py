"""Programs as .pte files and back: segments, their order, and the head of the file.

Segment order: constants (always), initial state of mutable buffers, delegate payloads, named
data. Relies on the flatbuffer writer and the format's tables; knows nothing of graphs or torch
programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from executorch_py.exir.schema import (
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    Buffer,
    DataLocation,
    ExecutionPlan,
    NamedData,
    Program,
    SubsegmentOffsets,
)
from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.flatbuffer import Reader, Writer
from executorch_py.exir.serialize.header import (
    HEADER_OFFSET,
    SEGMENT_ALIGNMENT,
    ExtendedHeader,
    align_up,
)
from executorch_py.exir.serialize.named_data import NamedDataStore, NamedDataStoreOutput
from executorch_py.exir.serialize.segments import SegmentList, cut_segments
from executorch_py.exir.serialize.tables import (
    DEFAULT_BLOB_ALIGNMENT,
    PROGRAM_IDENTIFIER,
    program_layouts,
)

SMALLEST_FILE = 64  # readers expect a header in the first 64 bytes and refuse shorter files


@dataclass
class PTEFile:
    """Contents of one .pte file. Constants and payloads are still inside the program."""

    program: Program
    mutable_data: list[Buffer] | None = None
    named_data: NamedDataStoreOutput | None = None


def serialize_pte_binary(
    pte_file: PTEFile,
    *,
    extract_delegate_segments: bool = False,
    segment_alignment: int = SEGMENT_ALIGNMENT,
    constant_tensor_alignment: int | None = None,
    delegate_alignment: int | None = None,
) -> Cord:
    """The file, in pieces. The program given is not changed.

    segment_alignment is any number of bytes, the other alignments are powers of two. Of payloads
    that are moved into segments, each must have a delegate that names it.
    """
    constant_alignment = _blob_alignment("constant_tensor_alignment", constant_tensor_alignment)
    inline_alignment = _blob_alignment("delegate_alignment", delegate_alignment)
    segments = SegmentList(segment_alignment)
    program = _move_constants(pte_file.program, segments, constant_alignment)
    program = _move_mutable_data(program, pte_file.mutable_data, segments)
    if extract_delegate_segments:
        program = _move_delegates(program, segments)
    if pte_file.named_data is not None:
        program = _move_named_data(program, pte_file.named_data, segments)
    program = replace(program, segments=segments.table, named_data=program.named_data or None)

    has_segments = len(segments.data) > 0
    writer = Writer(
        program_layouts(constant_alignment, inline_alignment),
        PROGRAM_IDENTIFIER,
        ExtendedHeader.LENGTH if has_segments else 0,
    )
    chunks = writer.finish(program)
    file = Cord()
    for chunk in chunks:
        file.append(chunk)
    if len(file) < SMALLEST_FILE:
        file.append(bytes(SMALLEST_FILE - len(file)))
    if has_segments:
        base = align_up(len(file), segment_alignment)
        header = ExtendedHeader(len(file), base, len(segments.data)).to_bytes()
        writer.head[HEADER_OFFSET : HEADER_OFFSET + len(header)] = header
        file.pad_to(segment_alignment)
        file.append(segments.data)
    return file


def _blob_alignment(name: str, given: int | None) -> int:
    if given is None:
        return DEFAULT_BLOB_ALIGNMENT
    if given < 1 or given & (given - 1):
        raise ValueError(f"{name}: expected a power of two, got {given}")
    return given


def _pack(buffers: Sequence[Buffer], alignment: int) -> tuple[Cord, list[int]]:
    """Buffers one after another, each start aligned; the last is not padded."""
    data, offsets = Cord(), []
    for buffer in buffers:
        data.pad_to(alignment)
        offsets.append(len(data))
        data.append(buffer.piece())
    return data, offsets


def _move_constants(program: Program, segments: SegmentList, alignment: int) -> Program:
    buffers = program.constant_buffer or [Buffer(b"")]
    data, offsets = _pack(buffers, alignment)
    index = segments.add(data)
    return replace(program, constant_segment=SubsegmentOffsets(index, offsets), constant_buffer=[])


def _move_mutable_data(
    program: Program, buffers: list[Buffer] | None, segments: SegmentList
) -> Program:
    """Initial states need no alignment: they are copied into planned memory."""
    data, offsets = _pack(buffers or [], 1)
    if not len(data):
        return replace(program, mutable_data_segments=None)
    table = [SubsegmentOffsets(segments.add(data), offsets)]
    return replace(program, mutable_data_segments=table)


def _move_delegates(program: Program, segments: SegmentList) -> Program:
    """Make segments of payloads; empty ones stay inline."""
    inline: list[BackendDelegateInlineData] = []
    moved: dict[int, BackendDelegateDataReference] = {}

    def reference(delegate: BackendDelegate) -> BackendDelegateDataReference:
        place = delegate.processed
        if place.location != DataLocation.INLINE:
            raise ValueError(f"payload of delegate {delegate.id} was already moved: {place}")
        if place.index >= len(program.backend_delegate_data):
            raise ValueError(
                f"delegate {delegate.id} has payload {place.index}, "
                f"the program holds {len(program.backend_delegate_data)}"
            )
        if place.index not in moved:
            data = program.backend_delegate_data[place.index]
            if len(data.data):
                moved[place.index] = BackendDelegateDataReference(
                    DataLocation.SEGMENT, segments.add(data.data)
                )
            else:
                moved[place.index] = BackendDelegateDataReference(DataLocation.INLINE, len(inline))
                inline.append(data)
        return moved[place.index]

    plans = [_with_payloads(plan, reference) for plan in program.execution_plan]
    unnamed = sorted(set(range(len(program.backend_delegate_data))) - set(moved))
    if unnamed:
        raise ValueError(
            f"backend_delegate_data: expected a delegate for every payload, got none for {unnamed}"
        )
    return replace(program, execution_plan=plans, backend_delegate_data=inline)


def _with_payloads(plan: ExecutionPlan, reference: Any) -> ExecutionPlan:
    delegates = [replace(d, processed=reference(d)) for d in plan.delegates]
    return replace(plan, delegates=delegates)


def _move_named_data(
    program: Program, named: NamedDataStoreOutput, segments: SegmentList
) -> Program:
    if not named.pte_data:
        return program
    placed: dict[int, int] = {}
    table = []
    for key, entry in named.pte_data.items():
        index = placed.get(entry.buffer_index)
        if index is None:
            index = segments.add(named.buffers[entry.buffer_index], entry.alignment)
            placed[entry.buffer_index] = index
        table.append(NamedData(key, index))
    return replace(program, named_data=table)


def deserialize_pte_binary(program_data: bytes) -> PTEFile:
    """The file's content, constants and payloads back in the program. Checks all offsets."""
    data = memoryview(program_data).cast("B")
    header = ExtendedHeader.from_file(data)
    size = header.program_size if header else len(data)
    program: Program = Reader(program_layouts(), data[:size]).root(Program, PROGRAM_IDENTIFIER)
    base = header.segment_base_offset if header else 0
    segments = cut_segments(program.segments, data[base:] if base else memoryview(b""))
    constants = program.constant_buffer
    if program.constant_segment.offsets:
        constants = _unpack(program.constant_segment, segments)
    mutable = None
    if program.mutable_data_segments:
        mutable = _unpack(program.mutable_data_segments[0], segments)
    named = _restore_named_data(program, segments) if program.named_data else None
    program = replace(
        _restore_delegates(program, segments),
        constant_buffer=constants,
        constant_segment=SubsegmentOffsets(0, []),
        mutable_data_segments=None,
        named_data=[],
        segments=[],
    )
    return PTEFile(program, mutable, named)


def _segment(segments: Sequence[memoryview], index: int, what: str) -> memoryview:
    if index >= len(segments):
        raise ValueError(f"{what} is segment {index}, the file has {len(segments)}")
    return segments[index]


def _unpack(table: SubsegmentOffsets, segments: Sequence[memoryview]) -> list[Buffer]:
    """One buffer per offset, reaching to the next larger one (padding included)."""
    data = _segment(segments, table.segment_index, "constant data")
    ends = sorted({*table.offsets, len(data)})
    following = {start: ends[min(i + 1, len(ends) - 1)] for i, start in enumerate(ends)}
    buffers = [Buffer(b"")] if table.offsets else []
    for offset in table.offsets[1:]:
        if offset > len(data):
            raise ValueError(f"constant at {offset}, its segment has {len(data)} bytes")
        buffers.append(Buffer(data[offset : following[offset]].tobytes()))
    return buffers


def _restore_delegates(program: Program, segments: Sequence[memoryview]) -> Program:
    payloads = list(program.backend_delegate_data)
    placed: dict[int, BackendDelegateDataReference] = {}

    def reference(delegate: BackendDelegate) -> BackendDelegateDataReference:
        place = delegate.processed
        if place.location == DataLocation.INLINE:
            return place
        if place.index not in placed:
            data = _segment(segments, place.index, f"payload of delegate {delegate.id}")
            placed[place.index] = BackendDelegateDataReference(DataLocation.INLINE, len(payloads))
            payloads.append(BackendDelegateInlineData(data.tobytes()))
        return placed[place.index]

    plans = [_with_payloads(plan, reference) for plan in program.execution_plan]
    return replace(program, execution_plan=plans, backend_delegate_data=payloads)


def _restore_named_data(program: Program, segments: Sequence[memoryview]) -> NamedDataStoreOutput:
    store = NamedDataStore()
    for entry in program.named_data or ():
        data = _segment(segments, entry.segment_index, f"named data '{entry.key}'")
        store.add_named_data(entry.key, data.tobytes())
    return store.get_named_data_store_output()
