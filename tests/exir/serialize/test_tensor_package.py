"""Packages of a graph and tensors: damage is a ValueError, and reading takes linear time."""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from executorch_py.exir.serialize.tensor_package import (
    ALIASES_ENTRY,
    PTG_ENTRY,
    SAFETENSORS_ENTRY,
    read_ptn,
    write_ptn,
)

GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def safetensors(header: Any, data: bytes = bytes(8)) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, r"expected a member program\.ptg, got \[\]"),
        ({SAFETENSORS_ENTRY: b"\1"}, "expected a header of 1 bytes, got 0"),
        ({SAFETENSORS_ENTRY: (99).to_bytes(8, "little")}, "expected a header of 99 bytes, got 0"),
        ({SAFETENSORS_ENTRY: safetensors([])}, "expected an object as header, got a list"),
        ({SAFETENSORS_ENTRY: safetensors({"w": 3})}, "tensor 'w': expected an object, got a int"),
        ({SAFETENSORS_ENTRY: safetensors({"w": {}})}, "'w': dtype: expected one of .*, got None"),
        (
            {SAFETENSORS_ENTRY: safetensors({"w": {**GOOD, "dtype": []}})},
            r"'w': dtype: expected one of .*, got \[\]",
        ),
        (
            {SAFETENSORS_ENTRY: safetensors({"w": {**GOOD, "shape": [-2]}})},
            r"'w': shape: expected a list of sizes, got \[-2\]",
        ),
        (
            {SAFETENSORS_ENTRY: safetensors({"w": {**GOOD, "shape": [2**62, 2**62]}})},
            "'w': expected 8507059173023461586\\d* bytes",
        ),
        (
            {SAFETENSORS_ENTRY: safetensors({"w": {**GOOD, "data_offsets": [-8, 0]}})},
            r"'w': data_offsets: expected two offsets, got \[-8, 0\]",
        ),
        (
            {SAFETENSORS_ENTRY: safetensors({"w": {**GOOD, "data_offsets": [4, 12]}})},
            "'w': expected 8 bytes within the 8 of data, got bytes 4 to 12",
        ),
        ({ALIASES_ENTRY: b"[1]"}, "expected an object of strings"),
        ({ALIASES_ENTRY: b"{"}, "Expecting"),
    ],
)
def test_a_damaged_package_is_a_value_error(
    tmp_path: Path, members: dict[str, bytes], message: str
) -> None:
    path = tmp_path / "m.ptn"
    with zipfile.ZipFile(path, "w") as package:
        for name, content in {**({PTG_ENTRY: b""} if members else {}), **members}.items():
            package.writestr(name, content)
    with pytest.raises(ValueError, match=message):
        read_ptn(path)


def test_a_cut_package_is_a_value_error(tmp_path: Path) -> None:
    path = tmp_path / "m.ptn"
    write_ptn(path, b"graph", {"w": torch.ones(100)})
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="expected a zip file that is whole"):
            read_ptn(path)
    path.write_bytes(whole.replace(torch.ones(3).numpy().tobytes(), bytes(12), 1))
    with pytest.raises(ValueError, match=r"expected a zip file that is whole.*CRC"):
        read_ptn(path)


def test_the_time_to_read_does_not_grow_with_the_square_of_the_tensors(tmp_path: Path) -> None:
    path = tmp_path / "m.ptn"
    tensors = {str(i): torch.full((1000,), float(i)) for i in range(4000)}
    begin = time.perf_counter()
    write_ptn(path, b"", tensors)
    written = time.perf_counter()
    _, found = read_ptn(path)
    read = time.perf_counter()
    assert torch.equal(found["3999"], tensors["3999"])
    assert read - written < 10 * (written - begin)
