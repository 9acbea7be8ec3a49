"""Runs single operators of the C kernels and compares them with eager torch, without any export.

    from op_driver import Const, Out, check_op, run_op

    check_op(torch.ops.aten.add.out, x, y, alpha=2)          # against eager: values, shape, dtype,
    three ways of running check_op(torch.ops.aten.sum.IntList_out, x, [1], True,
    out_dtype=torch.int64) check_op(torch.ops.aten.mm.out, x, Const(w))             # w is known to
    prepare check_op(op, x, expected=y)                              # where eager has no such
    operator (y,) = run_op("aten::add.out", x, y, 1, out=[Out(torch.float32, (2, 3))]) with
    pytest.raises(OpError, match="do not broadcast"): run_op(...)

Arguments are given in the schema's order (check_op also takes them by name and fills in defaults).
A tensor may be dense in any dim order, which is kept. torch.dtype, torch.memory_format and so on
become the integers of the file format. Lists of tensors, ints, floats and bools are recognised by
their first element; Tensors([...]) and OptionalTensors([...]) say so for empty lists or lists with
None. An Out states the memory that was planned: dtype, largest shape, dim order, whether its shape
may change. Output memory has guard bytes on both sides, which are checked. Other entries: has_op,
time_op, isas and isa_limit.

The library is built by the CMake target op_driver (ET_TESTS=ON); ET_OP_DRIVER names another build
of it.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
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
# relative, absolute: torch.testing.assert_close's defaults. Types that are absent compare exactly.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
GUARD = 256
ISA_COUNT = 4
# How check_op repeats a call: outputs that grow, prepared, threads.
WAYS = ((True, False, 1), (False, True, 1), (False, True, 3), (True, True, 1))

NONE, TENSOR, STRING, DOUBLE, INT, BOOL, BOOL_LIST, DOUBLE_LIST, INT_LIST, TENSOR_LIST = range(10)
OPTIONAL_TENSOR_LIST = 11
FLAG_CONSTANT, FLAG_DYNAMIC, FLAG_PLANNED, FLAG_CONTIGUOUS = 1, 2, 4, 8


class OpError(Exception):
    """A status other than Ok from the kernel; .status is its number."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status 0x{status:x}: {message}")
        self.status = status


@dataclass
class Const:
    """A tensor argument whose data prepare may read (a weight)."""

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
    """Planned output memory. shape is the largest; start, where given, the shape before the run."""

    dtype: torch.dtype
    shape: Sequence[int]
    order: Sequence[int] | None = None
    dynamic: bool = True
    start: Sequence[int] | None = None


class _CTensor(ctypes.Structure):
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


class _CUnion(ctypes.Union):
    _fields_ = [
        ("i", ctypes.c_int64),
        ("d", ctypes.c_double),
        ("b", ctypes.c_bool),
        ("p", ctypes.c_void_p),
    ]


class _CValue(ctypes.Structure):
    _fields_ = [
        ("tag", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("n", ctypes.c_uint32),
        ("u", _CUnion),
    ]


class _CError(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


def _library_path() -> Path:
    given = os.environ.get("ET_OP_DRIVER")
    if given:
        return Path(given)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from conftest import build_c

    return build_c("release") / "op_driver.so"


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(_library_path()))
    lib.etd_find.restype = lib.etd_name.restype = ctypes.c_void_p
    lib.etd_find.argtypes = [ctypes.c_char_p]
    lib.etd_name.restype = ctypes.c_char_p
    lib.etd_name.argtypes = [ctypes.c_size_t]
    lib.etd_n_args.restype = ctypes.c_size_t
    lib.etd_n_args.argtypes = lib.etd_has_prepare.argtypes = [ctypes.c_void_p]
    lib.etd_has_prepare.restype = ctypes.c_bool
    lib.etd_dtypes.restype = ctypes.c_uint32
    lib.etd_dtypes.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    lib.etd_load.restype = pointer
    lib.etd_load.argtypes = [pointer, pointer, size, size, pointer]
    lib.etd_call.argtypes = [pointer] * 3
    lib.etd_unload.argtypes = [pointer]
    lib.etd_time.restype = ctypes.c_double
    lib.etd_time.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] * 3
    return lib


