"""A row of the operator table: an operator, its arguments, and the comparison of its result.

Rows are plain data, so that the whole table is counted and listed without running anything. T
describes a tensor and the random generation of its elements; the same T always gives the same
tensor. A row knows nothing of operators beyond their names. The expected result is eager torch's
for the same arguments, with intermediate results in a wider type if `exact` is set.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from support.element_samples import laid_out
from support.op_driver import (
    Const,
    Out,
    assert_close,
    assert_same,
    check_call,
    check_op,
    dim_order,
    full_arguments,
    plain,
    run_growing,
)

NAMES: dict[torch.dtype, str] = {
    torch.bool: "b8", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16",
    torch.int32: "i32", torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64",
    torch.complex128: "c128", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
}  # fmt: skip
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
HALVES = [torch.float16, torch.bfloat16]
WIDE = [torch.float32, torch.float64]
FLOATS = [*WIDE, *HALVES]
NUMBERS = [*INTS, *FLOATS]
REAL = [*NUMBERS, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
ALL = [*REAL, *COMPLEX, *UNSIGNED]


@dataclass(frozen=True)
class T:
    """A tensor argument. Elements are drawn from [low, high), or given as values."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    low: float = -4.0
    high: float = 4.0
    order: tuple[int, ...] | None = None
    values: tuple[Any, ...] | None = None
    nonzero: bool = False
    whole: bool = False  # integers, also in types of fractions: sums are exact, ties happen
    sorted: bool = False
    const: bool = False
    seed: int = 0

    def __str__(self) -> str:
        text = f"{NAMES[self.dtype]}[{','.join(map(str, self.shape))}]"
        text += f"@{''.join(map(str, self.order))}" if self.order is not None else ""
        text += "=values" if self.values is not None else ""
        return text + (" const" if self.const else "")

    def build(self) -> torch.Tensor:
        if self.values is not None:
            t = torch.tensor(self.values, dtype=self.dtype).reshape(self.shape)
        else:
            t = self._drawn()
        if self.sorted:
            t = t.sort(-1).values
        return t if self.order is None else laid_out(t, self.order)

    def _drawn(self) -> torch.Tensor:
        key = f"{self.shape}{self.low}{self.high}{self.seed}"
        generator = torch.Generator().manual_seed(zlib.crc32(key.encode()))
        dtype, shape = self.dtype, self.shape
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=generator).bool()
        unsigned = dtype in (torch.uint8, *UNSIGNED)
        low = max(self.low, 0.0) if unsigned else self.low
        if self.whole or not (dtype.is_floating_point or dtype.is_complex):
            t = torch.randint(
                math.ceil(low), max(math.ceil(self.high), math.ceil(low) + 1), shape,
                generator=generator,
            )  # fmt: skip
            t = t.where(t != 0, 1) if self.nonzero else t
            return t.to(dtype)
        t = torch.rand(shape, generator=generator, dtype=torch.float64)
        t = t * (self.high - low) + low
        if dtype.is_complex:
            t = torch.complex(t, torch.rand(shape, generator=generator, dtype=torch.float64) - 0.5)
        return t.to(dtype)


def small(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0, **how: Any) -> T:
    """Small elements: sums of products do not cancel to zero."""
    low, high = (-9, 9) if not dtype.is_floating_point else (-0.5, 0.5)
    return T(shape, dtype, low, high, seed=seed, **how)


