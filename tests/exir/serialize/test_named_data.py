"""Named data and .ptd files: shared by content, contradictions refused, a faithful round trip."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from executorch_py.exir.schema import Program, ScalarType, SubsegmentOffsets
from executorch_py.exir.serialize.cord import Cord, StoredTensor
from executorch_py.exir.serialize.file_backed import FileBackedData
from executorch_py.exir.serialize.named_data import (
    DataEntry,
    NamedDataStore,
    NamedDataStoreOutput,
)
from executorch_py.exir.serialize.ptd import (
    DataPayload,
    deserialize_data_file,
    serialize_data_file,
)
from executorch_py.exir.serialize.pte import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch_py.extension.flat_tensor.serialize.serialize import (
    FlatTensorConfig,
    FlatTensorSerializer,
)


def test_equal_bytes_are_kept_once_under_several_keys() -> None:
    store = NamedDataStore()
    store.add_named_data("a", b"same")
    store.add_named_data("b", b"same", external_tag="file")
    output = store.get_named_data_store_output()
    assert output.buffers == [b"same"]
    assert list(output.pte_data) == ["a"] and list(output.external_data["file"]) == ["b"]


def test_one_key_with_two_contents_is_refused() -> None:
    store = NamedDataStore()
    store.add_named_data("a", b"one")
    with pytest.raises(ValueError, match="'a'"):
        store.add_named_data("a", b"two")


def test_a_key_added_again_keeps_the_stricter_alignment() -> None:
    store = NamedDataStore()
    store.add_named_data("a", b"one", alignment=4)
    store.add_named_data("a", b"one", alignment=16)
    assert store.get_named_data_store_output().pte_data["a"].alignment == 16


def test_merging_keeps_places_and_sharing() -> None:
    first, second = NamedDataStore(), NamedDataStore()
    first.add_named_data("a", b"x")
    second.add_named_data("b", b"x")
    second.add_named_data("c", b"y", external_tag="t")
    first.merge_named_data_store(second.get_named_data_store_output())
    output = first.get_named_data_store_output()
    assert output.buffers == [b"x", b"y"] and list(output.pte_data) == ["a", "b"]


def test_data_files_survive_a_round_trip() -> None:
    store = NamedDataStore()
    weight = torch.randn(2, 3)
    store.add_named_data("w", weight, external_tag="t")
    store.add_named_data("blob", b"12345", alignment=16, external_tag="t")
    payload = DataPayload(store.buffers, store.external_data["t"])
    data = bytes(serialize_data_file(payload))
    assert data[4:8] == b"FT01" and data[8:12] == b"FH01"
    found = deserialize_data_file(data)
    assert found.buffers == [weight.numpy().tobytes(), b"12345"]
    layout = found.named_data["w"].tensor_layout
    assert layout is not None
    assert (layout.scalar_type, layout.sizes) == (ScalarType.FLOAT, [2, 3])
    assert layout.dim_order == [0, 1] and found.named_data["blob"].tensor_layout is None


def test_truncated_data_files_are_refused() -> None:
    store = NamedDataStore()
    store.add_named_data("k", b"x" * 40, external_tag="t")
    data = bytes(serialize_data_file(DataPayload(store.buffers, store.external_data["t"])))
    for size in range(len(data)):
        with pytest.raises(ValueError):
            deserialize_data_file(data[:size])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64])
def test_stored_tensors_are_their_memory(dtype: torch.dtype) -> None:
    tensor = torch.arange(12).reshape(3, 4).to(dtype)
    assert bytes(StoredTensor(tensor, "t")) == bytes(tensor.untyped_storage())
    row = tensor[1]
    assert len(StoredTensor(row, "row")) == row.numel() * row.element_size()


def test_a_cord_takes_bytes_and_cords_only() -> None:
    cord = Cord(b"ab")
    cord.append(Cord(b"c"))
    cord.pad_to(4)
    assert bytes(cord) == b"abc\0" and len(cord) == 4
    with pytest.raises(TypeError, match="str"):
        cord.append("text")


def test_a_transposed_tensor_gives_its_bytes_in_order_and_equals_its_copy() -> None:
    weight = torch.randn(40, 30, generator=torch.Generator().manual_seed(0))
    transposed = StoredTensor(weight.t(), "w", [0, 1])
    copied = StoredTensor(weight.t().contiguous(), "c", [0, 1])
    assert bytes(transposed) == weight.t().contiguous().numpy().tobytes()
    assert transposed == copied and hash(transposed) == hash(copied)
    assert transposed.digest == copied.digest
    assert transposed != StoredTensor(weight, "w")


def test_tensors_that_differ_late_are_not_equal() -> None:
    zeros, almost = torch.zeros(1000), torch.zeros(1000)
    almost[-1] = 1
    assert StoredTensor(zeros, "a") != StoredTensor(almost, "b")
    assert StoredTensor(zeros, "a") == StoredTensor(torch.zeros(500, dtype=torch.float64), "c")


def test_a_transposed_tensor_notices_a_change_of_the_weight_behind_it() -> None:
    weight = torch.ones(8, 4)
    stored = StoredTensor(weight.t(), "w", [0, 1])
    weight.neg_()
    with pytest.raises(RuntimeError, match="'w' was changed"):
        bytes(stored)


def test_a_large_transposed_tensor_is_written_in_order() -> None:
    weight = torch.arange(3 << 20, dtype=torch.int32).reshape(1 << 10, 3 << 10)
    stored, copied = StoredTensor(weight.t(), "w", [0, 1]), weight.t().contiguous()
    out = io.BytesIO()
    Cord(stored).write_to_file(out)
    assert out.getvalue() == copied.numpy().tobytes()
    assert stored.digest == StoredTensor(copied, "c").digest


@pytest.mark.parametrize("before", [0, 1])
def test_the_bytes_of_a_cord_are_those_that_it_writes(before: int, tmp_path: Path) -> None:
    """Pieces of every kind, also at addresses that no element of a tensor can have."""
    weight = torch.arange(600, dtype=torch.int32).reshape(20, 30)
    (tmp_path / "data").write_bytes(b"of a file")
    cord = Cord(b"x" * before)
    pieces = (
        StoredTensor(weight, "w"),
        StoredTensor(weight.t(), "t", [0, 1]),
        StoredTensor(weight.t().to(torch.bfloat16), "h", [0, 1]),
        StoredTensor(weight[:0].t(), "e", [0, 1]),
        FileBackedData(tmp_path / "data"),
        bytearray(b"ab"),
        memoryview(b"cd"),
        b"",
    )
    for piece in pieces:
        cord.append(piece)
    out = io.BytesIO()
    cord.write_to_file(out)
    assert bytes(cord) == out.getvalue()
    expected = weight.numpy().tobytes() + weight.t().contiguous().numpy().tobytes()
    assert bytes(cord)[before : before + 4800] == expected


def test_a_file_that_became_shorter_is_no_part_of_a_cord(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"of a file")
    cord = Cord(FileBackedData(path))
    path.write_bytes(b"of")
    with pytest.raises(OSError, match="expected 9 bytes, got 2"):
        bytes(cord)


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "the first byte": lambda t: t[:1].add_(1),
    "the last byte": lambda t: t[-1:].add_(1),
    "two words change places": lambda t: t[8:24].copy_(torch.cat([t[16:24], t[8:16]])),
    "two rows of the checksum change places": lambda t: t[: 1 << 16].copy_(
        t[: 1 << 16].reshape(2, 1 << 15).flip(0).flatten()
    ),
    "all are moved by one word": lambda t: t.copy_(t.roll(8)),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_large_tensor_notices(change: str) -> None:
    draws = torch.Generator().manual_seed(0)
    weight = torch.randint(0, 255, (300_003,), dtype=torch.uint8, generator=draws)
    stored = StoredTensor(weight, "w")
    CHANGES[change](weight)
    with pytest.raises(RuntimeError, match="'w' was changed"):
        stored.view()


@pytest.mark.parametrize("alignment", [None, 0, 1])
def test_entries_without_an_alignment_start_where_segments_do(alignment: int | None) -> None:
    payload = DataPayload(
        [b"first", b"second"],
        {"a": DataEntry(0, 24, None), "b": DataEntry(1, alignment, None)},
    )
    file = FlatTensorSerializer(FlatTensorConfig(segment_alignment=16)).serialize(payload)
    assert bytes(file) == bytes(serialize_data_file(payload, 16))
    found = FlatTensorSerializer().deserialize(file)
    assert list(found.buffers) == payload.buffers
    assert bytes(file).index(b"second") - bytes(file).index(b"first") == 16
    named = NamedDataStoreOutput([b"second"], {"b": DataEntry(0, alignment, None)}, {})
    program = Program(0, [], [], [], [], SubsegmentOffsets(0, []))
    read = deserialize_pte_binary(bytes(serialize_pte_binary(PTEFile(program, None, named))))
    assert read.named_data is not None and read.named_data.buffers == [b"second"]
