"""Files of GGUF, versions 2 and 3: typed keys and values, then tensors in blocks.

    "GGUF", version u32, tensors u64, pairs u64
    pair:    key, type u32, value; an array is its items' type u32, their number u64, the items
    tensor:  name, rank u32, sizes u64 with the fastest first, type u32, offset u64
    data, aligned to `general.alignment` (32)

A text is its length u64 and its bytes. Every count, length and offset is checked against the bytes
that are left before anything of that size is made, so that a damaged file is refused in time and
memory that its size bounds.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from executorch_py.extension.llm.checkpoint.gguf_blocks import BLOCKS, Block, values_of
from executorch_py.extension.llm.checkpoint.tensors import (
    Checkpoint,
    CheckpointError,
    holds_sizes,
    map_file,
)
from executorch_py.terminal_text import quoted

_NUMBERS = "BbHhIif?"  # struct's codes of the types 0 to 7
_TEXT, _ARRAY = 8, 9
_WIDE = {10: "Q", 11: "q", 12: "d"}
_MOST_RANK = 4
_ALIGNMENT = "general.alignment"


@dataclass(frozen=True)
class Packed:
    """A tensor as its file has it: blocks of a type, row after row."""

    block: Block
    shape: tuple[int, ...]  # the slowest first, as torch has it
    data: torch.Tensor  # u8


class Gguf(Checkpoint):
    """The tensors of a file as f32, f16, bf16 or integers, and its metadata by key."""

    def __init__(self, path: Path, metadata: dict[str, Any], packed: dict[str, Packed]) -> None:
        self.metadata, self.packed = metadata, packed
        readers = {name: partial(values_of, p.block, p.data, p.shape) for name, p in packed.items()}
        super().__init__(readers, str(path))


class _Reader:
    """A position in the bytes of a file, which never goes beyond their end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at = path, data, 0

    def left(self) -> int:
        return len(self.data) - self.at

    def need(self, n: int, what: str) -> None:
        if n > self.left():
            raise CheckpointError(
                f"{self.path}: {what}: expected {n} bytes at {self.at}, got {self.left()}"
            )

    def number(self, code: str, what: str) -> Any:
        size = struct.calcsize(f"<{code}")
        self.need(size, what)
        value = struct.unpack_from(f"<{code}", self.data, self.at)[0]
        self.at += size
        return value

    def count(self, least: int, what: str) -> int:
        """A number of items, of at least so many bytes each."""
        n: int = self.number("Q", what)
        if n * least > self.left():
            raise CheckpointError(
                f"{self.path}: {what}: expected at most {self.left() // least}, got {n}"
            )
        return n

    def text(self, what: str) -> str:
        n = self.count(1, f"length of {what}")
        value = self.data[self.at : self.at + n].decode("utf-8", "surrogateescape")
        self.at += n
        return value

    def value(self, kind: int, what: str) -> Any:
        if kind < len(_NUMBERS):
            return self.number(_NUMBERS[kind], what)
        if kind in _WIDE:
            return self.number(_WIDE[kind], what)
        if kind == _TEXT:
            return self.text(what)
        if kind == _ARRAY:
            return self._items(what)
        raise CheckpointError(f"{self.path}: {what}: expected a type from 0 to 12, got {kind}")

    def _items(self, what: str) -> list[Any]:
        kind: int = self.number("I", what)
        if kind == _ARRAY:
            raise CheckpointError(f"{self.path}: {what}: expected numbers or texts, got arrays")
        code = _NUMBERS[kind] if kind < len(_NUMBERS) else _WIDE.get(kind)
        if code is None:
            return [self.value(kind, what) for _ in range(self.count(8, what))]
        size = struct.calcsize(f"<{code}")
        n = self.count(size, what)
        items = list(struct.unpack_from(f"<{n}{code}", self.data, self.at))
        self.at += n * size
        return items


def open_gguf(path: Path) -> Gguf:
    """Metadata and tensors of a file; CheckpointError for a damaged one."""
    r = _Reader(path, map_file(path))
    r.need(4, "first bytes")
    if r.data[:4] != b"GGUF":
        raise CheckpointError(f"{path}: expected a file that begins with GGUF, got {r.data[:4]!r}")
    r.at = 4
    version = r.number("I", "version")
    if version not in (2, 3):
        raise CheckpointError(f"{path}: expected version 2 or 3, got {version}")
    n_tensors = r.count(24, "number of tensors")
    metadata: dict[str, Any] = {}
    for _ in range(r.count(13, "number of keys")):
        key = r.text("key")
        if key in metadata:
            raise CheckpointError(f"{path}: key {quoted(key)} is there twice")
        metadata[key] = r.value(r.number("I", quoted(key)), quoted(key))
    return Gguf(path, metadata, _tensors(r, n_tensors, metadata.get(_ALIGNMENT, 32)))


def _tensors(r: _Reader, n: int, alignment: Any) -> dict[str, Packed]:
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise CheckpointError(
            f"{r.path}: {_ALIGNMENT}: expected a power of two, got {quoted(str(alignment))}"
        )
    makers: dict[str, Callable[[int], Packed]] = {}
    for _ in range(n):
        name = r.text("name of a tensor")
        if name in makers:
            raise CheckpointError(f"{r.path}: tensor {quoted(name)} is there twice")
        makers[name] = _tensor(r, name)
    first = -(-r.at // alignment) * alignment
    return {name: make(first) for name, make in makers.items()}


def _tensor(r: _Reader, name: str) -> Callable[[int], Packed]:
    """Reads a tensor's entry; the result makes it, given the position of the data."""
    where = f"tensor {quoted(name)}"
    rank = r.number("I", where)
    if rank > _MOST_RANK:
        raise CheckpointError(f"{r.path}: {where}: expected rank {_MOST_RANK} or less, got {rank}")
    shape = tuple(reversed([int(r.number("Q", where)) for _ in range(rank)]))
    kind = r.number("I", where)
    offset = r.number("Q", where)
    block = BLOCKS.get(kind)
    if block is None:
        known = ", ".join(b.name for b in BLOCKS.values())
        raise CheckpointError(f"{r.path}: {where}: expected a type of {known}, got type {kind}")
    row = shape[-1] if shape else 1
    if row % block.terms != 0:
        raise CheckpointError(
            f"{r.path}: {where}: expected rows of a multiple of {block.terms} terms for "
            f"{block.name}, got {row}"
        )

    if not holds_sizes(shape):
        raise CheckpointError(f"{r.path}: {where}: expected less than 2**63 elements, got {shape}")

    def make(first: int) -> Packed:
        n_bytes = math.prod(shape) // block.terms * block.n_bytes
        if first + offset + n_bytes > len(r.data):
            raise CheckpointError(
                f"{r.path}: {where}: expected {n_bytes} bytes at {first + offset}, "
                f"got {max(0, len(r.data) - first - offset)}"
            )
        if n_bytes == 0:
            return Packed(block, shape, torch.empty(0, dtype=torch.uint8))
        data = torch.frombuffer(r.data, dtype=torch.uint8, count=n_bytes, offset=first + offset)
        return Packed(block, shape, data)

    return make
