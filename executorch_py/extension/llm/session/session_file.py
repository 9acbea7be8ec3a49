"""Session files: the tokens and caches of a session.

    magic, 8 bytes | length of the header, u64 | header, JSON | logits, f32 | for each buffer the
    numbers of its blocks, u32, and these blocks | SHA-256 of all before

Little-endian. A buffer is cut into blocks of 4,096 bytes, and blocks of zeros are left out, so that
a file has the size of the filled part of the caches. Nothing is used before the hash is compared.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from executorch_py.atomic_file import replacing
from executorch_py.errors import InvalidArgument, InvalidExternalData
from executorch_py.terminal_text import name_text

_MAGIC = b"ETPYSES2"
_BLOCK = 4096
_HASH_BYTES = 32
_CODE = "[InvalidExternalData, error: 0x24]"


@dataclass
class SavedState:
    """Contents of a session file. `buffers` has the bytes of each buffer."""

    program: str  # SHA-256
    tokens: list[int]
    n_read: int
    oldest: list[int]
    logits: np.ndarray | None
    buffers: dict[str, np.ndarray] = field(default_factory=dict)


def write(path: str | PathLike[str], state: SavedState) -> None:
    """An old file is replaced in one step."""
    places = {name: _filled_blocks(values) for name, values in state.buffers.items()}
    header = {
        "program": state.program,
        "tokens": state.tokens,
        "read": state.n_read,
        "oldest": state.oldest,
        "logits": 0 if state.logits is None else len(state.logits),
        "buffers": [[name, len(values), len(places[name])] for name, values in _sorted(state)],
    }
    digest = hashlib.sha256()
    with replacing(path) as file:
        for part in _parts(json.dumps(header).encode(), state, places):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def _sorted(state: SavedState) -> list[tuple[str, np.ndarray]]:
    return sorted(state.buffers.items())


def _parts(header: bytes, state: SavedState, places: dict[str, np.ndarray]) -> Iterator[Any]:
    yield _MAGIC + struct.pack("<Q", len(header)) + header
    if state.logits is not None:
        yield state.logits.astype("<f4").data
    for name, values in _sorted(state):
        yield places[name].data
        yield _blocks(values)[places[name]].data


def _blocks(values: np.ndarray) -> np.ndarray:
    """Bytes as [blocks, 4096]; a last block that is not whole is filled with zeros."""
    rest = -len(values) % _BLOCK
    whole = np.concatenate([values, np.zeros(rest, np.uint8)]) if rest else values
    return whole.reshape(-1, _BLOCK)


def _filled_blocks(values: np.ndarray) -> np.ndarray:
    return np.flatnonzero(_blocks(values).any(axis=1)).astype("<u4")


def read(path: str | PathLike[str], program: str, n_bytes: int) -> SavedState:
    """The state of a session of this program (SHA-256), whose buffers have `n_bytes` in all.

    InvalidExternalData if the file is damaged or no session file, InvalidArgument if it is one of
    another program. Nothing larger than the session's own buffers is allocated.
    """
    content = np.fromfile(path, np.uint8)
    try:
        return _read(content, program, n_bytes)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        if isinstance(error, InvalidArgument | InvalidExternalData):
            raise
        raise damaged(f"unreadable contents ({error})") from None


def damaged(got: str) -> InvalidExternalData:
    return InvalidExternalData(f"expected a whole session file, got {got} {_CODE}")


def _read(content: np.ndarray, program: str, n_bytes: int) -> SavedState:
    start = len(_MAGIC) + 8
    if content[: len(_MAGIC)].tobytes() != _MAGIC:
        raise damaged("a file of another kind")
    if len(content) < start + _HASH_BYTES:
        raise damaged(f"{len(content)} bytes")
    body = content[:-_HASH_BYTES]
    if hashlib.sha256(body.data).digest() != content[-_HASH_BYTES:].tobytes():
        raise damaged("bytes that do not have the hash at its end: it was cut or changed")
    (length,) = struct.unpack("<Q", body[len(_MAGIC) : start].tobytes())
    header = json.loads(body[start : start + length].tobytes())
    if header["program"] != program:
        raise InvalidArgument(
            f"restore: expected a session of this program (SHA-256 {program[:16]}…), got one of "
            f"{name_text(str(header['program'])[:16])}… [InvalidArgument, error: 0x12]"
        )
    if sum(abs(int(n)) for _, n, _ in header["buffers"]) > n_bytes:
        raise damaged("buffers that no session of this program has")
    rest = _Reader(body[start + length :])
    logits = rest.take("<f4", header["logits"]).astype(np.float32) if header["logits"] else None
    state = SavedState(
        program=program,
        tokens=[int(t) for t in header["tokens"]],
        n_read=int(header["read"]),
        oldest=[int(n) for n in header["oldest"]],
        logits=logits,
    )
    for name, size, n_blocks in header["buffers"]:
        blocks = np.zeros((-(-size // _BLOCK), _BLOCK), np.uint8)
        places = rest.take("<u4", n_blocks)
        blocks[places] = rest.take("u1", n_blocks * _BLOCK).reshape(-1, _BLOCK)
        state.buffers[name] = blocks.reshape(-1)[:size]
    return state


class _Reader:
    """Arrays from consecutive bytes."""

    def __init__(self, content: np.ndarray) -> None:
        self._content, self._at = content, 0

    def take(self, dtype: str, n: int) -> np.ndarray:
        end = self._at + n * np.dtype(dtype).itemsize
        if n < 0 or end > len(self._content):
            raise damaged(f"{len(self._content)} bytes of values, of which {end} are named")
        values = np.frombuffer(self._content[self._at : end].tobytes(), dtype)
        self._at = end
        return values