def has_op(name: str) -> bool:
    return bool(library().etd_find(name.encode()))


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
class _Built:
    """One Out after it was built: where its bytes are."""

    memory: Any
    c: _CTensor
    bytes: int
    dtype: torch.dtype


class _Values:
    """Builds C values and keeps everything they point to alive."""

    def __init__(self, preparing: bool, growing: bool = False) -> None:
        self.preparing = preparing
        self.growing = growing  # tensors that are not constant may change their sizes
        self.keep: list[Any] = []
        self.outs: list[_Built] = []

    def tensor(
        self,
        data: int,
        sizes: Sequence[int],
        start: Sequence[int],
        order: Sequence[int],
        dtype: torch.dtype,
        flags: int,
    ) -> _CTensor:
        rank = len(sizes)
        first = sizes if self.preparing else start
        c_sizes = (ctypes.c_int32 * max(1, rank))(*first)
        c_strides = (ctypes.c_ssize_t * max(1, rank))(*_strides(first, order))
        c_order = (ctypes.c_uint8 * max(1, rank))(*order)
        if list(order) == list(range(rank)):
            flags |= FLAG_CONTIGUOUS
        self.keep += [c_sizes, c_strides, c_order]
        visible = not self.preparing or flags & FLAG_CONSTANT
        return _CTensor(
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

    def value(self, arg: Any) -> _CValue:
        v = _CValue(NONE, 0, 0, _CUnion(i=0))
        if arg is None:
            pass
        elif isinstance(arg, bool):
            v.tag, v.u = BOOL, _CUnion(b=arg)
        elif isinstance(arg, int):
            v.tag, v.u = INT, _CUnion(i=arg)
        elif isinstance(arg, float):
            v.tag, v.u = DOUBLE, _CUnion(d=arg)
        elif isinstance(arg, str):
            text = ctypes.create_string_buffer(arg.encode())
            self.keep.append(text)
            v.tag, v.n, v.u = STRING, len(arg.encode()), _CUnion(p=ctypes.addressof(text))
        elif isinstance(arg, torch.dtype):
            v.tag, v.u = INT, _CUnion(i=DTYPES[arg])
        elif isinstance(arg, torch.memory_format):
            v.tag, v.u = INT, _CUnion(i=MEMORY_FORMATS[arg])
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

    def _point(self, v: _CValue, c: _CTensor) -> None:
        self.keep.append(c)
        v.tag, v.u = TENSOR, _CUnion(p=ctypes.addressof(c))

    def _out(self, out: Out) -> _CTensor:
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
        self.outs.append(_Built(memory, c, n, out.dtype))
        return c

    def _list(self, v: _CValue, arg: Any) -> None:
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
        v.u = _CUnion(p=ctypes.addressof(packed))

    def pointers(self, values: Sequence[_CValue | None]) -> Any:
        array = (ctypes.c_void_p * max(1, len(values)))(
            *[None if x is None else ctypes.addressof(x) for x in values]
        )
        self.keep.append(array)
        return array

    def call(
        self, args: Sequence[Any], outs: Sequence[Any], tensor_list_out: bool
    ) -> tuple[Any, list[_CValue]]:
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
                result = _CValue(
                    TENSOR_LIST, 0, len(made), _CUnion(p=ctypes.addressof(self.pointers(made)))
                )
                self.keep.append(result)
                values.append(result)
            else:  # an operator that updates its first argument
                values.append(values[0])
        return self.pointers(values), values


def _read(out: _Built) -> torch.Tensor:
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


def run_op(
    name: str,
    *args: Any,
    out: Sequence[Out] = (),
    prepared: bool = False,
    threads: int = 1,
    tensor_list_out: bool = False,
) -> list[torch.Tensor]:
    """Runs one operator; returns its outputs. Raises OpError with the kernel's status and words."""
    real, ahead = _Values(False), _Values(True)
    call = real.call(args, out, tensor_list_out)
    planned = ahead.call(args, out, tensor_list_out)[0] if prepared else None
    with loaded_op(name, len(call[1]), planned, threads) as run:
        run(call[0])
    return [_read(o) for o in real.outs]


@contextmanager
def loaded_op(
    name: str, n_args: int, planned: Any, threads: int
) -> Iterator[Callable[[Any], None]]:
    """Loads an operator, prepared with planned values if any; gives what calls it with values."""
    lib = library()
    op = lib.etd_find(name.encode())
    if not op:
        raise OpError(0x14, f"no operator {name}")
    err = _CError()
    loaded = lib.etd_load(op, planned, n_args, threads, ctypes.byref(err))
    if not loaded:
        raise OpError(err.status, err.message.decode())

    def call(values: Any) -> None:
        status = lib.etd_call(loaded, values, ctypes.byref(err))
        if status != 0:
            raise OpError(status, err.message.decode())

    try:
        yield call
    finally:
        lib.etd_unload(loaded)


def run_growing(
    name: str,
    bound: Sequence[Any],
    calls: Sequence[Sequence[Any]],
    out: Sequence[Out],
    *,
    threads: int = 1,
    tensor_list_out: bool = False,
) -> list[list[torch.Tensor]]:
    """Loads one operator for tensors whose sizes may change, prepared with the largest arguments,
    and calls it with each of calls in turn; returns the outputs of each."""
    ahead = _Values(True, growing=True)
    planned, values = ahead.call(bound, out, tensor_list_out)
    results = []
    with loaded_op(name, len(values), planned, threads) as run:
        for args in calls:
            real = _Values(False, growing=True)
            run(real.call(args, out, tensor_list_out)[0])
            results.append([_read(o) for o in real.outs])
    return results


@contextmanager
def isa_limit(isa: int) -> Iterator[None]:
    """Operators run inside use instruction sets up to this one (eti_isa of micro/select.h)."""
    library().etd_limit_isa(isa)
    try:
        yield
    finally:
        library().etd_limit_isa(ISA_COUNT)


def isas() -> list[int]:
    """The instruction sets of this CPU, scalar first."""
    return list(range(library().etd_best_isa() + 1))


def run_scalar_op(name: str, *args: Any) -> Any:
    """Runs an operator whose result is a number written to the last slot; returns it."""
    values = _Values(False)
    made = [values.value(a) for a in args]
    result = values.value(None)
    with loaded_op(name, len(made) + 1, None, 1) as run:
        run(values.pointers([*made, result]))
    return {INT: result.u.i, DOUBLE: result.u.d, BOOL: result.u.b, NONE: None}[result.tag]


def time_op(
    name: str,
    *args: Any,
    out: Sequence[Out],
    prepared: bool = True,
    repeats: int = 1000,
    threads: int = 1,
    rounds: int = 5,
    tensor_list_out: bool = False,
) -> float:
    """Nanoseconds of one call (best of the rounds): of processor time on one thread, else of the
    clock."""
    lib = library()
    real, ahead = _Values(False), _Values(True)
    array, _ = real.call(args, out, tensor_list_out)
    planned = ahead.call(args, out, tensor_list_out)[0] if prepared else None
    op = lib.etd_find(name.encode())
    return float(lib.etd_time(op, array, planned, threads, repeats, rounds))


def assert_close(actual: torch.Tensor, expected: torch.Tensor, scale: float = 1.0) -> None:
    """Same shape and dtype, values within the dtype's tolerance times scale; NaN equals NaN."""
    rtol, atol = TOLERANCES.get(expected.dtype, (0.0, 0.0))
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        scale = 1.0
    torch.testing.assert_close(
        actual, expected, rtol=rtol * scale, atol=atol * scale, equal_nan=True, check_stride=False
    )


def assert_same(actual: torch.Tensor, expected: torch.Tensor, how: str) -> None:
    """Equal element for element; NaN equals NaN."""
    if actual.dtype == expected.dtype and torch.equal(actual, expected):
        return
    torch.testing.assert_close(
        actual, expected, rtol=0, atol=0, equal_nan=True, msg=lambda m: f"{how}: {m}"
    )


def plain(arg: Any) -> Any:
    """An argument as eager torch takes it."""
    if isinstance(arg, Const):
        return arg.tensor
    if isinstance(arg, (Tensors, OptionalTensors)):
        return [plain(i) for i in arg.items]
    return [plain(i) for i in arg] if isinstance(arg, (list, tuple)) else arg


def full_arguments(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Every argument of the out variant's schema but the outs, defaults filled in."""
    full = []
    for i, a in enumerate(s for s in op._schema.arguments if not s.is_out):
        if i < len(args):
            value = args[i]
        elif a.name in kwargs:
            value = kwargs[a.name]
        elif a.has_default_value():
            value = a.default_value
        else:
            raise TypeError(f"{op}: missing argument {a.name}")
        kind = str(a.type)
        if kind in ("float", "Optional[float]") and isinstance(value, int):
            value = float(value)
        if kind.startswith("List[") or kind.startswith("Optional[List["):
            if value is not None and not isinstance(value, (list, tuple, Tensors, OptionalTensors)):
                value = [value]
            if "Optional[Tensor]" in kind and not isinstance(value, OptionalTensors):
                value = OptionalTensors(list(value))
            elif "Tensor" in kind and not isinstance(value, Tensors):
                value = Tensors(list(value))
            elif "float" in kind and value is not None:
                value = Doubles(float(x) for x in value)
        full.append(value)
    return full


def check_op(
    op: Any,
    *args: Any,
    expected: Any = None,
    out_dtype: torch.dtype | None = None,
    out_order: Sequence[int] | None = None,
    scale: float = 1.0,
    **kwargs: Any,
) -> list[torch.Tensor]:
    """Runs op (an out overload such as torch.ops.aten.add.out) and compares with eager torch.

    Runs it with static outputs, then as WAYS says, with outputs that start at size 0 and grow,
    prepared where it can be, with three threads: all must agree bit for bit. expected replaces
    eager's result; out_dtype asks for another output dtype than eager gives by itself; out_order
    for another output dim order; scale widens tolerances where rounding accumulates.
    """
    name = op._schema.name + ("." + op._schema.overload_name if op._schema.overload_name else "")
    full = full_arguments(op, args, kwargs)
    if expected is None:
        expected = op.overloadpacket(
            *[plain(a) for a in args], **{k: plain(v) for k, v in kwargs.items()}
        )
    if not isinstance(expected, (list, tuple)):
        expected = [expected]
    wanted = [e if out_dtype is None else e.to(out_dtype) for e in expected]
    listed = any(a.is_out and "List" in str(a.type) for a in op._schema.arguments)
    return check_call(name, full, wanted, out_order=out_order, scale=scale, listed=listed)


def check_call(
    name: str,
    full: Sequence[Any],
    wanted: Sequence[torch.Tensor],
    *,
    out_order: Sequence[int] | None = None,
    scale: float = 1.0,
    listed: bool = False,
) -> list[torch.Tensor]:
    """check_op for a kernel that torch need not know, with all its arguments and its results."""

    def outs(dynamic: bool) -> list[Out]:
        made = []
        for e in wanted:
            dense = e if torch.ops.aten.is_non_overlapping_and_dense(e) else e.contiguous()
            order = out_order if out_order is not None else dim_order(dense)
            made.append(
                Out(e.dtype, tuple(e.shape), order, dynamic, (0,) * e.dim() if e.dim() else None)
            )
        return made

    first = run_op(name, *full, out=outs(False), tensor_list_out=listed)
    for got, want in zip(first, wanted, strict=True):
        assert_close(got, want, scale)
    for dynamic, prepared, threads in WAYS:
        again = run_op(
            name,
            *full,
            out=outs(dynamic),
            prepared=prepared,
            threads=threads,
            tensor_list_out=listed,
        )
        for got, want in zip(again, first, strict=True):
            assert_same(got, want, f"dynamic={dynamic} prepared={prepared} threads={threads}")
    return first
