"""Bytes in pieces: a `Cord` is what a file will contain, held as references instead of one copy.

`StoredTensor` lets the storage of a weight be such a piece. It is not copied, so it remembers its
hash and refuses to be written once the weight has been changed behind the program's back. Knows
nothing of file formats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import torch

Piece = Any  # bytes, bytearray, memoryview or StoredTensor


class StoredTensor:
    """The bytes of a dense tensor in memory order, by reference, with the hash they had."""

    def __init__(self, tensor: torch.Tensor, name: str) -> None:
        self.name = name
        self._keep = tensor
        self._view = _bytes_of(tensor)
        self.digest = hashlib.sha256(self._view).hexdigest()

    def __len__(self) -> int:
        return len(self._view)

    def view(self) -> memoryview:
        """The bytes; RuntimeError if they are no longer those that were exported."""
        if hashlib.sha256(self._view).hexdigest() != self.digest:
            raise RuntimeError(
                f"the tensor '{self.name}' was changed after to_executorch() and before the "
                "program was written; write it first, or call to_executorch() again"
            )
        return self._view

    def __bytes__(self) -> bytes:
        return self.view().tobytes()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StoredTensor):
            return self.digest == other.digest
        return isinstance(other, (bytes, bytearray)) and bytes(self) == other

    def __hash__(self) -> int:
        return hash(self.digest)

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
        elif isinstance(data, (bytes, bytearray, memoryview, StoredTensor)):
            self._pieces.append(data)
        else:
            raise TypeError(f"a Cord takes bytes or Cords, not {type(data).__name__}")
        self._size += len(data)

    def pad_to(self, alignment: int) -> None:
        """Zeros until the length is a multiple of `alignment`."""
        missing = -self._size % alignment
        if missing:
            self.append(bytes(missing))

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        """The pieces in order, tensors checked."""
        for piece in self._pieces:
            yield piece.view() if isinstance(piece, StoredTensor) else piece

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces())

    def write_to_file(self, outfile: BinaryIO) -> None:
        """Write all pieces in order."""
        for piece in self.pieces():
            outfile.write(piece)
