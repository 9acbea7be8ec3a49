"""Arguments of a kernel call as C values, and its outputs.

Arguments of tests that torch has no type for: Const, Out, Tensors, OptionalTensors,
Doubles. A tensor may be dense in any dim order, which is kept. torch.dtype, torch.memory_format and
so on become the integers of the file format. Output memory has guard bytes on both sides. Mirrors
et_value and et_tensor of csrc/runtime/et.h; calls nothing.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

DTYPES: dict[torch.dtype, int] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
}
MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2}
GUARD = 256

NONE, TENSOR, STRING, DOUBLE, INT, BOOL, BOOL_LIST, DOUBLE_LIST, INT_LIST, TENSOR_LIST = range(10)
OPTIONAL_TENSOR_LIST = 11
FLAG_CONSTANT, FLAG_DYNAMIC, FLAG_PLANNED, FLAG_CONTIGUOUS = 1, 2, 4, 8


@dataclass
class Const:
    """A constant tensor (a weight), whose data the prepare step may read."""

    tensor: torch.Tensor


@dataclass
class Tensors:
    items: Sequence[torch.Tensor | Const | Out]


@dataclass
class OptionalTensors:
    items: Sequence[torch.Tensor | Const | None]


class Doubles(list[float]):
    """A list of numbers that may be empty."""


@dataclass
class Out:
    """Planned output memory. `shape` is the upper bound; `start` is the shape before the run."""

    dtype: torch.dtype
    shape: Sequence[int]
    order: Sequence[int] | None = None
    dynamic: bool = True
    start: Sequence[int] | None = None


class CTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("numel", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("dtype", ctypes.c_uint8),
        ("rank", ctypes.c_uint8),
        ("flags", ctypes.c_uint16),
    ]


class CUnion(ctypes.Union):
    _fields_ = [
        ("i", ctypes.c_int64),
        ("d", ctypes.c_double),
        ("b", ctypes.c_bool),
        ("p", ctypes.c_void_p),
    ]


class CValue(ctypes.Structure):
    _fields_ = [
        ("tag", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("n", ctypes.c_uint32),
        ("u", CUnion),
    ]


def dim_order(t: torch.Tensor) -> list[int]:
    """Dimensions from outermost to innermost; the tensor must be dense."""
    if t.numel() == 0 or t.is_contiguous():
        return list(range(t.dim()))
    wide = sorted((d for d in range(t.dim()) if t.shape[d] != 1), key=lambda d: -t.stride(d))
    order = [d for d in range(t.dim()) if t.shape[d] == 1] + wide
    expected = 1
    for d in reversed(order):
        if t.shape[d] != 1 and t.stride(d) != expected:
            raise ValueError(f"tensor with strides {t.stride()} and sizes {t.shape} is not dense")
        expected *= t.shape[d]
    return order


def _strides(sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(1, sizes[d])
    return strides


@dataclass
class Built:
    """The memory of one Out: its C tensor and its bytes."""

    memory: Any
    c: CTensor
    bytes: int
    dtype: torch.dtype


class Values:
    """A builder of C values, which keeps everything that they point to alive."""

    def __init__(self, preparing: bool, growing: bool = False) -> None:
        self.preparing = preparing
        self.growing = growing  # tensors that are not constant may change their sizes
        self.keep: list[Any] = []
        self.outs: list[Built] = []

    def tensor(
        self,
        data: int,
        sizes: Sequence[int],
        start: Sequence[int],
        order: Sequence[int],
        dtype: torch.dtype,
        flags: int,
    ) -> CTensor:
        rank = len(sizes)
        first = sizes if self.preparing else start
        c_sizes = (ctypes.c_int32 * max(1, rank))(*first)
        c_strides = (ctypes.c_ssize_t * max(1, rank))(*_strides(first, order))
        c_order = (ctypes.c_uint8 * max(1, rank))(*order)
        if list(order) == list(range(rank)):
            flags |= FLAG_CONTIGUOUS
        self.keep += [c_sizes, c_strides, c_order]
        visible = not self.preparing or flags & FLAG_CONSTANT
        return CTensor(
            data if visible else None,
            c_sizes,
            c_strides,
            c_order,
            math.prod(first),
            math.prod(sizes),
            DTYPES[dtype],
            rank,
            flags,
        )

    def value(self, arg: Any) -> CValue:
        v = CValue(NONE, 0, 0, CUnion(i=0))
        if arg is None:
            pass
        elif isinstance(arg, bool):
            v.tag, v.u = BOOL, CUnion(b=arg)
        elif isinstance(arg, int):
            v.tag, v.u = INT, CUnion(i=arg)
        elif isinstance(arg, float):
            v.tag, v.u = DOUBLE, CUnion(d=arg)
        elif isinstance(arg, str):
            text = ctypes.create_string_buffer(arg.encode())
            self.keep.append(text)
            v.tag, v.n, v.u = STRING, len(arg.encode()), CUnion(p=ctypes.addressof(text))
        elif isinstance(arg, torch.dtype):
            v.tag, v.u = INT, CUnion(i=DTYPES[arg])
        elif isinstance(arg, torch.memory_format):
            v.tag, v.u = INT, CUnion(i=MEMORY_FORMATS[arg])
        elif isinstance(arg, (torch.Tensor, Const)):
            t = arg.tensor if isinstance(arg, Const) else arg
            flags = FLAG_DYNAMIC if self.growing else 0
            flags = FLAG_CONSTANT if isinstance(arg, Const) else flags
            self.keep.append(t)
            self._point(
                v, self.tensor(t.data_ptr(), t.shape, t.shape, dim_order(t), t.dtype, flags)
            )
        elif isinstance(arg, Out):
            self._point(v, self._out(arg))
        else:
            self._list(v, arg)
        self.keep.append(v)
        return v

    def _point(self, v: CValue, c: CTensor) -> None:
        self.keep.append(c)
        v.tag, v.u = TENSOR, CUnion(p=ctypes.addressof(c))

    def _out(self, out: Out) -> CTensor:
        n = math.prod(out.shape) * out.dtype.itemsize
        size = n + 2 * GUARD + 64
        memory = (ctypes.c_uint8 * size)()
        ctypes.memset(memory, 0xA5, size)
        data = (ctypes.addressof(memory) + GUARD + 63) // 64 * 64
        order = list(out.order) if out.order is not None else list(range(len(out.shape)))
        start = out.shape if out.start is None or not out.dynamic else out.start
        c = self.tensor(
            data, out.shape, start, order, out.dtype, FLAG_DYNAMIC if out.dynamic else 0
        )
        self.keep.append(memory)
        self.outs.append(Built(memory, c, n, out.dtype))
        return c

    def _list(self, v: CValue, arg: Any) -> None:
        items = arg.items if isinstance(arg, (Tensors, OptionalTensors)) else list(arg)
        tensors = (torch.Tensor, Const, Out)
        v.n = len(items)
        if isinstance(arg, OptionalTensors) or any(i is None for i in items):
            v.tag = OPTIONAL_TENSOR_LIST
        elif isinstance(arg, Tensors) or (items and isinstance(items[0], tensors)):
            v.tag = TENSOR_LIST
        elif items and isinstance(items[0], bool):
            v.tag = BOOL_LIST
            packed: Any = (ctypes.c_uint8 * len(items))(*items)
        elif isinstance(arg, Doubles) or (items and isinstance(items[0], float)):
            v.tag = DOUBLE_LIST
            packed = (ctypes.c_double * len(items))(*items)
        else:
            v.tag = INT_LIST
        if v.tag not in (BOOL_LIST, DOUBLE_LIST):
            packed = self.pointers([None if i is None else self.value(i) for i in items])
        self.keep.append(packed)
        v.u = CUnion(p=ctypes.addressof(packed))

    def pointers(self, values: Sequence[CValue | None]) -> Any:
        array = (ctypes.c_void_p * max(1, len(values)))(
            *[None if x is None else ctypes.addressof(x) for x in values]
        )
        self.keep.append(array)
        return array

    def call(
        self, args: Sequence[Any], outs: Sequence[Any], tensor_list_out: bool
    ) -> tuple[Any, list[CValue]]:
        """The instruction's values: arguments, outs, then the result once more."""
        values = [self.value(a) for a in args]
        if tensor_list_out:
            out = self.value(Tensors(list(outs)))
            values += [out, out]
        else:
            made = [self.value(o) for o in outs]
            values += made
            if len(made) == 1:
                values.append(made[0])
            elif made:
                result = CValue(
                    TENSOR_LIST, 0, len(made), CUnion(p=ctypes.addressof(self.pointers(made)))
                )
                self.keep.append(result)
                values.append(result)
            else:  # an operator that updates its first argument
                values.append(values[0])
        return self.pointers(values), values


def read_out(out: Built) -> torch.Tensor:
    memory = bytes(out.memory)
    start = out.c.data - ctypes.addressof(out.memory)
    if set(memory[:start]) | set(memory[start + out.bytes :]) != {0xA5}:
        raise AssertionError("the kernel wrote outside of its output memory")
    sizes = [out.c.sizes[d] for d in range(out.c.rank)]
    strides = [out.c.strides[d] for d in range(out.c.rank)]
    used = math.prod(sizes)
    if used == 0:
        return torch.empty(sizes, dtype=out.dtype)
    flat = torch.frombuffer(
        bytearray(memory[start : start + used * out.dtype.itemsize]), dtype=out.dtype
    )
    return flat.as_strided(sizes, strides)