@dataclass(frozen=True)
class Row:
    """One call of one operator, compared with eager torch."""

    op: str  # as kernels are named: aten::add.out
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    out_order: tuple[int, ...] | None = None
    out_dtype: torch.dtype | None = None
    scale: float = 1.0
    # Eager rounds halves between the steps of this operator: its result in f32, rounded once.
    exact: bool = False
    # A function in place of eager's operator: called with the built arguments.
    reference: Callable[..., Any] | None = None
    # The arguments at their largest: the operator is prepared for these and run with both.
    bound: tuple[Any, ...] | None = None

    @property
    def dtype(self) -> str:
        """The short name of the first tensor's dtype, or of the dtype argument."""
        for t in _tensors(self.args):
            return NAMES[t.dtype]
        return NAMES.get(self.out_dtype or self.kwargs.get("dtype", torch.float32), "any")

    @property
    def layout(self) -> str:
        """Layout of its tensors in memory, if it is special."""
        orders = [t.order for t in _tensors(self.args) if t.order is not None]
        orders += [self.out_order] if self.out_order is not None else []
        if not orders:
            return "contiguous"
        last = {(0, 2, 1), (0, 2, 3, 1), (0, 2, 3, 4, 1)}
        return "channels last" if any(o in last for o in orders) else "other dim orders"

    def __str__(self) -> str:
        parts = [_text(a) for a in self.args]
        parts += [f"{k}={_text(v)}" for k, v in self.kwargs.items()]
        parts += [f"out_order={self.out_order}"] if self.out_order is not None else []
        parts += [f"out_dtype={NAMES[self.out_dtype]}"] if self.out_dtype is not None else []
        parts += [f"bound=({', '.join(_text(a) for a in self.bound)})"] if self.bound else []
        return f"{self.op}({', '.join(parts)})"

    def check(self) -> None:
        """Runs the row in every way; raises AssertionError or OpError."""
        op = overload(self.op)
        args = [_built(a) for a in self.args]
        kwargs = {k: _built(v) for k, v in self.kwargs.items()}
        if op is None:
            wanted = _listed(self.expected(op, args, kwargs))
            check_call(self.op, args, wanted, out_order=self.out_order, scale=self.scale)
            return
        check_op(
            op, *args, expected=self.expected(op, args, kwargs), out_dtype=self.out_dtype,
            out_order=self.out_order, scale=self.scale, **kwargs,
        )  # fmt: skip
        if self.bound is not None:
            self._check_growing(op, args, kwargs)

    def expected(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Expected results of the operator."""
        function = self.reference or op.overloadpacket
        given = [plain(a) for a in args]
        named = {k: plain(v) for k, v in kwargs.items()}
        if not self.exact:
            return function(*given, **named)
        result = function(*[_wider(a) for a in given], **{k: _wider(v) for k, v in named.items()})
        half = next(t.dtype for t in _tensors(self.args) if t.dtype.is_floating_point)
        return _narrowed(result, half)

    def _check_growing(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Prepared for the bound, run with the row, with the bound, and with the row again."""
        assert self.bound is not None
        largest = [_built(a) for a in self.bound]
        wanted = [_listed(self.expected(op, given, kwargs)) for given in (args, largest, args)]
        outs = [
            Out(t.dtype, t.shape, self.out_order or dim_order(t.contiguous()), True, (0,) * t.dim())
            for t in wanted[1]
        ]
        calls = [full_arguments(op, given, kwargs) for given in (args, largest, args)]
        results = run_growing(self.op, calls[1], calls, outs, threads=2)
        for found, want in zip(results, wanted, strict=True):
            for got, expected in zip(found, want, strict=True):
                assert_close(got, expected, self.scale)
        for got, again in zip(results[0], results[2], strict=True):
            assert_same(again, got, "after a run of the largest size")


def overload(name: str) -> Any:
    """The overload of torch that has a kernel's name; None where torch has only the function."""
    library, _, rest = name.partition("::")
    packet, _, overload_name = rest.partition(".")
    found = getattr(getattr(torch.ops, library), packet, None)
    return getattr(found, overload_name or "default", None)


def _tensors(arg: Any) -> list[T]:
    if isinstance(arg, T):
        return [arg]
    if isinstance(arg, (list, tuple)):
        return [t for item in arg for t in _tensors(item)]
    return []


def _text(arg: Any) -> str:
    if isinstance(arg, (list, tuple)):
        return "[" + ", ".join(_text(a) for a in arg) + "]"
    return NAMES.get(arg, str(arg)) if isinstance(arg, torch.dtype) else str(arg)


def _built(arg: Any) -> Any:
    if isinstance(arg, T):
        return Const(arg.build()) if arg.const else arg.build()
    if isinstance(arg, (list, tuple)) and _tensors(arg):
        return [_built(a) for a in arg]
    return arg


def _wider(arg: Any) -> Any:
    if isinstance(arg, (list, tuple)):
        return [_wider(a) for a in arg]
    return arg.float() if isinstance(arg, torch.Tensor) and arg.dtype in HALVES else arg


def _narrowed(result: Any, half: torch.dtype) -> Any:
    if isinstance(result, (list, tuple)):
        return [_narrowed(r, half) for r in result]
    return result.to(half) if result.dtype == torch.float32 and half in HALVES else result


def _listed(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def ordered(t: T, order: Sequence[int] | None) -> T:
    """The same elements in another dim order."""
    return replace(t, order=None if order is None else tuple(order))


def growing(make: Callable[..., tuple[Any, ...]], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Arguments of rows whose sizes change: the smallest, the middle and the largest of sizes."""
    return [{"args": make(n), "bound": make(sizes[-1])} for n in sizes]
