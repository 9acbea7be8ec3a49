"""Tensors and metadata of GGUF files, beside the package `gguf`, and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from support.damaged import damaged_copies

from executorch_py.extension.llm.checkpoint import CheckpointError
from executorch_py.extension.llm.checkpoint.gguf import open_gguf

QUANTIZED = {
    "Q4_0": Kind.Q4_0,
    "Q4_1": Kind.Q4_1,
    "Q8_0": Kind.Q8_0,
    "Q5_0": Kind.Q5_0,
    "Q5_1": Kind.Q5_1,
    "Q4_K": Kind.Q4_K,
    "Q5_K": Kind.Q5_K,
    "Q6_K": Kind.Q6_K,
}
HALVES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}  # where a block has f16 numbers


def random_blocks(kind: str, rows: int, generator: Any) -> np.ndarray:
    """Rows of 512 terms; of the types that `gguf` cannot make, random bytes."""
    if kind in HALVES:
        terms, n_bytes = gguf.GGML_QUANT_SIZES[QUANTIZED[kind]]
        blocks = generator.integers(0, 256, (rows * 512 // terms, n_bytes), dtype=np.uint8)
        for at in HALVES[kind]:
            d = generator.uniform(-0.1, 0.1, (len(blocks), 1)).astype(np.float16)
            blocks[:, at : at + 2] = d.view(np.uint8)
        return blocks.reshape(rows, -1)
    values = generator.standard_normal((rows, 512)).astype(np.float32)
    return gguf.quants.quantize(values, QUANTIZED[kind])


def write(path: Path, tensors: dict[str, tuple[np.ndarray, Any]]) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", ["a", "é", "\x1b[0m"])
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5])
    writer.add_bool("a.flag", True)
    writer.add_uint32("llama.block_count", 2)
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", QUANTIZED)
def test_values_of_blocks_have_the_bits_that_the_gguf_package_computes(
    tmp_path: Path, kind: str
) -> None:
    blocks = random_blocks(kind, 6, np.random.default_rng(1))
    file = open_gguf(write(tmp_path / "t.gguf", {"w": (blocks, QUANTIZED[kind])}))
    wanted = gguf.quants.dequantize(blocks, QUANTIZED[kind])
    assert file["w"].shape == (6, 512)
    assert np.array_equal(file["w"].numpy(), wanted)


def test_plain_tensors_keep_dtype_shape_and_values(tmp_path: Path) -> None:
    values = np.random.default_rng(2).standard_normal((2, 3, 5)).astype(np.float32)
    tensors = {"f32": (values, None), "f16": (values.astype(np.float16), None)}
    file = open_gguf(write(tmp_path / "t.gguf", tensors))
    assert torch.equal(file["f32"], torch.from_numpy(values))
    assert torch.equal(file["f16"], torch.from_numpy(values.astype(np.float16)))


def test_metadata_are_python_values_by_key(tmp_path: Path) -> None:
    metadata = open_gguf(write(tmp_path / "t.gguf", {})).metadata
    assert metadata["tokenizer.ggml.tokens"] == ["a", "é", "\x1b[0m"]
    assert metadata["tokenizer.ggml.scores"] == [0.5, 1.5]
    assert metadata["a.flag"] is True
    assert metadata["llama.block_count"] == 2


def pair(key: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value


def entry(sizes: list[int], kind: int, offset: int, name: bytes = b"w") -> bytes:
    head = struct.pack("<Q", len(name)) + name + struct.pack("<I", len(sizes))
    return head + struct.pack(f"<{len(sizes)}QIQ", *sizes, kind, offset)


def file_of(tensors: int, pairs: int, body: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + body


DAMAGED = {
    "no file at all": (b"PK\x03\x04 and more", "begins with GGUF"),
    "three bytes": (b"GGU", "expected 4 bytes"),
    "version 1": (file_of(0, 0, b"", 1), "version 2 or 3"),
    "more tensors than bytes": (file_of(1 << 60, 0, b""), "number of tensors: expected at most"),
    "more keys than bytes": (file_of(0, 1 << 62, b""), "number of keys: expected at most"),
    "a key of two gigabytes": (
        file_of(0, 1, struct.pack("<Q", 1 << 31) + bytes(16)),
        "length of key: expected at most",
    ),
    "an array of 2**61 numbers": (
        file_of(0, 1, pair(b"k", 9, struct.pack("<IQ", 4, 1 << 61))),
        "'k': expected at most",
    ),
    "arrays in arrays": (
        file_of(0, 1, pair(b"k", 9, struct.pack("<IQ", 9, 1))),
        "expected numbers or texts, got arrays",
    ),
    "a key twice": (file_of(0, 2, pair(b"k", 0, b"1") * 2), "key 'k' is there twice"),
    "a type of value that there is not": (file_of(0, 1, pair(b"k", 99, b"")), "got 99"),
    "a tensor twice": (file_of(2, 0, entry([4], 0, 0) * 2 + bytes(64)), "'w' is there twice"),
    "a type of tensor that there is not": (
        file_of(1, 0, entry([32], 99, 0) + bytes(64)),
        "expected a type of F32",
    ),
    "rank 9": (file_of(1, 0, entry([1] * 9, 0, 0) + bytes(64)), "rank 4 or less, got 9"),
    "sizes whose product overflows": (
        file_of(1, 0, entry([1 << 32, 1 << 32, 1 << 32], 0, 0) + bytes(64)),
        r"'w': expected less than 2\*\*63 elements",
    ),
    "a size of 2**63 beside a size of 0": (
        file_of(1, 0, entry([0, 1 << 63], 0, 0) + bytes(64)),
        r"'w': expected less than 2\*\*63 elements",
    ),
    "more elements than the file has": (
        file_of(1, 0, entry([1 << 40], 0, 0) + bytes(64)),
        "'w': expected 4398046511104 bytes at",
    ),
    "an offset beyond the end": (
        file_of(1, 0, entry([4], 0, 1 << 63) + bytes(64)),
        "'w': expected 16 bytes at",
    ),
    "rows that end inside a block": (
        file_of(1, 0, entry([33], 2, 0) + bytes(64)),
        "multiple of 32 terms for Q4_0, got 33",
    ),
    "an alignment of 3": (
        file_of(0, 1, pair(b"general.alignment", 4, struct.pack("<I", 3))),
        "expected a power of two, got '3'",
    ),
    "a control character in a name": (
        file_of(1, 0, entry([4], 7, 0, b"\x1b[31m") + bytes(64)),
        r"'\\x1b\[31m'",
    ),
}


@pytest.mark.parametrize(("data", "words"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_with_words(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=words):
        open_gguf(path)


def test_every_truncated_or_changed_file_is_read_or_refused(tmp_path: Path) -> None:
    blocks = random_blocks("Q4_K", 1, np.random.default_rng(3))
    whole = write(tmp_path / "t.gguf", {"w": (blocks, Kind.Q4_K)}).read_bytes()
    path = tmp_path / "changed.gguf"
    for data in damaged_copies(whole, 600):
        path.write_bytes(data)
        try:
            file = open_gguf(path)
        except CheckpointError:
            continue
        for name in file:
            assert file[name].numel() <= 2 * len(data)
