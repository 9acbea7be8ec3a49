"""Files of safetensors: a length of 8 bytes, a JSON header of that length, then the data.

The header maps names to {"dtype", "shape", "data_offsets"}, whose offsets count from the header's
end. Every number of the header is checked against the file before a tensor is made.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint.tensors import (
    Checkpoint,
    CheckpointError,
    holds_sizes,
    map_file,
)
from executorch_py.terminal_text import quoted

_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000  # the limit of the format
_METADATA = "__metadata__"


def open_safetensors(path: Path) -> Checkpoint:
    """The tensors of one file; CheckpointError for a damaged one."""
    data = map_file(path)
    first = _LENGTH_BYTES + _header_bytes(path, data)
    readers: dict[str, Callable[[], torch.Tensor]] = {}
    for name, entry in _header(path, data[_LENGTH_BYTES:first]).items():
        if name != _METADATA:
            readers[name] = _reader(path, data, first, name, entry)
    return Checkpoint(readers, str(path))


def _header_bytes(path: Path, data: mmap.mmap) -> int:
    n = int.from_bytes(data[:_LENGTH_BYTES], "little")
    rest = len(data) - _LENGTH_BYTES
    if n > min(rest, _MOST_HEADER_BYTES):
        raise CheckpointError(
            f"{path}: expected a safetensors header of at most "
            f"{max(0, min(rest, _MOST_HEADER_BYTES))} bytes, got a length of {n}"
        )
    return n


def _header(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise CheckpointError(f"{path}: {quoted(twice)} is in the header twice")
        return found

    try:
        header = json.loads(text, object_pairs_hook=unique)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected a JSON header, got {error}") from None
    if not isinstance(header, dict):
        raise CheckpointError(
            f"{path}: expected a JSON object as header, got a {type(header).__name__}"
        )
    return header


def _reader(
    path: Path, data: mmap.mmap, first: int, name: str, entry: Any
) -> Callable[[], torch.Tensor]:
    where = f"{path}: tensor {quoted(name)}"
    known = isinstance(entry, dict)
    dtype = _DTYPES.get(str(entry.get("dtype"))) if known else None
    shape = _naturals(entry.get("shape")) if known else None
    offsets = _naturals(entry.get("data_offsets")) if known else None
    if dtype is None or shape is None or offsets is None or len(offsets) != 2:
        raise CheckpointError(
            f"{where}: expected dtype, shape and two data_offsets, got {quoted(str(entry))}"
        )
    if not holds_sizes(shape):
        raise CheckpointError(
            f"{where}: expected less than 2**63 elements, got {quoted(str(shape))}"
        )
    begin, end = offsets
    n_bytes = math.prod(shape) * dtype.itemsize
    room = len(data) - first
    if not begin <= end <= room:
        raise CheckpointError(
            f"{where}: expected data within the {room} bytes after the header, got {begin} to {end}"
        )
    if end - begin != n_bytes:
        raise CheckpointError(
            f"{where}: expected {n_bytes} bytes for {dtype} of shape {shape}, got {end - begin}"
        )
    return partial(tensor_at, data, first + begin, dtype, shape)


def _naturals(values: Any) -> list[int] | None:
    """A list of integers of 0 or more; None for anything else."""
    fits = isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)
    return values if fits else None


def tensor_at(data: mmap.mmap, at: int, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    """A tensor over mapped bytes, or a copy of them where the address is not a multiple of the
    element's size."""
    n = math.prod(shape)
    if n == 0:
        return torch.empty(shape, dtype=dtype)
    if at % dtype.itemsize != 0:
        copied = bytearray(data[at : at + n * dtype.itemsize])
        return torch.frombuffer(copied, dtype=dtype).reshape(shape)
    return torch.frombuffer(data, dtype=dtype, count=n, offset=at).reshape(shape)
