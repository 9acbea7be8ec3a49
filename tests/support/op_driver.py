"""Driver of single operators of the C kernels: compares them with eager torch, without an export.

    check_op(torch.ops.aten.add.out, x, y, alpha=2)       # values, shape and dtype of eager torch
    check_op(torch.ops.aten.sum.IntList_out, x, [1], True, out_dtype=torch.int64)
    check_op(torch.ops.aten.mm.out, x, Const(w))          # w is known to prepare
    check_op(op, x, expected=y)                           # where eager has no such operator
    (y,) = run_op("aten::add.out", x, y, 1, out=[Out(torch.float32, (2, 3))])
    with pytest.raises(OpError, match="do not broadcast"):
        run_op("aten::add.out", x, z, 1, out=[Out(torch.float32, (2, 3))])

Arguments are given in the schema's order (check_op also takes them by name and fills in defaults).
Lists of tensors, ints, floats and bools are recognised by their first element; Tensors([...]) and
OptionalTensors([...]) say so for empty lists or lists with None. An Out states the memory that was
planned: dtype, largest shape, dim order, whether its shape may change. op_values.py makes C values
of all that.

The library is built by the CMake target op_driver (ET_TESTS=ON); ET_OP_DRIVER names another build
of it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from support.c_build import build_c
from support.op_values import (
    BOOL,
    DOUBLE,
    INT,
    NONE,
    Const,
    Doubles,
    OptionalTensors,
    Out,
    Tensors,
    Values,
    dim_order,
    read_out,
)
from support.tolerance import EXACT, OPERATOR, assert_near

# Types of arguments are exported here too, for tests.
__all__ = [
    "Const",
    "Doubles",
    "OpError",
    "OptionalTensors",
    "Out",
    "Tensors",
    "amx_bf16",
    "assert_close",
    "assert_same",
    "check_call",
    "check_op",
    "dim_order",
    "full_arguments",
    "has_op",
    "isa_limit",
    "isas",
    "isas_and_bf16",
    "isas_and_dots",
    "library",
    "loaded_op",
    "plain",
    "run_growing",
    "run_op",
    "run_scalar_op",
    "time_op",
]

ISA_COUNT = 4
DOTS = 16  # added to a number of an eti_dot
BF16S = 32  # added to a number of an eti_bf16
BF16_AMX = 3
# Repetitions of a call in check_op: whether outputs grow, whether it is prepared, threads.
WAYS = ((True, False, 1), (False, True, 1), (False, True, 3), (True, True, 1))


class OpError(Exception):
    """A status other than Ok from the kernel; .status is its number."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status 0x{status:x}: {message}")
        self.status = status


class _CError(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


def _library_path() -> Path:
    given = os.environ.get("ET_OP_DRIVER")
    if given:
        return Path(given)
    return build_c("release", "op_driver") / "op_driver.so"


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(_library_path()))
    lib.etd_find.restype = ctypes.c_void_p
    lib.etd_find.argtypes = [ctypes.c_char_p]
    lib.etd_name.restype = ctypes.c_char_p
    lib.etd_name.argtypes = [ctypes.c_size_t]
    lib.etd_n_args.restype = ctypes.c_size_t
    for query in (lib.etd_n_args, lib.etd_has_prepare, lib.etd_needs_prepare):
        query.argtypes = [ctypes.c_void_p]
    lib.etd_has_prepare.restype = lib.etd_needs_prepare.restype = ctypes.c_bool
    lib.etd_dtypes.restype = ctypes.c_uint32
    lib.etd_dtypes.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    lib.etd_load.restype = pointer
    lib.etd_load.argtypes = [pointer, pointer, ctypes.c_bool, size, size, pointer]
    lib.etd_call.argtypes = [pointer] * 3
    lib.etd_n_jobs.restype = size
    lib.etd_n_jobs.argtypes = [pointer]
    lib.etd_unload.argtypes = [pointer]
    lib.etd_time.restype = ctypes.c_double
    lib.etd_time.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] * 3
    return lib


def has_op(name: str) -> bool:
    return bool(library().etd_find(name.encode()))


def needs_prepare(name: str) -> bool:
    """Whether the operator has its prepare step also in a method loaded without such steps."""
    op = library().etd_find(name.encode())
    return bool(op) and bool(library().etd_needs_prepare(op))


def run_op(
    name: str,
    *args: Any,
    out: Sequence[Out] = (),
    prepared: bool = False,
    threads: int = 1,
    tensor_list_out: bool = False,
) -> list[torch.Tensor]:
    """Runs one operator; returns its outputs. OpError has the kernel's status and message."""
    real, ahead = Values(False), Values(True)
    call = real.call(args, out, tensor_list_out)
    minimal = not prepared and needs_prepare(name)
    planned = ahead.call(args, out, tensor_list_out)[0] if prepared or minimal else None
    with loaded_op(name, len(call[1]), planned, threads, minimal=minimal) as run:
        run(call[0])
    return [read_out(o) for o in real.outs]


