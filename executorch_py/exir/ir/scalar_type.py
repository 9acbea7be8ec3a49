"""Element types: torch dtype, number in the file format, size, short name.

One table, from which every other form is derived. Relies on torch only for the dtype objects; knows
nothing of tensors, operators or kernels. Sub-byte and quantised storage types have no torch dtype
here because no graph value carries them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class _Row(NamedTuple):
    number: int
    dtype: torch.dtype
    size: int
    short: str


_ROWS = (
    _Row(0, torch.uint8, 1, "u8"),
    _Row(1, torch.int8, 1, "i8"),
    _Row(2, torch.int16, 2, "i16"),
    _Row(3, torch.int32, 4, "i32"),
    _Row(4, torch.int64, 8, "i64"),
    _Row(5, torch.float16, 2, "f16"),
    _Row(6, torch.float32, 4, "f32"),
    _Row(7, torch.float64, 8, "f64"),
    _Row(8, torch.complex32, 4, "c32"),
    _Row(9, torch.complex64, 8, "c64"),
    _Row(10, torch.complex128, 16, "c128"),
    _Row(11, torch.bool, 1, "b8"),
    _Row(12, torch.qint8, 1, "qi8"),
    _Row(13, torch.quint8, 1, "qu8"),
    _Row(14, torch.qint32, 4, "qi32"),
    _Row(15, torch.bfloat16, 2, "bf16"),
    _Row(23, torch.float8_e5m2, 1, "f8e5m2"),
    _Row(24, torch.float8_e4m3fn, 1, "f8e4m3fn"),
    _Row(25, torch.float8_e5m2fnuz, 1, "f8e5m2fnuz"),
    _Row(26, torch.float8_e4m3fnuz, 1, "f8e4m3fnuz"),
    _Row(27, torch.uint16, 2, "u16"),
    _Row(28, torch.uint32, 4, "u32"),
    _Row(29, torch.uint64, 8, "u64"),
)

_BY_DTYPE = {row.dtype: row for row in _ROWS}
_BY_NUMBER = {row.number: row for row in _ROWS}


def _row(dtype: torch.dtype) -> _Row:
    try:
        return _BY_DTYPE[dtype]
    except KeyError:
        raise ValueError(f"dtype {dtype} has no representation in the program format") from None


def scalar_type_number(dtype: torch.dtype) -> int:
    """The file format's number of a dtype."""
    return _row(dtype).number


def dtype_of_number(number: int) -> torch.dtype:
    """The torch dtype of a file format number; ValueError if torch has none."""
    try:
        return _BY_NUMBER[number].dtype
    except KeyError:
        raise ValueError(f"scalar type {number} has no torch dtype") from None


def element_bytes(dtype: torch.dtype) -> int:
    """Bytes of one element."""
    return _row(dtype).size


def short_name(dtype: torch.dtype) -> str:
    """Short name used in messages and kernel manifests, such as `f32`."""
    return _row(dtype).short
