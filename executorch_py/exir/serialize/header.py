"""The fixed headers that .pte and .ptd files carry behind their 8-byte flatbuffer head.

Both headers are spliced in at file offset 8 and say where the segments are. Knows bytes and offsets
only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER_OFFSET = 8
SEGMENT_ALIGNMENT = 128


def align_up(value: int, alignment: int) -> int:
    """`value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment


@dataclass(frozen=True)
class ExtendedHeader:
    """Header of a .pte file with segments."""

    program_size: int
    segment_base_offset: int
    segment_data_size: int

    MAGIC = b"eh00"
    LENGTH = 32
    OLD_LENGTH = 24

    def to_bytes(self) -> bytes:
        """The header in bytes."""
        sizes = (self.program_size, self.segment_base_offset, self.segment_data_size)
        return struct.pack("<4sI3Q", self.MAGIC, self.LENGTH, *sizes)

    @classmethod
    def from_file(cls, data: bytes | memoryview) -> ExtendedHeader | None:
        """The header of a file, or None when it has none; ValueError when it is damaged."""
        if len(data) < HEADER_OFFSET + cls.LENGTH:
            return None
        fields = struct.unpack_from("<4sI3Q", data, HEADER_OFFSET)
        magic, length, program_size, base, size = fields
        if magic != cls.MAGIC:
            return None
        if length < cls.OLD_LENGTH:
            raise ValueError(f"extended header: expected {cls.OLD_LENGTH} bytes, got {length}")
        if program_size > len(data) or base > len(data):
            raise ValueError(
                f"extended header: expected a file with {program_size} program bytes and "
                f"segments at {base}, got {len(data)} bytes"
            )
        return cls(program_size, base, size if length >= cls.LENGTH else 0)


@dataclass(frozen=True)
class FlatTensorHeader:
    """Header of a .ptd file. `flatbuffer_offset` includes the room of this header."""

    flatbuffer_offset: int
    flatbuffer_size: int
    segment_base_offset: int
    segment_data_size: int

    MAGIC = EXPECTED_MAGIC = b"FH01"
    LENGTH = EXPECTED_LENGTH = 40
    ROOM = 48

    def to_bytes(self) -> bytes:
        """The header in bytes."""
        sizes = (
            self.flatbuffer_offset,
            self.flatbuffer_size,
            self.segment_base_offset,
            self.segment_data_size,
        )
        return struct.pack("<4sI4Q8x", self.MAGIC, self.LENGTH, *sizes)

    def is_valid(self) -> bool:
        """Whether the offsets are valid in a file."""
        return self.flatbuffer_size > 0 and (
            self.segment_data_size == 0 or self.segment_base_offset >= self.flatbuffer_offset
        )

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> FlatTensorHeader:
        """The header at the start of `data`; ValueError when it is none."""
        if len(data) < cls.LENGTH:
            raise ValueError(f"data file header: expected {cls.LENGTH} bytes, got {len(data)}")
        magic, length, *sizes = struct.unpack_from("<4sI4Q", data)
        if magic != cls.MAGIC or length < cls.LENGTH:
            raise ValueError(
                f"data file header: expected {cls.MAGIC!r} of {cls.LENGTH} bytes or more, "
                f"got {magic!r} of {length}"
            )
        return cls(*sizes)

    @classmethod
    def from_file(cls, data: bytes | memoryview) -> FlatTensorHeader:
        """The header of a file; ValueError when it is absent or damaged."""
        if len(data) < HEADER_OFFSET + cls.LENGTH:
            raise ValueError(f"data file: expected at least 48 bytes, got {len(data)}")
        header = cls.from_bytes(data[HEADER_OFFSET : HEADER_OFFSET + cls.LENGTH])
        if header.flatbuffer_offset + header.flatbuffer_size > len(data):
            raise ValueError(f"{header} does not fit the file of {len(data)} bytes")
        return header