def n_shared_jobs(name: str, *args: Any, out: Sequence[Out], threads: int = 2) -> int:
    """Runs one prepared operator; the number of jobs that it shared between threads."""
    real, ahead = Values(False), Values(True)
    planned, call = ahead.call(args, out, False)[0], real.call(args, out, False)
    with loaded_op(name, len(call[1]), planned, threads) as run:
        return run(call[0])


@contextmanager
def loaded_op(
    name: str, n_args: int, planned: Any, threads: int, *, minimal: bool = False
) -> Iterator[Callable[[Any], int]]:
    """Loads an operator, prepared with planned values if any; yields a function that calls it and
    returns the number of jobs that the call shared between threads."""
    lib = library()
    op = lib.etd_find(name.encode())
    if not op:
        raise OpError(0x14, f"no operator {name}")
    err = _CError()
    loaded = lib.etd_load(op, planned, minimal, n_args, threads, ctypes.byref(err))
    if not loaded:
        raise OpError(err.status, err.message.decode())

    def call(values: Any) -> int:
        status = lib.etd_call(loaded, values, ctypes.byref(err))
        if status != 0:
            raise OpError(status, err.message.decode())
        return int(lib.etd_n_jobs(loaded))

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
    """Outputs of several calls of one operator, which is loaded for tensors that change sizes.

    The operator is prepared with the largest arguments.
    """
    ahead = Values(True, growing=True)
    planned, values = ahead.call(bound, out, tensor_list_out)
    results = []
    with loaded_op(name, len(values), planned, threads) as run:
        for args in calls:
            real = Values(False, growing=True)
            run(real.call(args, out, tensor_list_out)[0])
            results.append([read_out(o) for o in real.outs])
    return results


@contextmanager
def isa_limit(isa: int) -> Iterator[None]:
    """Operators within this context use instruction sets up to `isa` (eti_isa of isa_select.h)."""
    library().etd_limit_isa(isa)
    try:
        yield
    finally:
        library().etd_limit_isa(ISA_COUNT)


def isas() -> list[int]:
    """The instruction sets of this CPU, scalar first."""
    return list(range(library().etd_best_isa() + 1))


def isas_and_dots() -> list[int]:
    """The instruction sets of this CPU, without and with their products of bytes."""
    return [*isas(), *(DOTS + dot for dot in range(1, 16) if library().etd_has_dot(dot))]


def isas_and_bf16() -> list[int]:
    """The instruction sets of this CPU, without and with products of bf16 of the same bits."""
    kinds = [kind for kind in range(1, 16) if kind != BF16_AMX and library().etd_has_bf16(kind)]
    return [*isas(), *(BF16S + kind for kind in kinds)]


def amx_bf16() -> list[int]:
    """Products of bf16 by tiles, which add in another order; empty if this CPU has none."""
    return [BF16S + BF16_AMX] if library().etd_has_bf16(BF16_AMX) else []


def run_scalar_op(name: str, *args: Any) -> Any:
    """Runs an operator whose result is a number written to the last slot; returns it."""
    values = Values(False)
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
    """Nanoseconds of one call, the minimum of the rounds: processor time if on one thread, else
    wall-clock time."""
    lib = library()
    real, ahead = Values(False), Values(True)
    array, _ = real.call(args, out, tensor_list_out)
    planned = None
    if prepared or needs_prepare(name):
        planned = ahead.call(args, out, tensor_list_out)[0]
    op = lib.etd_find(name.encode())
    return float(lib.etd_time(op, array, planned, threads, repeats, rounds))


def assert_close(actual: torch.Tensor, expected: torch.Tensor, scale: float = 1.0) -> None:
    """Asserts equal shape and dtype, and values within the dtype's tolerance times `scale`."""
    tolerance = OPERATOR.get(expected.dtype, EXACT).times(scale)
    assert_near(actual, expected, tolerance, equal_nan=True, check_stride=False)


def assert_same(actual: torch.Tensor, expected: torch.Tensor, how: str) -> None:
    """Asserts that elements are equal; NaN equals NaN."""
    if actual.dtype == expected.dtype and torch.equal(actual, expected):
        return
    assert_near(actual, expected, EXACT, equal_nan=True, msg=lambda m: f"{how}: {m}")


def plain(arg: Any) -> Any:
    """An argument in the form of eager torch."""
    if isinstance(arg, Const):
        return arg.tensor
    if isinstance(arg, (Tensors, OptionalTensors)):
        return [plain(i) for i in arg.items]
    return [plain(i) for i in arg] if isinstance(arg, (list, tuple)) else arg


def full_arguments(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Every argument of the out variant's schema except the outs, with defaults."""
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
    """Like check_op, for a kernel that torch need not have, with all arguments and results."""

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
