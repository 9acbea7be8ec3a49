"""External data with every field damaged, one at a time, for a program that needs the data: first
all of them under sanitizers, then the defects whose outcome is specified.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.damage import changed, damaged, damaged_headers
from fuzz.replayer import GOLDEN, beside, replay, replay_all

from executorch_py import errors
from executorch_py.exir.serialize.flatbuffer import Reader, Writer
from executorch_py.exir.serialize.header import FlatTensorHeader
from executorch_py.exir.serialize.ptd import IDENTIFIER, LAYOUTS, FlatTensor
from executorch_py.runtime import Runtime

(DATA,) = (path for path in GOLDEN if path.suffix == ".ptd")
PROGRAM = DATA.with_suffix(".pte")
MARGIN = bytes(64)  # after the segments, so that one may be moved


def read() -> tuple[FlatTensor, bytes]:
    data = DATA.read_bytes()
    header = FlatTensorHeader.from_file(data)
    size = header.flatbuffer_offset + header.flatbuffer_size
    root = Reader(LAYOUTS, data[:size]).root(FlatTensor, IDENTIFIER)
    return root, data[header.segment_base_offset :] + MARGIN


def write(root: FlatTensor, segments: bytes) -> bytes:
    writer = Writer(LAYOUTS, IDENTIFIER, FlatTensorHeader.ROOM)
    chunks = writer.finish(root)
    size = sum(len(chunk) for chunk in chunks)
    base = -(-size // 128) * 128
    room = FlatTensorHeader.ROOM
    header = FlatTensorHeader(room, size - room, base, len(segments)).to_bytes()
    writer.head[8 : 8 + len(header)] = header
    return b"".join(bytes(chunk) for chunk in chunks) + bytes(base - size) + segments


def test_every_field_damaged_is_an_error_or_runs(c_build: Path, tmp_path: Path) -> None:
    root, segments = read()
    files = []
    seen: dict[Any, int] = {}
    for other in damaged(LAYOUTS, root, seen):
        try:
            files.append(write(other, segments))
        except (ValueError, struct.error):  # the tables have no room for it
            continue
    found = replay_all(c_build / "fuzz_program", tmp_path, files, *beside(DATA))
    assert found["inputs"] > 80
    assert found["finished"] > 10
    assert set(seen) == {(cls, row.name) for cls, rows in LAYOUTS.items() for row in rows}


def test_every_figure_of_the_header_damaged_is_an_error_or_runs(
    c_build: Path, tmp_path: Path
) -> None:
    files = damaged_headers(DATA.read_bytes(), 4)
    found = replay_all(c_build / "fuzz_program", tmp_path, files, *beside(DATA))
    assert found["inputs"] > 1000
    assert 0 < found["finished"] < found["inputs"] // 3


def test_every_word_set_to_something_extreme_is_an_error_or_runs(c_build: Path) -> None:
    found = replay(c_build / "fuzz_program", "--words", *beside(DATA), str(DATA))
    assert found["inputs"] > 3000


# ---- Specified outcomes


def outcome(data: bytes) -> str:
    """ "runs", or the name of the status with which loading or running ended."""
    x = np.ones((2, 3), np.float32)
    try:
        program = Runtime.get().load_program(PROGRAM.read_bytes(), data_path=[data])
        found = program.load_method("forward").execute([x])
    except errors.ExecutorchError as e:
        return str(e.name)
    wanted = Runtime.get().load_program(PROGRAM.read_bytes(), data_path=[DATA.read_bytes()])
    np.testing.assert_array_equal(found[0], wanted.load_method("forward").execute([x])[0])
    return "runs"


NAMED = "named_data.0."
LAYOUT = NAMED + "tensor_layout."
DAMAGED = "InvalidExternalData"
# The data are one tensor, "weight", f32 of shape [2, 3], in segment 0.
OUTCOMES: list[tuple[str, Any, str]] = [
    ("version", 1, DAMAGED),
    ("version", 2**32 - 1, DAMAGED),
    ("segments", None, DAMAGED),
    ("segments", [], DAMAGED),
    ("segments.0.offset", 2, DAMAGED),
    ("segments.0.offset", 1 << 20, DAMAGED),
    ("segments.0.offset", 2**64 - 8, DAMAGED),
    ("segments.0.size", 0, DAMAGED),
    ("segments.0.size", 20, DAMAGED),
    ("segments.0.size", 32, "runs"),
    ("segments.0.size", 1 << 20, DAMAGED),
    ("segments.0.size", 2**64 - 1, DAMAGED),
    ("named_data", None, DAMAGED),
    ("named_data", [], "NotFound"),
    (NAMED + "key", None, DAMAGED),
    (NAMED + "key", "", "NotFound"),
    (NAMED + "key", "weigh", "NotFound"),
    (NAMED + "key", "weights", "NotFound"),
    (NAMED + "segment_index", 1, DAMAGED),
    (NAMED + "segment_index", 2**32 - 1, DAMAGED),
    (NAMED + "tensor_layout", None, DAMAGED),
    (LAYOUT + "scalar_type", 7, DAMAGED),
    (LAYOUT + "scalar_type", -1, DAMAGED),
    (LAYOUT + "sizes", None, DAMAGED),
    (LAYOUT + "sizes", [6], DAMAGED),
    (LAYOUT + "sizes", [3, 2], DAMAGED),
    (LAYOUT + "sizes", [-2, -3], DAMAGED),
    (LAYOUT + "sizes", [2, 3, 1], DAMAGED),
    (LAYOUT + "dim_order", None, DAMAGED),
    (LAYOUT + "dim_order", [0], DAMAGED),
    (LAYOUT + "dim_order", [1, 0], DAMAGED),
    (LAYOUT + "dim_order", [0, 255], DAMAGED),
]


@pytest.mark.parametrize(
    ("path", "value", "wanted"), OUTCOMES, ids=[f"{p}={str(v)[:24]}" for p, v, _ in OUTCOMES]
)
def test_a_damaged_field_has_its_status(path: str, value: Any, wanted: str) -> None:
    root, segments = read()
    assert outcome(write(changed(root, path, value), segments)) == wanted


def test_undamaged_data_run_after_they_were_written_again() -> None:
    root, segments = read()
    assert outcome(write(root, segments)) == "runs"
    twice = changed(root, "named_data", root.named_data * 2)
    assert outcome(write(twice, segments)) == "runs"
