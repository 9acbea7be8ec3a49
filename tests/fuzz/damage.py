"""Damages a file one field at a time: numbers out of range, lists of other lengths, values of other
kinds, missing fields.

Works on the dataclasses of a format, the layouts of its writer, and the header of both formats. The
tests decide which outcome is right.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from typing import Any

from executorch_py.exir import schema as s
from executorch_py.exir.serialize.flatbuffer import (
    Blob,
    Field,
    Layouts,
    Numbers,
    Scalar,
    Text,
    Union,
)

INSTANCES = 3  # of every field in a file
LIMITS = {
    "?": [True],
    "b": [-128, -1, 1, 127],
    "B": [1, 17, 255],
    "i": [-(2**31), -1, 1, 2, 1000, 2**31 - 1],
    "I": [1, 2, 1000, 2**31, 2**32 - 1],
    "q": [-(2**63), -1, 1, 1000, 2**62, 2**63 - 1],
    "Q": [1, 1000, 2**32, 2**63, 2**64 - 1],
    "d": [float("nan"), float("inf"), -1e300],
}


def number_variants(kind: Scalar, value: Any) -> list[Any]:
    near = [] if isinstance(value, (bool, float)) else [value + 1, value + 2, max(value - 1, 0)]
    return [0, *LIMITS[kind.code], *near]


def vector_variants(code: str, items: list[Any]) -> Iterator[list[Any]]:
    yield []
    yield items + items
    yield items[:-1]
    yield [*items, *([items[-1]] if items else [0])]
    for i in {0, len(items) - 1} if items else set():
        for value in LIMITS[code]:
            yield [*items[:i], value, *items[i + 1 :]]


def variants(field: Field, value: Any) -> Iterator[Any]:
    """Replacements of a field; None removes it."""
    kind = field.kind
    if isinstance(kind, Scalar):
        yield from number_variants(kind, value)
        return
    yield None
    if value is None:
        return
    if isinstance(kind, Numbers):
        yield from vector_variants(kind.code, list(value))
    elif isinstance(kind, Text):
        yield from ("", value + "x", value[:-1], "\0", "\udcff", "n" * 5000)
    elif isinstance(kind, Blob):
        yield from vector_variants("B", list(value)) if isinstance(value, list) else (b"", b"\xff")
    elif isinstance(kind, Union):
        yield from (s.Int(7), s.Tensor(6, 0, [2], [0], False, 0, 0, None, 0), s.String("x"))
        yield from (s.IntList([0]), s.TensorList([0]), s.OptionalTensorList([-1]), s.Null())
        yield from (s.BoolList([True]), s.DoubleList([0.5]), s.Bool(True), s.Double(0.5))
        yield from (s.MoveCall(0, 1), s.FreeCall(0), s.JumpFalseCall(0, 0), s.DelegateCall(0, [0]))
    elif isinstance(value, (list, tuple)):
        yield []
        yield [*value, *value]
        yield list(value)[:-1]


def damaged(layouts: Layouts, obj: Any, seen: dict[Any, int]) -> Iterator[Any]:
    """Copies of a table and its children, each with one field changed; `seen` counts the fields."""
    for field in layouts[type(obj)]:
        value = getattr(obj, field.name)
        key = (type(obj), field.name)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= INSTANCES:
            for other in variants(field, value):
                yield replace(obj, **{field.name: other})
        if is_dataclass(value):
            for below in damaged(layouts, value, seen):
                yield replace(obj, **{field.name: below})
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                if not is_dataclass(item):
                    break
                for below in damaged(layouts, item, seen):
                    yield replace(obj, **{field.name: [*value[:i], below, *value[i + 1 :]]})


def changed(obj: Any, path: str, value: Any) -> Any:
    """A copy with one field changed; the path has names of fields and indices of lists."""
    first, _, rest = path.partition(".")
    if isinstance(obj, list):
        i = int(first)
        return [*obj[:i], changed(obj[i], rest, value) if rest else value, *obj[i + 1 :]]
    below = changed(getattr(obj, first), rest, value) if rest else value
    return replace(obj, **{first: below})


def damaged_headers(data: bytes, n_figures: int) -> Iterator[bytes]:
    """A file with its extended header's length or any two of its figures changed."""

    def put(code: str, at: int, value: int) -> bytes:
        return data[:at] + struct.pack(code, value) + data[at + struct.calcsize(code) :]

    size = len(data)
    yield data[:8] + b"xxxx" + data[12:]
    for length in (0, 8, 23, 24, 31, 32, 39, 40, 2**31, 2**32 - 1):
        yield put("<I", 12, length)
    extremes = [0, 1, 8, 47, 48, size - 1, size, size + 1, 2**31, 2**32, 2**63, 2**64 - 1]
    figures = struct.unpack_from(f"<{n_figures}Q", data, 16)
    places = range(16, 16 + 8 * n_figures, 8)
    choices = [
        (at, value % 2**64)
        for at, now in zip(places, figures, strict=True)
        for value in [*extremes, now - 1, now + 1, 2**64 - now]
    ]
    whole = data
    for first, value in choices:
        data = whole
        yield (once := put("<Q", first, value))
        for second, other in choices:
            if second > first:
                data = once
                yield put("<Q", second, other)
