"""Layout of a program file: its segments, the constants, payloads and named blobs in them.

The reader covers the tables that locate bytes; numbers are the format's flatbuffer slot ids. It is
for files that the runtime has opened with full verification: offsets are not checked again. A
method's plan is verified when the method is loaded, so it may be damaged here.
"""

from __future__ import annotations

import struct
from typing import Any

PROGRAM_PLANS, PROGRAM_INLINE, PROGRAM_SEGMENTS = 1, 3, 4
PROGRAM_CONSTANTS, PROGRAM_MUTABLE, PROGRAM_NAMED = 5, 6, 7
PLAN_NAME, PLAN_VALUES, PLAN_DELEGATES = 0, 2, 7
DELEGATE_ID, DELEGATE_PROCESSED = 0, 1
KIND_TENSOR = 5
TENSOR_DTYPE, TENSOR_SIZES, TENSOR_INDEX, TENSOR_ALLOCATION, TENSOR_EXTRA = 0, 2, 5, 6, 9
_TO_BFLOAT16 = (1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2)  # by ScalarType number
ELEMENT_BYTES = (*_TO_BFLOAT16, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 4, 8)


class Table:
    """A flatbuffer table: fields by slot number, absent ones as None."""

    def __init__(self, data: bytes | memoryview, at: int) -> None:
        self.data = data
        self.at = at
        self.vtable = at - self._read("<i", at)
        self.slots = (self._read("<H", self.vtable) - 4) // 2

    def _read(self, form: str, at: int) -> Any:
        return struct.unpack_from(form, self.data, at)[0]

    def _field(self, slot: int) -> int | None:
        if slot >= self.slots:
            return None
        offset = self._read("<H", self.vtable + 4 + 2 * slot)
        return self.at + offset if offset else None

    def scalar(self, slot: int, form: str) -> int:
        at = self._field(slot)
        return 0 if at is None else int(self._read("<" + form, at))

    def _target(self, slot: int) -> int | None:
        at = self._field(slot)
        return None if at is None else at + int(self._read("<I", at))

    def table(self, slot: int) -> Table | None:
        at = self._target(slot)
        return None if at is None else Table(self.data, at)

    def text(self, slot: int) -> str:
        at = self._target(slot)
        if at is None:
            return ""
        n = self._read("<I", at)
        return bytes(self.data[at + 4 : at + 4 + n]).decode("utf-8", "backslashreplace")

    def scalars(self, slot: int, form: str) -> list[int]:
        at = self._target(slot)
        if at is None:
            return []
        return list(struct.unpack_from(f"<{self._read('<I', at)}{form}", self.data, at + 4))

    def tables(self, slot: int) -> list[Table]:
        at = self._target(slot)
        if at is None:
            return []
        items = range(at + 4, at + 4 + 4 * self._read("<I", at), 4)
        return [Table(self.data, item + self._read("<I", item)) for item in items]

    def length(self, slot: int) -> int:
        at = self._target(slot)
        return 0 if at is None else int(self._read("<I", at))


def describe(data: bytes | memoryview) -> dict[str, Any]:
    """Sizes in bytes of a file, its flatbuffer, and every segment with its contents."""
    root = Table(data, struct.unpack_from("<I", data, 0)[0])
    program_bytes, base = len(data), 0
    has_header = bytes(data[8:12]) == b"eh00"
    if has_header:
        program_bytes, base = struct.unpack_from("<QQ", data, 16)
    segments: list[dict[str, Any]] = [
        {"offset": base + s.scalar(0, "Q"), "nbytes": s.scalar(1, "Q"), "use": []}
        for s in root.tables(PROGRAM_SEGMENTS)
    ]
    constants = _constants(root)
    owners: list[tuple[int, str]] = []
    table = root.table(PROGRAM_CONSTANTS)
    if table is not None and table.length(1) > 1:
        owners.append((table.scalar(0, "I"), "constants"))
    for table in root.tables(PROGRAM_MUTABLE):
        owners.append((table.scalar(0, "I"), "initial state"))
    owners += _delegates(root)
    owners += [(t.scalar(1, "I"), f"named {t.text(0)}") for t in root.tables(PROGRAM_NAMED)]
    for index, use in owners:
        if index < len(segments) and use not in segments[index]["use"]:
            segments[index]["use"].append(use)
    inline = [t.length(0) for t in root.tables(PROGRAM_INLINE)]
    return {
        "file_bytes": len(data),
        "flatbuffer_bytes": program_bytes,
        "extended_header": has_header,
        "segment_base": base,
        "segments": segments,
        "inline_delegate_bytes": inline,
        "constants": constants,
    }


def _delegates(root: Table) -> list[tuple[int, str]]:
    owners = []
    for plan in root.tables(PROGRAM_PLANS):
        for delegate in plan.tables(PLAN_DELEGATES):
            location = delegate.table(DELEGATE_PROCESSED)
            if location is not None and location.scalar(0, "b") == 1:
                text = f"delegate {delegate.text(DELEGATE_ID)} of {plan.text(PLAN_NAME)}"
                owners.append((location.scalar(1, "I"), text))
    return owners


def _constants(root: Table) -> dict[str, int]:
    """Constant tensors of all methods: their number, distinct ones, and the bytes of those."""
    seen: dict[int, int] = {}
    external: set[str] = set()
    uses = 0
    for plan in root.tables(PROGRAM_PLANS):
        for value in plan.tables(PLAN_VALUES):
            if value.scalar(0, "B") != KIND_TENSOR:
                continue
            tensor = value.table(1)
            if tensor is None or tensor.table(TENSOR_ALLOCATION) is not None:
                continue
            extra = tensor.table(TENSOR_EXTRA)
            if extra is not None and extra.scalar(2, "b") == 1:
                external.add(extra.text(1))
                continue
            index = tensor.scalar(TENSOR_INDEX, "I")
            if index == 0:
                continue
            uses += 1
            dtype = tensor.scalar(TENSOR_DTYPE, "B")
            nbytes = ELEMENT_BYTES[dtype] if dtype < len(ELEMENT_BYTES) else 0
            for size in tensor.scalars(TENSOR_SIZES, "i"):
                nbytes *= max(size, 0)
            seen[index] = max(nbytes, seen.get(index, 0))
    return {
        "tensors": uses,
        "distinct": len(seen),
        "nbytes": sum(seen.values()),
        "external": len(external),
    }
