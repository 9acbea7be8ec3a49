""".pte files: segments, their order and alignment, and a faithful round trip."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from typing import Any

import pytest
import torch

from executorch_py.exir import schema as s
from executorch_py.exir.serialize import (
    NamedDataStore,
    PTEFile,
    StoredTensor,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch_py.exir.serialize.flatbuffer import Reader
from executorch_py.exir.serialize.header import ExtendedHeader
from executorch_py.exir.serialize.tables import PROGRAM_IDENTIFIER, program_layouts


def plan(delegates: list[s.BackendDelegate] | None = None) -> s.ExecutionPlan:
    return s.ExecutionPlan(
        name="forward",
        container_meta_type=s.ContainerMetadata("", ""),
        values=[],
        inputs=[],
        outputs=[],
        chains=[s.Chain([], [], [], None)],
        operators=[],
        delegates=delegates or [],
        non_const_buffer_sizes=[0],
    )


def delegate(index: int) -> s.BackendDelegate:
    place = s.BackendDelegateDataReference(s.DataLocation.INLINE, index)
    return s.BackendDelegate("Some", place, [])


def program(constants: list[bytes], payloads: list[bytes] | None = None) -> s.Program:
    payloads = payloads or []
    return s.Program(
        version=0,
        execution_plan=[plan([delegate(i) for i in range(len(payloads))])],
        constant_buffer=[s.Buffer(b""), *map(s.Buffer, constants)],
        backend_delegate_data=[s.BackendDelegateInlineData(p) for p in payloads],
        segments=[],
        constant_segment=s.SubsegmentOffsets(0, []),
    )


def tables_of(data: bytes) -> s.Program:
    found: s.Program = Reader(program_layouts(), data).root(s.Program, PROGRAM_IDENTIFIER)
    return found


def test_a_program_without_data_has_no_header_but_names_its_constant_segment() -> None:
    data = bytes(serialize_pte_binary(PTEFile(program([]))))
    assert len(data) >= 64
    assert ExtendedHeader.from_file(data) is None
    found = tables_of(data)
    assert found.constant_segment == s.SubsegmentOffsets(0, [0])
    assert found.segments == [s.DataSegment(0, 0)]


def test_constants_are_aligned_inside_their_segment() -> None:
    data = bytes(serialize_pte_binary(PTEFile(program([b"a" * 5, b"b" * 20, b"c"]))))
    found, header = tables_of(data), ExtendedHeader.from_file(data)
    assert header is not None and header.segment_base_offset % 128 == 0
    assert found.constant_segment.offsets == [0, 0, 16, 48]
    base = header.segment_base_offset
    assert data[base + 16 : base + 36] == b"b" * 20
    assert len(data) == base + header.segment_data_size


def test_a_wider_constant_alignment_is_honoured() -> None:
    file = serialize_pte_binary(PTEFile(program([b"a", b"b"])), constant_tensor_alignment=64)
    assert tables_of(bytes(file)).constant_segment.offsets == [0, 0, 64]


def test_segments_come_in_the_order_constants_state_delegates_named_data() -> None:
    store = NamedDataStore()
    store.add_named_data("k", b"named", alignment=64)
    file = PTEFile(
        program([b"const"], [b"payload"]),
        mutable_data=[s.Buffer(b""), s.Buffer(b"abc"), s.Buffer(b"de")],
        named_data=store.get_named_data_store_output(),
    )
    data = bytes(serialize_pte_binary(file, extract_delegate_segments=True))
    found, header = tables_of(data), ExtendedHeader.from_file(data)
    assert header is not None
    parts = [data[header.segment_base_offset + seg.offset :][: seg.size] for seg in found.segments]
    assert parts == [b"const", b"abcde", b"payload", b"named"]
    assert all(seg.offset % 128 == 0 for seg in found.segments)
    assert found.mutable_data_segments == [s.SubsegmentOffsets(1, [0, 0, 3])]
    assert found.named_data == [s.NamedData("k", 3)]
    place = found.execution_plan[0].delegates[0].processed
    assert place == s.BackendDelegateDataReference(s.DataLocation.SEGMENT, 2)


def test_everything_comes_back() -> None:
    store = NamedDataStore()
    store.add_named_data("k", b"named")
    file = PTEFile(
        program([b"0123456789abcdef"], [b"p0", b"p1"]),
        mutable_data=[s.Buffer(b""), s.Buffer(b"abc")],
        named_data=store.get_named_data_store_output(),
    )
    for extract in (False, True):
        data = bytes(serialize_pte_binary(file, extract_delegate_segments=extract))
        found = deserialize_pte_binary(data)
        assert found.program == replace(file.program, named_data=[])
        assert found.mutable_data == file.mutable_data
        assert found.named_data is not None and found.named_data.buffers == [b"named"]


@pytest.mark.parametrize("size", [3, 100_000])
def test_inline_payloads_are_aligned_in_the_file(size: int) -> None:
    payload = bytes(range(1, 4)) * size
    data = bytes(serialize_pte_binary(PTEFile(program([b"x"], [payload])), delegate_alignment=64))
    assert data.index(payload) % 64 == 0
    assert tables_of(data).backend_delegate_data[0].data == payload


def test_weights_are_written_from_where_they_are() -> None:
    weight = torch.arange(100_000, dtype=torch.float32)
    file = serialize_pte_binary(
        PTEFile(
            replace(
                program([]), constant_buffer=[s.Buffer(b""), s.Buffer(StoredTensor(weight, "w"))]
            )
        )
    )
    out = io.BytesIO()
    file.write_to_file(out)
    assert out.getvalue().endswith(weight.numpy().tobytes())


def test_a_weight_changed_before_writing_is_refused_by_name() -> None:
    weight = torch.zeros(4)
    buffers = [s.Buffer(b""), s.Buffer(StoredTensor(weight, "layer.weight"))]
    file = serialize_pte_binary(PTEFile(replace(program([]), constant_buffer=buffers)))
    weight[0] = 1
    with pytest.raises(RuntimeError, match=r"layer\.weight"):
        bytes(file)


def test_segments_outside_the_file_are_refused() -> None:
    data = bytes(serialize_pte_binary(PTEFile(program([b"0123456789abcdef"]))))
    with pytest.raises(ValueError, match="segment 0"):
        deserialize_pte_binary(data[:-1])


def test_a_damaged_header_is_refused() -> None:
    data = bytearray(serialize_pte_binary(PTEFile(program([b"0123456789abcdef"]))).__bytes__())
    struct.pack_into("<I", data, 12, 20)
    with pytest.raises(ValueError, match="extended header"):
        deserialize_pte_binary(bytes(data))


@pytest.mark.parametrize("name", ["constant_tensor_alignment", "delegate_alignment"])
@pytest.mark.parametrize("alignment", [14, 0, -8])
def test_alignments_of_blobs_are_powers_of_two(name: str, alignment: int) -> None:
    options: Any = {name: alignment}
    with pytest.raises(ValueError, match=f"{name}: expected a power of two, got {alignment}"):
        serialize_pte_binary(PTEFile(program([b"x"])), **options)


def test_segments_are_multiples_of_any_number_of_bytes() -> None:
    file = PTEFile(program([b"0123456789"], [b"payload"]))
    data = bytes(serialize_pte_binary(file, extract_delegate_segments=True, segment_alignment=12))
    header = ExtendedHeader.from_file(data)
    assert header is not None and header.segment_base_offset % 12 == 0
    offsets = [segment.offset for segment in tables_of(data).segments]
    assert len(offsets) == 2 and all(offset % 12 == 0 for offset in offsets)
    found = deserialize_pte_binary(data).program
    assert [b.data for b in found.backend_delegate_data] == [b"payload"]
    with pytest.raises(ValueError, match="segment_alignment: expected 1 or more, got 0"):
        serialize_pte_binary(file, segment_alignment=0)


def test_a_payload_that_no_delegate_names_is_refused() -> None:
    given = program([], [b"first", b"second", b"third"])
    [only] = given.execution_plan
    given = replace(given, execution_plan=[replace(only, delegates=[delegate(1)])])
    serialize_pte_binary(PTEFile(given))  # payloads stay where they are
    with pytest.raises(ValueError, match=r"a delegate for every payload, got none for \[0, 2\]"):
        serialize_pte_binary(PTEFile(given), extract_delegate_segments=True)
