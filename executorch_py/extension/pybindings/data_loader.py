"""PyDataLoader: the source of a program's bytes, for portable_lib's data-loader function.

Upstream's class is an opaque handle that only C++ extensions can make. This one is a class over a
path or a buffer.
"""

from __future__ import annotations

from os import PathLike


class PyDataLoader:
    """A file (mapped when the program is opened) or bytes in memory."""

    def __init__(self, source: bytes | bytearray | memoryview | str | PathLike[str]) -> None:
        self.source = source

    def __repr__(self) -> str:
        kind = "a file" if isinstance(self.source, (str, PathLike)) else "memory"
        return f"<PyDataLoader over {kind}>"


__all__ = ["PyDataLoader"]
