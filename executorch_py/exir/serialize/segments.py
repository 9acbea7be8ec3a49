"""Segments: large byte ranges behind the flatbuffer, each aligned, addressed from a common base.

The layout of segments is here; pte.py and ptd.py choose the bytes of segments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from executorch_py.exir.schema import DataSegment
from executorch_py.exir.serialize.cord import Cord
from executorch_py.exir.serialize.header import align_up


class SegmentList:
    """Segments in file order. `data` holds their bytes with the padding between them."""

    def __init__(self, alignment: int) -> None:
        if alignment <= 0:
            raise ValueError(f"segment_alignment: expected 1 or more, got {alignment}")
        self._alignment = alignment
        self.table: list[DataSegment] = []
        self.data = Cord()

    def add(self, data: Any, alignment: int | None = 1) -> int:
        """Append a segment; returns its index. An alignment of None or 0 is none."""
        size = len(data)
        end = self.table[-1].offset + self.table[-1].size if self.table else 0
        offset = align_up(end, math.lcm(self._alignment, alignment or 1))
        if size:
            self.data.append(bytes(offset - len(self.data)))
            self.data.append(data)
        self.table.append(DataSegment(offset, size))
        return len(self.table) - 1


def cut_segments(table: Sequence[DataSegment], data: memoryview) -> list[memoryview]:
    """The bytes of each segment; ValueError when one leaves the file."""
    found = []
    for i, segment in enumerate(table):
        end = segment.offset + segment.size
        if end > len(data):
            raise ValueError(
                f"segment {i} ends at {end}, the file has {len(data)} bytes of segment data"
            )
        found.append(data[segment.offset : end])
    return found
