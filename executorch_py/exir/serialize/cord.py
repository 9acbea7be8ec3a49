"""Bytes in pieces: a `Cord` is what a file will contain, held as references instead of one copy.

`StoredTensor` makes the storage of a weight such a piece. It is not copied, so it keeps a checksum,
and refuses to be written after the weight was changed. Knows nothing of file formats.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import torch

from executorch_py.exir.serialize.file_backed import FileBackedData

Piece = Any  # bytes, bytearray, memoryview, StoredTensor or FileBackedData
CordBuffer = bytes | FileBackedData


# Tensors whose first bytes agree are compared as a whole; most weights differ here already.
_SAMPLE_BYTES = 64
# A row of the matrix that a checksum sums, in 64-bit words, and rows that are summed both ways
# while they are in the L2 cache.
_ROW_WORDS = 1024
_BLOCK_ROWS = 128


class StoredTensor:
    """The bytes of a tensor without gaps, by reference, in the order of memory or `dim_order`.

    Bytes whose `dim_order` is not the order of memory (a transposed weight) are rearranged at each
    use, and never kept. Equal and hashed by content.
    """

    def __init__(
        self, tensor: torch.Tensor, name: str, dim_order: Sequence[int] | None = None
    ) -> None:
        self.name = name
        self._arranged = tensor if dim_order is None else tensor.permute(list(dim_order))
        self._moves = dim_order is not None and not self._arranged.is_contiguous()
        self._memory = _bytes_of(tensor)
        self._checksum = _checksum(self._memory)
        self._sample = (len(self._memory), self._first_bytes())

    def __len__(self) -> int:
        return len(self._memory)

    def view(self) -> memoryview:
        """The bytes; RuntimeError if they are no longer those that were exported."""
        self._check()
        return self._in_order()

    def copy_to(self, memory: memoryview) -> None:
        """Copy the bytes to writable memory of their size; RuntimeError as for `view`."""
        self._check()
        if self._moves:
            to = torch.frombuffer(memory, dtype=torch.uint8)
            if to.data_ptr() % self._arranged.element_size() == 0:
                to.view(self._arranged.dtype).view(self._arranged.shape).copy_(self._arranged)
                return
        memory[:] = self._in_order()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes, as text. They are not checked: that is done when they are used."""
        return hashlib.sha256(self._in_order()).hexdigest()

    def _check(self) -> None:
        if _checksum(self._memory) != self._checksum:
            raise RuntimeError(
                f"the tensor '{self.name}' was changed after to_executorch() and before the "
                "program was written; write it first, or call to_executorch() again"
            )

    def _in_order(self) -> memoryview:
        # Rearranged as a whole: torch copies a transposed matrix in blocks, but not parts of one.
        return _bytes_of(self._arranged.contiguous()) if self._moves else self._memory

    def _first_bytes(self) -> bytes:
        if not self._moves:
            return bytes(self._memory[:_SAMPLE_BYTES])
        row = self._arranged[0].numel() * self._arranged.element_size()
        rows = self._arranged[: -(-_SAMPLE_BYTES // row)]
        return bytes(_bytes_of(rows.contiguous())[:_SAMPLE_BYTES])

    def __bytes__(self) -> bytes:
        return self.view().tobytes()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StoredTensor):
            return self._sample == other._sample and self._same_bytes(other)
        return isinstance(other, (bytes, bytearray)) and bytes(self) == other

    def _same_bytes(self, other: StoredTensor) -> bool:
        if not len(self):
            return True
        if not self._moves and not other._moves and self._checksum != other._checksum:
            return False
        # Comparing memoryviews goes element by element; tensors compare at the speed of memory.
        mine, theirs = (torch.frombuffer(t.view(), dtype=torch.uint8) for t in (self, other))
        return bool(torch.equal(mine, theirs))

    def __hash__(self) -> int:
        return hash(self._sample)

    def __repr__(self) -> str:
        return f"StoredTensor({self.name!r}, {len(self)} bytes)"


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a dense tensor, whatever its dtype and dim order."""
    flat = torch.empty(0, dtype=torch.uint8)
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    start = tensor.storage_offset() * tensor.element_size()
    flat.set_(tensor.untyped_storage(), start, (size,), (1,))
    return memoryview(flat.numpy()).cast("B")


def _checksum(memory: memoryview) -> int:
    """CRC-32 of the row sums and column sums of the bytes as a matrix of 64-bit words.

    Sums modulo 2**64 are found at the speed of memory, several times as fast as the CRC of the
    bytes. A change within one row or one column always changes a sum.
    """
    rows = len(memory) // (8 * _ROW_WORDS)
    summed = rows * 8 * _ROW_WORDS
    checksum = zlib.crc32(memory[summed:])
    if rows:
        words = np.frombuffer(memory[:summed], dtype=np.uint64).reshape(rows, _ROW_WORDS)
        of_rows, of_columns = np.empty(rows, np.uint64), np.zeros(_ROW_WORDS, np.uint64)
        for first in range(0, rows, _BLOCK_ROWS):
            block = words[first : first + _BLOCK_ROWS]
            np.add.reduce(block, axis=1, out=of_rows[first : first + _BLOCK_ROWS])
            of_columns += np.add.reduce(block, axis=0)
        checksum = zlib.crc32(of_columns.data, zlib.crc32(of_rows.data, checksum))
    return checksum


_PIECES = (bytes, bytearray, memoryview, StoredTensor, FileBackedData)


class Cord:
    """A sequence of bytes stored as pieces."""

    def __init__(self, data: Piece | Cord | None = None) -> None:
        self._pieces: list[Piece] = []
        self._size = 0
        if data is not None:
            self.append(data)

    def __len__(self) -> int:
        return self._size

    def append(self, data: Piece | Cord) -> None:
        """Add bytes, or the pieces of another cord, at the end."""
        if isinstance(data, Cord):
            self._pieces += data._pieces
        elif isinstance(data, _PIECES):
            self._pieces.append(data)
        else:
            raise TypeError(f"Cord: expected bytes or a Cord, got {type(data).__name__}")
        self._size += len(data)

    def pad_to(self, alignment: int) -> None:
        """Zeros until the length is a multiple of `alignment`."""
        missing = -self._size % alignment
        if missing:
            self.append(bytes(missing))

    def __bytes__(self) -> bytes:
        # Not a join, which would hold every piece at once, those made on demand too.
        try:
            from executorch_py import _C
        except ImportError:  # no runtime is installed
            out = io.BytesIO()
            self.write_to_file(out)
            return out.getvalue()
        return _C.filled_bytes(self._size, self._copy_to)

    def _copy_to(self, memory: memoryview) -> None:
        at = 0
        for piece in self._pieces:
            part = memory[at : at + len(piece)]
            if isinstance(piece, FileBackedData):
                piece.read_into(part)
            elif isinstance(piece, StoredTensor):
                piece.copy_to(part)
            else:
                part[:] = piece
            at += len(piece)

    def write_to_file(self, outfile: BinaryIO) -> None:
        """Write all pieces in order, files a few megabytes at a time."""
        for piece in self._pieces:
            if isinstance(piece, FileBackedData):
                piece.write_to_file(outfile)
            else:
                outfile.write(piece.view() if isinstance(piece, StoredTensor) else piece)
