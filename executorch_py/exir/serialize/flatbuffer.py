"""A small flatbuffer writer and reader, driven by a description of the tables.

The writer goes forward only: a table, then its children behind it, so that nothing is moved or
copied once written, and large byte vectors enter the output by reference. The reader checks every
offset before it follows it. Both learn the format from `Field` rows (serialize/tables.py has
those of the program); neither knows what any field means.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

MAX_DEPTH = 64
MAX_TABLES = 1_000_000
MAX_BYTES = 2**31 - 1


class FlatbufferError(ValueError):
    """Bytes that are not a valid flatbuffer, or values that do not fit the tables."""


@dataclass(frozen=True)
class Scalar:
    """A number stored in the table; a value equal to 0 is left out, as the format allows."""

    code: str
    enum: type[IntEnum] | None = None

    @property
    def size(self) -> int:
        return struct.calcsize("<" + self.code)


@dataclass(frozen=True)
class Text:
    """A string."""


@dataclass(frozen=True)
class Blob:
    """A byte vector whose first byte is aligned in the file."""

    alignment: int = 1


@dataclass(frozen=True)
class Numbers:
    """A vector of numbers."""

    code: str

    @property
    def size(self) -> int:
        return struct.calcsize("<" + self.code)


@dataclass(frozen=True)
class Table:
    """One table."""

    cls: type


@dataclass(frozen=True)
class Tables:
    """A vector of tables."""

    cls: type


@dataclass(frozen=True)
class Union:
    """A union of several tables; takes two slots. Type code 1 is the first class."""

    classes: tuple[type, ...]


Kind = Scalar | Text | Blob | Numbers | Table | Tables | Union


@dataclass(frozen=True)
class Field:
    """One field: its name in the dataclass, its kind, and the value of an absent one."""

    name: str
    kind: Kind
    absent: Any = None


Layouts = Mapping[type, tuple[Field, ...]]

U8, U32, U64 = Scalar("B"), Scalar("I"), Scalar("Q")
I32, I64, F64, BOOL = Scalar("i"), Scalar("q"), Scalar("d"), Scalar("?")


def _slot_rows(fields: tuple[Field, ...]) -> list[tuple[int, Field]]:
    """(slot, field) pairs; the slot of a union is that of its type code."""
    rows, slot = [], 0
    for field in fields:
        rows.append((slot, field))
        slot += 2 if isinstance(field.kind, Union) else 1
    return rows


@dataclass(frozen=True)
class _Shape:
    """The layout of a table for one set of present fields, shared by all tables with this set."""

    vtable: bytes
    packer: struct.Struct
    order: tuple[int, ...]
    offsets: tuple[int, ...]
    wide: bool


def _shape_of(rows: Sequence[tuple[int, str]], n_slots: int) -> _Shape:
    """Lay out (slot, code) entries by decreasing size behind the 4-byte vtable offset."""
    sized = [(struct.calcsize("<" + code), i) for i, (_, code) in enumerate(rows)]
    order = [i for _, i in sorted(sized, key=lambda item: -item[0])]
    offsets, position, text = [0] * len(rows), 4, "<i"
    for i in order:
        offsets[i] = position
        position += struct.calcsize("<" + rows[i][1])
        text += rows[i][1]
    slots = [0] * n_slots
    for i, (slot, _) in enumerate(rows):
        slots[slot] = offsets[i]
    while slots and slots[-1] == 0:
        slots.pop()
    vtable = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), position, *slots)
    wide = any(struct.calcsize("<" + code) == 8 for _, code in rows)
    return _Shape(vtable, struct.Struct(text), tuple(order), tuple(offsets), wide)


class Writer:
    """Writes one object and everything below it; `finish` gives the chunks of the file in order."""

    def __init__(self, layouts: Layouts, identifier: bytes, header_room: int = 0) -> None:
        self._rows = {cls: _slot_rows(fields) for cls, fields in layouts.items()}
        self._n_slots = {
            cls: sum(2 if isinstance(f.kind, Union) else 1 for f in fields)
            for cls, fields in layouts.items()
        }
        self._shapes: dict[tuple[type, tuple[int, ...]], _Shape] = {}
        self._vtables: dict[bytes, int] = {}
        self._chunks: list[Any] = []
        self._tail = bytearray(4) + identifier + bytes(header_room)
        self._start = 0
        self.head = self._tail

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return self._start + len(self._tail)

    def finish(self, root: Any) -> list[Any]:
        """Write the root object; returns the chunks (bytearrays and the blobs given)."""
        offset = self._table(root)
        struct.pack_into("<I", self.head, 0, offset)
        if self.position > MAX_BYTES:
            raise FlatbufferError(
                f"the program without its segments: expected at most {MAX_BYTES} bytes, got "
                f"{self.position}; make segments of payloads (extract_delegate_segments=True)"
            )
        return [*self._chunks, self._tail]

    def _pad(self, alignment: int, ahead: int = 0) -> None:
        """Zeros until `position + ahead` is a multiple of `alignment`."""
        self._tail += bytes(-(self.position + ahead) % alignment)

    def _append_blob(self, blob: Any) -> None:
        if len(blob) < 4096:
            self._tail += bytes(blob)
            return
        self._chunks += [self._tail, blob]
        self._start += len(self._tail) + len(blob)
        self._tail = bytearray()

    def _table(self, obj: Any) -> int:
        """Write a table and its children; returns its position."""
        cls = type(obj)
        codes: list[tuple[int, str]] = []
        values: list[Any] = []
        children: list[tuple[int, Field, Any]] = []
        for slot, field in self._rows[cls]:
            value = getattr(obj, field.name)
            if isinstance(field.kind, Scalar):
                if value or (isinstance(value, float) and str(value) == "-0.0"):
                    codes.append((slot, field.kind.code))
                    values.append(value)
            elif value is not None:
                if isinstance(field.kind, Union):
                    codes.append((slot, "B"))
                    values.append(field.kind.classes.index(type(value)) + 1)
                    slot += 1
                children.append((len(codes), field, value))
                codes.append((slot, "I"))
                values.append(0)
        key = (cls, tuple(slot for slot, _ in codes))
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _shape_of(codes, self._n_slots[cls])
        return self._place(cls, shape, values, children)

    def _place(
        self, cls: type, shape: _Shape, values: list[Any], children: list[tuple[int, Field, Any]]
    ) -> int:
        vtable = self._vtables.get(shape.vtable)
        if vtable is None:
            self._pad(2)
            vtable = self._vtables[shape.vtable] = self.position
            self._tail += shape.vtable
        if shape.wide:
            self._pad(8, ahead=4)
        else:
            self._pad(4)
        start, tail, local = self.position, self._tail, len(self._tail)
        try:
            tail += shape.packer.pack(start - vtable, *[values[i] for i in shape.order])
        except struct.error as e:
            raise FlatbufferError(
                f"{cls.__name__}: {values} does not fit its fields: {e}"
            ) from None
        for index, field, value in children:
            offset = shape.offsets[index]
            target = self._child(cls, field, value)
            struct.pack_into("<I", tail, local + offset, target - (start + offset))
        return start

    def _child(self, cls: type, field: Field, value: Any) -> int:
        kind = field.kind
        if isinstance(kind, (Table, Union)):
            return self._table(value)
        if isinstance(kind, Tables):
            return self._table_vector(value)
        if isinstance(kind, Text):
            return self._text(value)
        if isinstance(kind, Blob):
            self._pad(max(4, kind.alignment), ahead=4)
            start = self.position
            self._tail += struct.pack("<I", len(value))
            self._append_blob(value)
            return start
        assert isinstance(kind, Numbers)
        self._pad(max(4, kind.size), ahead=4)
        start = self.position
        try:
            self._tail += struct.pack(f"<I{len(value)}{kind.code}", len(value), *value)
        except struct.error as e:
            raise FlatbufferError(
                f"{cls.__name__}.{field.name}: {list(value)[:16]} does not fit: {e}"
            ) from None
        return start

    def _text(self, value: str) -> int:
        data = value.encode(errors="surrogateescape")
        self._pad(4)
        start = self.position
        self._tail += struct.pack("<I", len(data)) + data + b"\0"
        return start

    def _table_vector(self, items: Sequence[Any]) -> int:
        self._pad(4)
        start, tail, local = self.position, self._tail, len(self._tail)
        tail += struct.pack("<I", len(items)) + bytes(4 * len(items))
        for i, item in enumerate(items):
            target = self._table(item)
            struct.pack_into("<I", tail, local + 4 + 4 * i, target - (start + 4 + 4 * i))
        return start


class Reader:
    """Reads objects out of untrusted bytes; anything out of place is a FlatbufferError."""

    def __init__(self, layouts: Layouts, data: Any) -> None:
        self._rows = {cls: _slot_rows(fields) for cls, fields in layouts.items()}
        self._data = memoryview(data).cast("B")
        self._n_tables = 0

    def root(self, cls: type, identifier: bytes) -> Any:
        """The root object of the buffer, whose identifier must be the one given."""
        found = bytes(self._data[4:8])
        if found != identifier:
            raise FlatbufferError(f"file identifier: expected {identifier!r}, got {found!r}")
        return self._table(cls, self._number("I", 0), 0)

    def _number(self, code: str, position: int) -> Any:
        size = struct.calcsize("<" + code)
        if position < 0 or position + size > len(self._data):
            raise FlatbufferError(
                f"expected {size} bytes at {position}, got a buffer of {len(self._data)} bytes"
            )
        return struct.unpack_from("<" + code, self._data, position)[0]

    def _follow(self, position: int) -> int:
        return position + int(self._number("I", position))

    def _table(self, cls: type, position: int, depth: int) -> Any:
        self._n_tables += 1
        if depth > MAX_DEPTH or self._n_tables > MAX_TABLES:
            raise FlatbufferError(
                f"{cls.__name__} at {position}: nested too deep or too many tables"
            )
        vtable = position - self._number("i", position)
        n_slots = (self._number("H", vtable) - 4) // 2
        table_bytes = self._number("H", vtable + 2)
        if position + table_bytes > len(self._data):
            raise FlatbufferError(f"{cls.__name__} at {position} ends behind the buffer")

        def slot_position(slot: int) -> int:
            offset = self._number("H", vtable + 4 + 2 * slot) if slot < n_slots else 0
            if offset and (offset < 4 or offset >= table_bytes):
                raise FlatbufferError(f"{cls.__name__} at {position}: slot {slot} at {offset}")
            return position + offset if offset else 0

        values = {}
        for slot, field in self._rows[cls]:
            where = slot_position(slot)
            if isinstance(field.kind, Union):
                values[field.name] = self._union(field, where, slot_position(slot + 1), depth)
            elif not where:
                values[field.name] = self._absent(field)
            else:
                values[field.name] = self._present(field, where, depth)
        return cls(**values)

    @staticmethod
    def _absent(field: Field) -> Any:
        if isinstance(field.kind, Scalar):
            if field.kind.enum is not None:
                return field.kind.enum(0)
            return {"?": False, "d": 0.0}.get(field.kind.code, 0)
        return field.absent() if callable(field.absent) else field.absent

    def _union(self, field: Field, code_at: int, value_at: int, depth: int) -> Any:
        assert isinstance(field.kind, Union)
        code = self._number("B", code_at) if code_at else 0
        if not 1 <= code <= len(field.kind.classes):
            raise FlatbufferError(f"{field.name}: unknown type code {code}")
        cls = field.kind.classes[code - 1]
        if value_at:
            return self._table(cls, self._follow(value_at), depth + 1)
        if not self._rows[cls]:
            return cls()
        raise FlatbufferError(f"{field.name}: type code {code} without a value")

    def _present(self, field: Field, where: int, depth: int) -> Any:
        kind = field.kind
        if isinstance(kind, Scalar):
            value = self._number(kind.code, where)
            if kind.enum is None:
                return value
            try:
                return kind.enum(value)
            except ValueError:
                raise FlatbufferError(f"{field.name}: {value} is no {kind.enum.__name__}") from None
        start = self._follow(where)
        if isinstance(kind, Table):
            return self._table(kind.cls, start, depth + 1)
        count = int(self._number("I", start))
        if isinstance(kind, Tables):
            self._span(field, start + 4, 4 * count)
            rows = range(start + 4, start + 4 + 4 * count, 4)
            return [self._table(kind.cls, self._follow(p), depth + 1) for p in rows]
        if isinstance(kind, Text):
            return self._span(field, start + 4, count).tobytes().decode(errors="surrogateescape")
        if isinstance(kind, Blob):
            return self._span(field, start + 4, count).tobytes()
        assert isinstance(kind, Numbers)
        span = self._span(field, start + 4, count * kind.size)
        return list(struct.unpack(f"<{count}{kind.code}", span))

    def _span(self, field: Field, start: int, size: int) -> memoryview:
        if start + size > len(self._data):
            raise FlatbufferError(
                f"{field.name}: {size} bytes at {start} end behind the buffer of {len(self._data)}"
            )
        return self._data[start : start + size]
