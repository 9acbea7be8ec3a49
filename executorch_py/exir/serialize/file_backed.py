"""FileBackedData: a piece of a file to be, whose bytes stay on disk until they are written.

Names are upstream's. Knows neither Cord nor any format.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 23


class FileBackedData:
    """The bytes of a file by reference. With `cleanup` the file is removed with the object."""

    def __init__(
        self, path: str | os.PathLike[str], cleanup: bool = False, sha256: bytes | None = None
    ) -> None:
        self._path = Path(path)
        self._size = self._path.stat().st_size
        self._digest = sha256
        self._remove = weakref.finalize(self, _remove, self._path) if cleanup else None

    @classmethod
    def move_from(cls, path: str | os.PathLike[str], sha256: bytes | None = None) -> FileBackedData:
        """Take a file over: it gets a name of its own, and is removed with the object."""
        source = Path(path)
        handle, owned = tempfile.mkstemp(".data", ".executorch_", source.parent)
        os.close(handle)
        try:
            source.replace(owned)
        except OSError:
            _remove(Path(owned))
            raise
        return cls(owned, cleanup=True, sha256=sha256)

    def __len__(self) -> int:
        return self._size

    def prefix(self, size: int) -> bytes:
        """The first `size` bytes."""
        with self._path.open("rb") as file:
            return file.read(size)

    def sha256(self) -> bytes:
        """SHA-256 of the bytes, as 32 bytes."""
        if self._digest is None:
            digest = hashlib.sha256()
            with self._path.open("rb") as file:
                while part := file.read(_CHUNK):
                    digest.update(part)
            self._digest = digest.digest()
        return self._digest

    def to_bytes(self) -> bytes:
        """All bytes at once."""
        return self._path.read_bytes()

    __bytes__ = to_bytes

    def write_to_file(self, outfile: BinaryIO) -> None:
        """Copy the bytes to an open file, a few megabytes at a time."""
        with self._path.open("rb") as file:
            shutil.copyfileobj(file, outfile, _CHUNK)

    def read_into(self, memory: memoryview) -> None:
        """Read the bytes into writable memory of their size; OSError if the file is shorter now."""
        with self._path.open("rb") as file:
            done = file.readinto(memory)
        if done != self._size:
            raise OSError(f"{self._path}: expected {self._size} bytes, got {done}")

    def close(self) -> None:
        """Remove the file now if it belongs to the object."""
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> FileBackedData:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
