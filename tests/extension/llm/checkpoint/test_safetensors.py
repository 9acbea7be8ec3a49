"""Tensors of safetensors files and of folders with an index, and damaged ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.damaged import damaged_copies

from executorch_py.extension.llm.checkpoint import CheckpointError, open_folder
from executorch_py.extension.llm.checkpoint.safetensors import open_safetensors

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def test_tensors_of_every_dtype_are_those_that_were_saved(tmp_path: Path) -> None:
    saved = {str(d): torch.arange(6).reshape(2, 3).to(d) for d in DTYPES}
    saved["empty"], saved["one"] = torch.empty(0, 4), torch.tensor(7.0)
    save_file(saved, tmp_path / "t.safetensors")
    file = open_safetensors(tmp_path / "t.safetensors")
    assert set(file) == set(saved)
    for name, tensor in saved.items():
        assert file[name].dtype == tensor.dtype
        assert torch.equal(file[name], tensor)


def test_changing_a_tensor_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    save_file({"w": torch.ones(4)}, path)
    open_safetensors(path)["w"].zero_()
    assert open_safetensors(path)["w"].tolist() == [1, 1, 1, 1]


def test_a_folder_with_an_index_has_the_tensors_of_all_its_files(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "1.safetensors")
    save_file({"b": torch.zeros(3)}, tmp_path / "2.safetensors")
    index = {"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    checkpoint = open_folder(tmp_path)
    assert sorted(checkpoint) == ["a", "b"]
    assert checkpoint["b"].tolist() == [0, 0, 0]


BAD_INDEX = {
    "no JSON": ("{", "expected a weight_map"),
    "no weight_map": ("{}", "expected a weight_map"),
    "a list": ("[]", "expected a weight_map"),
    "a file elsewhere": ('{"weight_map": {"a": "../secret"}}', "names of files beside it"),
    "a missing file": ('{"weight_map": {"a": "b.safetensors"}}', "names of files beside it"),
    "a tensor of no file": ('{"weight_map": {"c": "1.safetensors"}}', "'c' is not in"),
}


@pytest.mark.parametrize(("text", "words"), BAD_INDEX.values(), ids=BAD_INDEX)
def test_a_bad_index_is_refused_with_words(tmp_path: Path, text: str, words: str) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "1.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(CheckpointError, match=words):
        open_folder(tmp_path)


def test_a_folder_without_a_checkpoint_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"expected model\.safetensors .*got 'config\.json'"):
        open_folder(tmp_path)


def file_of(header: Any, data: bytes = bytes(16)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: Any = "F32", shape: Any = (4,), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


DAMAGED = {
    "empty": (b"", "got an empty file"),
    "a header longer than the file": (struct.pack("<Q", 1 << 40), "header of at most 0 bytes"),
    "no JSON": (file_of(b"{]"), "expected a JSON header"),
    "not UTF-8": (file_of(b"\xff\xfe"), "expected a JSON header"),
    "deep JSON": (file_of(b"[" * 100_000), "expected a JSON header"),
    "a list": (file_of([]), "expected a JSON object"),
    "a name twice": (file_of(b'{"w": 1, "w": 2}'), "'w' is in the header twice"),
    "an entry that is a number": (file_of({"w": 1}), "'w': expected dtype, shape"),
    "an unknown dtype": (file_of(entry("F4")), "'w': expected dtype, shape"),
    "a negative size": (file_of(entry(shape=[-4])), "'w': expected dtype, shape"),
    "a size that is no integer": (file_of(entry(shape=[4.0])), "'w': expected dtype, shape"),
    "one offset": (file_of(entry(offsets=[0])), "two data_offsets"),
    "offsets beyond the end": (file_of(entry(offsets=[8, 24])), "within the 16 bytes .*8 to 24"),
    "offsets in the wrong order": (file_of(entry(offsets=[16, 0])), "within the 16 bytes"),
    "too few bytes": (file_of(entry(offsets=[0, 12])), r"expected 16 bytes .*\[4\], got 12"),
    "sizes of 2**80 bytes": (
        file_of(entry(shape=[1 << 40, 1 << 38])),
        r"expected less than 2\*\*63 elements",
    ),
    "a size of 2**70 beside a size of 0": (
        file_of(entry(shape=[0, 1 << 70], offsets=[0, 0])),
        r"expected less than 2\*\*63 elements",
    ),
    "a size of 5,000 digits": (
        file_of(b'{"w": {"dtype": "F32", "shape": [' + b"9" * 5000 + b"]}}"),
        "expected a JSON header, got",
    ),
    "a control character in a name": (
        file_of({"\x1b[31m": {"dtype": "F32", "shape": [4], "data_offsets": [0, 99]}}),
        r"'\\x1b\[31m'",
    ),
}


@pytest.mark.parametrize(("data", "words"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_with_words(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=words):
        open_safetensors(path)


def test_every_truncated_or_changed_file_is_read_or_refused(tmp_path: Path) -> None:
    save_file({"w": torch.ones(4), "b": torch.zeros(2, 2).half()}, tmp_path / "t.safetensors")
    path = tmp_path / "changed.safetensors"
    for data in damaged_copies((tmp_path / "t.safetensors").read_bytes(), 600):
        path.write_bytes(data)
        try:
            file = open_safetensors(path)
        except CheckpointError:
            continue
        for name in file:
            assert file[name].numel() <= len(data)
