"""Rows of element-wise operators: of one tensor, of two, with numbers, choices between tensors.

Every operator runs in all its dtypes over shapes, layouts and special values; those of two tensors
also over every pair of dtypes and the ways to broadcast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from kernels.table.row import COMPLEX, FLOATS, HALVES, INTS, NUMBERS, REAL, Row, T, growing

INF, NAN = math.inf, math.nan
B8, U8, I8, I32, I64 = torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64
F32 = torch.float32
SPECIAL = (0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3e38, -3e38, 2.0, -2.0, 0.5, -0.5, 1.5, -2.5,
           1e-30, -1e-30)  # fmt: skip
LAST = (0, 2, 3, 1)
LAYOUTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 5), (1, 0)),
    ((2, 3, 5), (0, 2, 1)),
    ((2, 3, 5), (2, 0, 1)),
    ((2, 3, 4, 5), LAST),
    ((2, 3, 4, 5), (3, 2, 1, 0)),
    ((2, 3, 4, 5), (0, 1, 3, 2)),
]
SHAPES: list[tuple[int, ...]] = [(), (1,), (0,), (2, 0, 3), (13,), (3, 5, 7), (2, 1, 3, 1, 2)]


@dataclass(frozen=True)
class Unary:
    name: str
    dtypes: Sequence[torch.dtype]
    low: float = -20.0
    high: float = 20.0
    special: bool = True
    scale: float = 2.0
    args: tuple[Any, ...] = ()
    exact: bool = False


def _functions() -> Iterator[Unary]:
    for name in ("abs", "neg", "ceil", "floor", "round", "trunc", "relu"):
        yield Unary(name, NUMBERS)
    for name in ("sign", "isnan", "isinf", "logical_not", "signbit"):
        yield Unary(name, REAL)
    yield Unary("bitwise_not", [*INTS, B8])
    ranges: dict[str, tuple[float, float]] = {
        "acos": (-1, 1), "acosh": (1, 30), "asin": (-1, 1), "asinh": (-20, 20),
        "atan": (-20, 20), "atanh": (-1, 1), "cos": (-20, 20), "cosh": (-10, 10),
        "erf": (-5, 5), "exp": (-10, 10), "expm1": (-10, 10), "log": (0, 50),
        "log10": (0, 50), "log1p": (-1, 50), "log2": (0, 50), "reciprocal": (-20, 20),
        "rsqrt": (0, 30), "sigmoid": (-10, 10), "sin": (-20, 20), "sinh": (-10, 10),
        "sqrt": (0, 30), "tan": (-1.5, 1.5), "tanh": (-5, 5),
    }  # fmt: skip
    for name, (low, high) in ranges.items():
        yield Unary(name, REAL, low, high)
    yield Unary("logit", REAL, 0, 1, args=(None,), exact=True)
    yield Unary("logit", REAL, -1, 2, args=(1e-3,), exact=True)
    yield Unary("gelu", FLOATS, -6, 6, special=False)
    yield Unary("elu", FLOATS, -6, 6)
    yield Unary("leaky_relu", FLOATS, -6, 6)
    yield Unary("hardtanh", [d for d in NUMBERS if d != U8], -3, 3)


def of_one_tensor() -> Iterator[Row]:
    for f in _functions():
        op = f"aten::{f.name}.out"
        for dtype in f.dtypes:
            exact = f.exact and dtype in HALVES
            x = T((2, 3, 4, 5), dtype, f.low, f.high)
            given: list[tuple[T, Any]] = [(replace(x, shape=shape), None) for shape in SHAPES]
            given += [(replace(x, shape=shape, order=order), None) for shape, order in LAYOUTS]
            given += [(x, LAST), (replace(x, order=LAST), (0, 1, 2, 3))]
            if dtype.is_floating_point and f.special:
                given.append((T((len(SPECIAL),), dtype, values=SPECIAL), None))
            for t, out_order in given:
                yield Row(op, (t, *f.args), scale=f.scale, exact=exact, out_order=out_order)
        dtype = F32 if F32 in f.dtypes else I32
        yield Row(op, (T((70_001,), dtype, f.low, f.high), *f.args), scale=f.scale)
        for sizes in growing(lambda n, f=f: (T((n, 7), F32, f.low, f.high), *f.args), (0, 5, 9)):
            if F32 in f.dtypes:
                yield Row(op, scale=f.scale, **sizes)


@dataclass(frozen=True)
class Binary:
    op: str
    dtypes: Sequence[torch.dtype]
    low: float = -20.0
    high: float = 20.0
    divides: bool = False  # the right operand is never zero
    special: bool = True
    scale: float = 4.0


PAIRS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 5, 7), (3, 5, 7)),
    ((4, 1, 7), (5, 1)),
    ((7,), (2, 5, 7)),
    ((), (2, 5, 7)),
    ((2, 5, 7), ()),
    ((), ()),
    ((1,), ()),
    ((2, 0, 3), (1, 1, 3)),
    ((0,), (1,)),
    ((1, 3, 1, 5), (2, 1, 4, 1)),
]
PAIR_LAYOUTS: list[tuple[Any, Any, Any]] = [
    (LAST, None, None),
    (None, LAST, LAST),
    (LAST, LAST, None),
    (LAST, LAST, (2, 0, 3, 1)),
    ((3, 2, 1, 0), (0, 1, 3, 2), None),
]
BINARY = [
    Binary("add.out", REAL),
    Binary("sub.out", NUMBERS),
    Binary("mul.out", REAL),
    Binary("div.out", REAL),
    Binary("floor_divide.out", NUMBERS, divides=True, special=False),
    Binary("fmod.Tensor_out", NUMBERS, divides=True, special=False),
    Binary("remainder.Tensor_out", NUMBERS, divides=True, special=False),
    Binary("maximum.out", REAL),
    Binary("minimum.out", REAL),
    Binary("atan2.out", REAL),
    Binary("pow.Tensor_Tensor_out", NUMBERS, 0, 4),
    Binary("logical_and.out", REAL, -2, 2),
    Binary("logical_or.out", REAL, -2, 2),
    Binary("logical_xor.out", REAL, -2, 2),
    Binary("bitwise_and.Tensor_out", [*INTS, B8]),
    Binary("bitwise_or.Tensor_out", [*INTS, B8]),
    Binary("bitwise_xor.Tensor_out", [*INTS, B8]),
    Binary("bitwise_left_shift.Tensor_out", INTS, -3, 70),
    Binary("bitwise_right_shift.Tensor_out", INTS, -3, 70),
    Binary("eq.Tensor_out", REAL, -3, 3),
    Binary("ne.Tensor_out", REAL, -3, 3),
    Binary("lt.Tensor_out", REAL, -3, 3),
    Binary("le.Tensor_out", REAL, -3, 3),
    Binary("gt.Tensor_out", REAL, -3, 3),
    Binary("ge.Tensor_out", REAL, -3, 3),
    Binary("copysign.out", REAL),
    Binary("hypot.out", FLOATS),
    Binary("gcd.out", INTS),
    Binary("lcm.out", INTS, -90, 90),
]


def _pair(f: Binary, left: T, right: T) -> tuple[T, T]:
    """Operands of one operator: both of one range, the right one with another seed."""
    return (
        replace(left, low=f.low, high=f.high),
        replace(right, low=f.low, high=f.high, nonzero=f.divides, seed=1),
    )


def _pairs_of(f: Binary) -> Iterator[tuple[tuple[T, T], Any]]:
    """Operands and the dim order of the result."""
    for dtype in f.dtypes:
        for left, right in PAIRS:
            yield _pair(f, T(left, dtype), T(right, dtype)), None
        for a, b, out in PAIR_LAYOUTS:
            shape = (2, 3, 4, 5)
            yield _pair(f, T(shape, dtype, order=a), T(shape, dtype, order=b)), out
        for other in f.dtypes:
            if other != dtype:
                yield _pair(f, T((3, 5, 7), dtype), T((5, 1), other)), None
                if not {dtype, other} <= set(INTS):
                    yield _pair(f, T((3, 5), dtype), T((), other)), None
        if dtype.is_floating_point and f.special:
            n = len(SPECIAL)
            rows = T((n, 1), dtype, values=SPECIAL), T((1, n), dtype, values=SPECIAL)
            yield rows, None


def of_two_tensors() -> Iterator[Row]:
    for f in BINARY:
        op = f"aten::{f.op}"
        for args, out_order in _pairs_of(f):
            yield Row(op, args, scale=f.scale, out_order=out_order)
        dtype = F32 if F32 in f.dtypes else I32
        for left, right in (((50, 3000), (3000,)), ((90, 1000), (90, 1000))):
            yield Row(op, _pair(f, T(left, dtype), T(right, dtype)), scale=f.scale)
        for given in ((5,), (1,), ()):
            for sizes in growing(
                lambda n, f=f, a=given, d=dtype: _pair(f, T(a, d), T((n, 5), d)), (0, 5, 9)
            ):
                yield Row(op, scale=f.scale, **sizes)


# operator, dtypes, the arguments after the tensor
WITH_NUMBERS: list[tuple[str, Sequence[torch.dtype], list[tuple[Any, ...]]]] = [
    ("add.Scalar_out", REAL, [(3,), (2.5,), (0.3,), (3, 2), (True,)]),
    ("sub.Scalar_out", NUMBERS, [(3,), (2.5,), (0.3,), (3, 2)]),
    ("rsub.Scalar_out", NUMBERS, [(3,), (2.5,), (0.3,), (3, 2)]),
    ("mul.Scalar_out", REAL, [(3,), (2.5,), (0.3,), (True,)]),
    ("div.Scalar_out", REAL, [(3,), (2.5,), (0.3,)]),
    ("fmod.Scalar_out", NUMBERS, [(3,), (2.5,), (0.3,), (-3,)]),
    ("remainder.Scalar_out", NUMBERS, [(3,), (2.5,), (0.3,), (-3,)]),
    ("pow.Tensor_Scalar_out", NUMBERS,
     [(0,), (1,), (2,), (3,), (0.5,), (1.7,), (-0.5,), (-1.0,), (-2.0,)]),
    ("bitwise_and.Scalar_out", [*INTS, B8], [(5,), (0,)]),
    ("bitwise_or.Scalar_out", [*INTS, B8], [(5,), (0,)]),
    ("bitwise_xor.Scalar_out", [*INTS, B8], [(5,), (0,)]),
    ("bitwise_left_shift.Tensor_Scalar_out", INTS, [(3,), (0,), (65,)]),
    ("bitwise_right_shift.Tensor_Scalar_out", INTS, [(3,), (0,), (65,)]),
    ("eq.Scalar_out", REAL, [(1,), (0.1,), (True,), (INF,)]),
    ("ne.Scalar_out", REAL, [(1,), (0.1,), (True,), (NAN,)]),
    ("lt.Scalar_out", REAL, [(1,), (0.1,), (True,), (-INF,)]),
    ("le.Scalar_out", REAL, [(1,), (0.1,), (True,)]),
    ("gt.Scalar_out", REAL, [(1,), (0.1,), (True,)]),
    ("ge.Scalar_out", REAL, [(1,), (0.1,), (True,)]),
    ("copysign.Scalar_out", REAL, [(1,), (-0.0,)]),
    ("clamp.out", NUMBERS, [(2, 8), (None, 8), (3, None), (2.5, 6.5), (9, 2)]),
    ("clamp.out", FLOATS, [(NAN, 2), (0, NAN), (-INF, INF)]),
    ("hardtanh.out", NUMBERS, [(0, 6), (2, 4)]),
    ("elu.out", FLOATS, [(1.5, 1.2, 0.7)]),
    ("leaky_relu.out", FLOATS, [(0.2,), (-0.5,)]),
    ("glu.out", FLOATS, [(0,), (1,), (-1,)]),
    ("masked_fill.Scalar_out", REAL, [(T((6, 8), B8), 1), (T((), B8, values=(True,)), 0)]),
    ("masked_fill.Tensor_out", REAL, [(T((8,), B8), T((), I64, values=(1,)))]),
]  # fmt: skip


def of_a_tensor_and_numbers() -> Iterator[Row]:
    for name, dtypes, choices in WITH_NUMBERS:
        op = f"aten::{name}"
        for dtype, args in itertools.product(dtypes, choices):
            # these round to half precision between their operations
            exact = dtype in HALVES and (name[:3] in ("pow", "elu", "glu") or len(args) > 1)
            for t in (
                T((4, 6, 8), dtype, 0, 9, nonzero=True),
                T((2, 6, 8), dtype, 0, 9, nonzero=True, whole=dtype.is_floating_point),
                T((4, 6, 8), dtype, 0, 9, nonzero=True, order=(1, 2, 0)),
                T((0, 6, 8), dtype),
            ):
                yield Row(op, (t, *args), scale=4, exact=exact)
            if isinstance(args[0], (int, float)) and name != "glu.out":
                yield Row(op, (T((), dtype, 1, 9), *args), scale=4, exact=exact)
        for sizes in growing(lambda n, a=choices[0]: (T((n, 6, 8), I8, 1, 9), *a), (0, 2, 5)):
            if I8 in dtypes:
                yield Row(op, scale=4, **sizes)
    for dtype in NUMBERS:
        for base, x in itertools.product((2, 2.5, 0, 1), (T((3, 5), dtype, 0, 4), T((), dtype))):
            x = replace(x, low=0)
            yield Row("aten::pow.Scalar_out", (base, x), scale=4)


def with_modes() -> Iterator[Row]:
    """Arguments by name: factors, rounding modes, approximations."""
    for dtype in NUMBERS:
        x, y = T((30, 5), dtype), T((30, 5), dtype, nonzero=True, seed=1)
        for alpha in (3, -1):
            for name in ("add", "sub"):
                exact = dtype in HALVES
                yield Row(f"aten::{name}.out", (x, y), {"alpha": alpha}, scale=4, exact=exact)
        for mode in (None, "floor", "trunc"):
            given = {"rounding_mode": mode}
            for right in (y, replace(y, shape=(5,))):
                exact = mode is None and dtype in HALVES
                yield Row("aten::div.out_mode", (x, right), given, scale=4, exact=exact)
            for number in (3, -3, 2.5):
                yield Row("aten::div.Scalar_mode_out", (x, number), given, scale=4)
    yield from _rounded_like_halves()
    for dtype, shape in itertools.product(FLOATS, SHAPES):
        x = T(shape, dtype, -6, 6)
        yield Row("aten::gelu.out", (x,), {"approximate": "tanh"}, scale=2)


def _rounded_like_halves() -> Iterator[Row]:
    """Intermediate values that eager rounds to half precision: quotients before truncation, factors
    of sums."""
    for dtype, other in itertools.product(HALVES, (*HALVES, I8)):
        x, y = T((40, 32), dtype, -9, 9), T((40, 32), other, nonzero=True, seed=1)
        mixed = [(x, y), (y, x), (x, replace(y, shape=(32,)))]
        for left, right in mixed:
            yield Row("aten::floor_divide.out", (left, right))
            for mode in ("floor", "trunc"):
                yield Row("aten::div.out_mode", (left, right), {"rounding_mode": mode})
        values = T((len(SPECIAL), 1), dtype, values=SPECIAL)
        for mode in ("floor", "trunc"):
            given = {"rounding_mode": mode}
            yield Row("aten::div.out_mode", (values, T((17,), dtype, values=SPECIAL)), given)
        # Enough elements to fill eager's vectors: its scalar code rounds products too.
        left, right = T((64,), dtype), T((64,), dtype, seed=1)
        for name, alpha in itertools.product(("add", "sub"), (1.7, -0.3)):
            yield Row(f"aten::{name}.out", (left, right), {"alpha": alpha})


def of_three_tensors() -> Iterator[Row]:
    where, clamp = "aten::where.self_out", "aten::clamp.Tensor_out"
    mask = T((3, 5, 7), B8)
    for a, b in itertools.product(REAL, REAL):
        yield Row(where, (mask, T((3, 5, 7), a), T((5, 7), b, seed=1)))
        yield Row(where, (mask, T((5, 7), a), T((), b, seed=1)))
        if B8 not in (a, b):
            low, high = T((5, 7), b, 0, 5), T((7,), b, 5, 9)
            yield Row(clamp, (T((3, 5, 7), a, 0, 9), low, high))
    for dtype in REAL:
        for left, right in PAIRS:
            yield Row(where, (T((1,), B8), T(left, dtype), T(right, dtype, seed=1)))
        for a, b, out in PAIR_LAYOUTS:
            shape = (2, 3, 4, 5)
            x, y = T(shape, dtype, order=a), T(shape, dtype, order=b, seed=1)
            yield Row(where, (T(shape, B8, order=a), x, y), out_order=out)
            if dtype != B8:
                yield Row(clamp, (x, y, None), out_order=out)
                yield Row(clamp, (x, None, y), out_order=out)
    for dtype in FLOATS:
        x = torch.tensor([[v] for v in SPECIAL], dtype=dtype)
        bounds = torch.tensor([NAN, -0.0, INF, 1.0, -INF, -1.0], dtype=dtype)
        yield Row(clamp, (x, bounds, None))
        yield Row(clamp, (x, None, bounds))
        yield Row(clamp, (x.expand(-1, 6).contiguous(), bounds, bounds.flip(0)))


def of_complex_numbers() -> Iterator[Row]:
    for dtype in COMPLEX:
        x, y = T((3, 4), dtype), T((4,), dtype, seed=1)
        real = T((4,), torch.float32 if dtype == torch.complex64 else torch.float64, seed=1)
        for name in ("add", "sub", "mul", "div"):
            for left, right in ((x, y), (x, real), (y, x), (x, replace(y, shape=()))):
                yield Row(f"aten::{name}.out", (left, right), scale=2)
            last = T((2, 3, 4, 5), dtype, order=LAST)
            yield Row(f"aten::{name}.out", (last, replace(last, seed=1)), scale=2)
            yield Row(f"aten::{name}.out", (T((0, 4), dtype), y))
            yield Row(f"aten::{name}.Scalar_out", (x, 2.5))
        yield Row("aten::sub.out", (x, y), {"alpha": 2}, scale=2)
        ends = [complex(a, b) for a, b in itertools.product((INF, -INF, NAN, 0.0, 1.0), repeat=2)]
        column = T((25, 1), dtype, values=tuple(ends))
        for name in ("add", "sub"):
            yield Row(f"aten::{name}.out", (column, T((25,), dtype, values=tuple(ends))))
        for shape in SHAPES:
            yield Row("aten::abs.out", (T(shape, dtype),))
            yield Row("aten::_conj_physical.out", (T(shape, dtype),))


# operator, range: functions that eager computes less exactly than ours in narrow types
SPECIAL_FUNCTIONS: list[tuple[str, tuple[float, float]]] = [
    ("digamma", (0.5, 20)),
    ("erfc", (-6, 6)),
    ("erfinv", (-0.95, 0.95)),
    ("i0", (-20, 20)),
    ("lgamma", (0.2, 40)),
    ("special_erfcx", (-3, 20)),
    ("special_i0e", (-20, 20)),
    ("special_i1", (-20, 20)),
    ("special_i1e", (-20, 20)),
    ("special_log_ndtr", (-8, 4)),
    ("special_ndtri", (0.05, 0.95)),
]


def of_special_functions() -> Iterator[Row]:
    """Compared with eager's f64, rounded once: eager's narrow types keep fewer digits."""

    def reference(name: str) -> Any:
        function = getattr(torch.ops.aten, name)

        def rounded(x: torch.Tensor) -> torch.Tensor:
            to = x.dtype if x.dtype.is_floating_point else torch.float32
            result: torch.Tensor = function(x.to(to).double()).to(to)
            return result

        return rounded

    for name, (low, high) in SPECIAL_FUNCTIONS:
        expected = reference(name)
        for dtype in FLOATS:
            for shape in SHAPES:
                x = T(shape, dtype, low, high)
                yield Row(f"aten::{name}.out", (x,), scale=4, reference=expected)
            for shape, order in LAYOUTS:
                x = T(shape, dtype, low, high, order=order)
                yield Row(f"aten::{name}.out", (x,), scale=4, reference=expected)
        for dtype in INTS:
            x = T((3, 5), dtype, max(low, 0), high)
            yield Row(f"aten::{name}.out", (x,), scale=4, reference=expected)


def rows() -> Iterator[Row]:
    yield from of_one_tensor()
    yield from of_two_tensors()
    yield from of_a_tensor_and_numbers()
    yield from with_modes()
    yield from of_three_tensors()
    yield from of_complex_numbers()
    yield from of_special_functions()
