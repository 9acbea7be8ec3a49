"""Elementwise operators against eager torch: tables of (operator, dtypes), each run over pairs of
dtypes, broadcasting,
layouts, 0-d and empty tensors, numbers, and special values. A new operator adds a row."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from op_driver import OpError, Out, check_op, run_op

A = torch.ops.aten
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, torch.float64]
REAL = INTS + HALVES + FLOATS
ALL = [*REAL, torch.bool]
INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1, -1, INF, -INF, NAN, 3e38, -3e38, 2, -2, 3, -3, 0.5, -0.5, 1.5, -2.5]


def sample(
    shape: tuple[int, ...], dtype: torch.dtype, low: float = -20, high: float = 20
) -> torch.Tensor:
    """Random elements in [low, high); unsigned types start at 0 or above."""
    generator = torch.Generator().manual_seed(hash((shape, str(dtype), low, high)) % 2**31)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        low = max(low, 0) if dtype == torch.uint8 else low
        return torch.randint(math.ceil(low), math.ceil(high), shape, generator=generator).to(dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(
        dtype
    )


def nonzero(t: torch.Tensor) -> torch.Tensor:
    return torch.where(t == 0, torch.ones_like(t), t)


# operator, dtypes, range of the operand
UNARY: list[tuple[Any, list[torch.dtype], tuple[float, float]]] = [
    (A.abs.out, REAL, (-20, 20)),
    (A.neg.out, REAL, (-20, 20)),
    (A.ceil.out, REAL, (-20, 20)),
    (A.floor.out, REAL, (-20, 20)),
    (A.round.out, REAL, (-20, 20)),
    (A.trunc.out, REAL, (-20, 20)),
    (A.sign.out, ALL, (-20, 20)),
    (A.relu.out, REAL, (-20, 20)),
    (A.bitwise_not.out, [*INTS, torch.bool], (-20, 20)),
    (A.logical_not.out, ALL, (-2, 2)),
    (A.isnan.out, ALL, (-20, 20)),
    (A.isinf.out, ALL, (-20, 20)),
    (A.acos.out, ALL, (-1, 1)),
    (A.acosh.out, ALL, (1, 30)),
    (A.asin.out, ALL, (-1, 1)),
    (A.asinh.out, ALL, (-20, 20)),
    (A.atan.out, ALL, (-20, 20)),
    (A.atanh.out, ALL, (-1, 1)),
    (A.cos.out, ALL, (-20, 20)),
    (A.cosh.out, ALL, (-10, 10)),
    (A.erf.out, ALL, (-5, 5)),
    (A.exp.out, ALL, (-10, 10)),
    (A.expm1.out, ALL, (-10, 10)),
    (A.log.out, ALL, (0, 50)),
    (A.log10.out, ALL, (0, 50)),
    (A.log1p.out, ALL, (-1, 50)),
    (A.log2.out, ALL, (0, 50)),
    (A.reciprocal.out, ALL, (-20, 20)),
    (A.rsqrt.out, ALL, (0, 30)),
    (A.sigmoid.out, ALL, (-10, 10)),
    (A.sin.out, ALL, (-20, 20)),
    (A.sinh.out, ALL, (-10, 10)),
    (A.sqrt.out, ALL, (0, 30)),
    (A.tan.out, ALL, (-10, 10)),
    (A.tanh.out, ALL, (-5, 5)),
    (A.logit.out, FLOATS, (0, 1)),
    (A.gelu.out, HALVES + FLOATS, (-6, 6)),
    (A.elu.out, HALVES + FLOATS, (-6, 6)),
    (A.leaky_relu.out, HALVES + FLOATS, (-6, 6)),
]


@pytest.mark.parametrize(
    ("op", "dtypes", "bounds"), UNARY, ids=lambda v: str(v) if callable(v) else ""
)
def test_operator_of_one_tensor(
    op: Any, dtypes: list[torch.dtype], bounds: tuple[float, float]
) -> None:
    for dtype in dtypes:
        check_op(op, sample((3, 5, 7), dtype, *bounds), scale=2)
    dtype = torch.float32 if torch.float32 in dtypes else torch.int32
    for shape in ((), (2, 0, 3), (70_001,)):
        check_op(op, sample(shape, dtype, *bounds), scale=2)
    nhwc = sample((2, 3, 4, 5), dtype, *bounds).to(memory_format=torch.channels_last)
    check_op(op, nhwc, scale=2)
    check_op(op, nhwc, out_order=[0, 1, 2, 3], scale=2)
    if (
        dtype == torch.float32 and op is not A.gelu.out
    ):  # eager's gelu of infinity depends on the tensor's length
        check_op(op, torch.tensor(SPECIAL), scale=2)


# operator, dtypes, range of both operands, whether zero divides
BINARY: list[tuple[Any, list[torch.dtype], tuple[float, float], bool]] = [
    (A.add.out, ALL, (-20, 20), True),
    (A.sub.out, REAL, (-20, 20), True),
    (A.mul.out, ALL, (-20, 20), True),
    (A.div.out, ALL, (-20, 20), True),
    (A.floor_divide.out, REAL, (-20, 20), False),
    (A.fmod.Tensor_out, REAL, (-20, 20), False),
    (A.remainder.Tensor_out, REAL, (-20, 20), False),
    (A.maximum.out, ALL, (-20, 20), True),
    (A.minimum.out, ALL, (-20, 20), True),
    (A.atan2.out, ALL, (-20, 20), True),
    (A.pow.Tensor_Tensor_out, REAL, (0, 4), True),
    (A.logical_and.out, ALL, (-2, 2), True),
    (A.logical_or.out, ALL, (-2, 2), True),
    (A.logical_xor.out, ALL, (-2, 2), True),
    (A.bitwise_and.Tensor_out, [*INTS, torch.bool], (-20, 20), True),
    (A.bitwise_or.Tensor_out, [*INTS, torch.bool], (-20, 20), True),
    (A.bitwise_xor.Tensor_out, [*INTS, torch.bool], (-20, 20), True),
    (A.bitwise_left_shift.Tensor_out, INTS, (-3, 70), True),
    (A.bitwise_right_shift.Tensor_out, INTS, (-3, 70), True),
    (A.eq.Tensor_out, ALL, (-3, 3), True),
    (A.ne.Tensor_out, ALL, (-3, 3), True),
    (A.lt.Tensor_out, ALL, (-3, 3), True),
    (A.le.Tensor_out, ALL, (-3, 3), True),
    (A.gt.Tensor_out, ALL, (-3, 3), True),
    (A.ge.Tensor_out, ALL, (-3, 3), True),
]


@pytest.mark.parametrize(
    ("op", "dtypes", "bounds", "zero"), BINARY, ids=lambda v: str(v) if callable(v) else ""
)
def test_operator_of_two_tensors(
    op: Any, dtypes: list[torch.dtype], bounds: tuple[float, float], zero: bool
) -> None:
    fix = (lambda t: t) if zero else nonzero
    for a, b in itertools.product(dtypes, dtypes):
        check_op(op, sample((3, 5, 7), a, *bounds), fix(sample((3, 5, 7), b, *bounds)), scale=4)
    dtype = torch.float32 if torch.float32 in dtypes else torch.int32
    shapes = [
        ((4, 1, 7), (5, 1)),
        ((7,), (2, 5, 7)),
        ((), (2, 5, 7)),
        ((2, 5, 7), ()),
        ((), ()),
        ((2, 0, 3), (1, 1, 3)),
        ((50, 3000), (3000,)),
        ((150, 1000), (150, 1000)),
    ]
    for left, right in shapes:
        check_op(op, sample(left, dtype, 1, 5), sample(right, dtype, 1, 5), scale=4)
    x, y = sample((2, 3, 4, 5), dtype, 1, 5), sample((2, 3, 4, 5), dtype, 2, 5)
    nhwc = x.to(memory_format=torch.channels_last)
    check_op(op, nhwc, y, scale=4)
    check_op(op, nhwc, y, out_order=[2, 0, 3, 1], scale=4)
    check_op(op, nhwc, y.to(memory_format=torch.channels_last), scale=4)


@pytest.mark.parametrize(
    "op",
    [
        A.add.out,
        A.mul.out,
        A.div.out,
        A.maximum.out,
        A.minimum.out,
        A.pow.Tensor_Tensor_out,
        A.atan2.out,
        A.remainder.Tensor_out,
        A.fmod.Tensor_out,
        A.floor_divide.out,
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_pairwise(op: Any, dtype: torch.dtype) -> None:
    x = torch.tensor(SPECIAL, dtype=dtype)
    # Remainders are exact in f64, while eager's f32 ones are not when the quotient is large.
    exact = op.overloadpacket(x.double()[:, None], x.double()[None, :]).to(dtype)
    remainders = op in (A.remainder.Tensor_out, A.fmod.Tensor_out)
    check_op(op, x[:, None], x[None, :], expected=exact if remainders else None)


# operator, dtypes, the arguments after the tensor
WITH_NUMBERS: list[tuple[Any, list[torch.dtype], list[tuple[Any, ...]]]] = [
    (A.add.Scalar_out, REAL, [(3,), (2.5,), (3, 2), (2.5, 2)]),
    (A.sub.Scalar_out, REAL, [(3,), (2.5,), (3, 2), (2.5, 2)]),
    (A.rsub.Scalar_out, REAL, [(3,), (2.5,), (3, 2), (2.5, 2)]),
    (A.mul.Scalar_out, REAL, [(3,), (2.5,)]),
    (A.div.Scalar_out, REAL, [(3,), (2.5,)]),
    (A.fmod.Scalar_out, REAL, [(3,), (2.5,)]),
    (A.remainder.Scalar_out, REAL, [(3,), (2.5,)]),
    (
        A.pow.Tensor_Scalar_out,
        REAL,
        [(0,), (1,), (2,), (3,), (0.5,), (1.7,), (-0.5,), (-1.0,), (-2.0,)],
    ),
    (A.bitwise_and.Scalar_out, [*INTS, torch.bool], [(5,)]),
    (A.bitwise_or.Scalar_out, [*INTS, torch.bool], [(5,)]),
    (A.bitwise_xor.Scalar_out, [*INTS, torch.bool], [(5,)]),
    (A.bitwise_left_shift.Tensor_Scalar_out, INTS, [(3,)]),
    (A.bitwise_right_shift.Tensor_Scalar_out, INTS, [(3,)]),
    (A.eq.Scalar_out, ALL, [(1,), (0.1,), (True,)]),
    (A.ne.Scalar_out, ALL, [(1,), (0.1,), (True,)]),
    (A.lt.Scalar_out, ALL, [(1,), (0.1,), (True,)]),
    (A.le.Scalar_out, ALL, [(1,), (0.1,), (True,)]),
    (A.gt.Scalar_out, ALL, [(1,), (0.1,), (True,)]),
    (A.ge.Scalar_out, ALL, [(1,), (0.1,), (True,)]),
    (A.clamp.out, REAL, [(2, 8), (None, 8), (3, None), (2.5, 6.5), (9, 2)]),
    (A.clamp.out, FLOATS, [(NAN, 2), (0, NAN)]),
    (A.hardtanh.out, REAL, [(0, 6)]),
    (A.elu.out, HALVES + FLOATS, [(1.5, 1.2, 0.7)]),
    (A.leaky_relu.out, HALVES + FLOATS, [(0.2,)]),
    (A.logit.out, FLOATS, [(1e-3,)]),
    (A.glu.out, HALVES + FLOATS, [(0,), (1,), (-1,)]),
]


@pytest.mark.parametrize(
    ("op", "dtypes", "rows"), WITH_NUMBERS, ids=lambda v: str(v) if callable(v) else ""
)
def test_operator_of_a_tensor_and_numbers(
    op: Any, dtypes: list[torch.dtype], rows: list[tuple[Any, ...]]
) -> None:
    for dtype, row in itertools.product(dtypes, rows):
        x = nonzero(sample((4, 6, 8), dtype, 0, 9))
        if dtype.is_floating_point and isinstance(row[0], (int, float)):
            x[0, 0] = row[0]
        check_op(op, x, *row, scale=4)


@pytest.mark.parametrize("dtype", REAL)
def test_remaining_overloads(dtype: torch.dtype) -> None:
    x, y = sample((30, 5), dtype), nonzero(sample((30, 5), dtype))
    check_op(A.pow.Scalar_out, 2, sample((3, 5), dtype, 0, 4))
    check_op(A.pow.Scalar_out, 2.5, sample((3, 5), dtype, 0, 4))
    if dtype not in HALVES:  # eager rounds halves between the operations
        check_op(A.add.out, x, y, alpha=3)
        check_op(A.sub.out, x, y, alpha=3)
        for mode in (None, "floor", "trunc"):
            check_op(A.div.out_mode, x, y, rounding_mode=mode, scale=4)
            check_op(A.div.Scalar_mode_out, x, 3, rounding_mode=mode, scale=4)
    if dtype.is_floating_point:
        check_op(A.gelu.out, sample((3, 5, 7), dtype, -6, 6), approximate="tanh", scale=2)
    check_op(A.clamp.Tensor_out, x, sample((5,), dtype, 0, 3), None)
    check_op(A.clamp.Tensor_out, x, None, sample((5,), dtype, 0, 3))


@pytest.mark.parametrize("dtype", HALVES)
def test_operands_of_halves_become_halves_first(dtype: torch.dtype) -> None:
    x, third = sample((30, 5), dtype), 1 / 3  # a number that a product and a quotient take whole
    for op in (A.add.Scalar_out, A.sub.Scalar_out, A.mul.Scalar_out, A.div.Scalar_out,
               A.fmod.Scalar_out, A.remainder.Scalar_out, A.lt.Scalar_out):  # fmt: skip
        check_op(op, x, third)
    for op in (A.add.out, A.sub.out, A.mul.out, A.div.out, A.fmod.Tensor_out, A.eq.Tensor_out):
        check_op(op, x, torch.tensor(third))
        check_op(op, torch.tensor(third), nonzero(x))
        check_op(op, x, torch.tensor([2049, 4097, 513, 3, 65535], dtype=torch.int32))


@pytest.mark.parametrize("a", ALL)
@pytest.mark.parametrize("b", ALL)
def test_where_and_clamp_promote(a: torch.dtype, b: torch.dtype) -> None:
    check_op(
        A.where.self_out, sample((3, 5, 7), torch.bool), sample((3, 5, 7), a), sample((3, 5, 7), b)
    )
    check_op(A.where.self_out, sample((3, 5, 7), torch.bool), sample((5, 7), a), sample((), b))
    if torch.bool not in (a, b):
        check_op(
            A.clamp.Tensor_out, sample((3, 5, 7), a), sample((5, 7), b, 0, 5), sample((7,), b, 5, 9)
        )


@pytest.mark.parametrize("dtype", ALL)
def test_masked_fill(dtype: torch.dtype) -> None:
    check_op(A.masked_fill.Scalar_out, sample((3, 5, 7), dtype), sample((5, 7), torch.bool), 1)
    check_op(A.masked_fill.Scalar_out, sample((5, 7), dtype), sample((3, 1, 7), torch.bool), True)
    check_op(
        A.masked_fill.Tensor_out, sample((5, 7), dtype), sample((5, 7), torch.bool), torch.tensor(1)
    )


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_arithmetic(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(3, 4, dtype=dtype, generator=generator)
    b = torch.randn(4, dtype=dtype, generator=generator)
    for op in (A.add.out, A.sub.out, A.mul.out, A.div.out):
        check_op(op, a, b)
        check_op(op, a, torch.randn(4, generator=generator))
    check_op(A.sub.out, a, b, alpha=2)
    check_op(A.mul.Scalar_out, a, 2.5)
    check_op(A.abs.out, a)
    by_nought = torch.tensor([1 + 2j, -1, 0, complex("nan+1j"), complex("inf")], dtype=dtype)
    check_op(A.div.out, by_nought, torch.zeros(5, dtype=dtype))


def test_integers_wrap() -> None:
    limits = torch.tensor([-(2**63), 2**63 - 1, -1, 0, 1, 7])
    for op in (A.add.out, A.sub.out, A.mul.out):
        check_op(op, limits[:, None], limits[None, :])
    check_op(A.neg.out, limits)
    check_op(A.abs.out, limits)


I32, F32 = torch.int32, torch.float32
REFUSED: list[tuple[str, tuple[Any, ...], Out, str]] = [
    (
        "aten::div.out_mode",
        (torch.ones(2, dtype=I32), torch.tensor([1, 0], dtype=I32), "floor"),
        Out(I32, (2,)),
        "integer division by zero",
    ),
    (
        "aten::remainder.Scalar_out",
        (torch.ones(2, dtype=I32), 0),
        Out(I32, (2,)),
        "integer division by zero",
    ),
    (
        "aten::div.out_mode",
        (torch.ones(2), torch.ones(2), "up"),
        Out(F32, (2,)),
        'needs "floor", "trunc" or None',
    ),
    (
        "aten::add.out",
        (torch.ones(2, 3), torch.ones(2, 4), 1),
        Out(F32, (2, 3)),
        r"\[2, 3\] and \[2, 4\] do not broadcast",
    ),
    (
        "aten::add.out",
        (torch.ones(2), torch.ones(2), 1),
        Out(I32, (2,)),
        "i32 cannot receive results of dtype f32",
    ),
    ("aten::add.out", (torch.ones(2), None, 1), Out(F32, (2,)), "argument 1: found None"),
    (
        "aten::add.out",
        (torch.ones(2).int(), torch.ones(2).int(), 1.5),
        Out(I32, (2,)),
        "integer operands cannot use",
    ),
    (
        "aten::add.out",
        (torch.ones(3), torch.ones(3), 1),
        Out(F32, (2,), dynamic=False),
        "static shape is 2, asked for 3",
    ),
    (
        "aten::add.out",
        (torch.ones(3), torch.ones(3), 1),
        Out(F32, (2,)),
        "more than the 2 elements",
    ),
    (
        "aten::sub.out",
        (torch.ones(2).bool(), torch.ones(2).bool(), 1),
        Out(F32, (2,)),
        "not defined for dtype b8",
    ),
    (
        "aten::pow.Tensor_Scalar_out",
        (torch.ones(2).int(), -1),
        Out(I32, (2,)),
        "negative integer powers",
    ),
    ("aten::gelu.out", (torch.ones(2), "exact"), Out(F32, (2,)), 'needs "none" or "tanh"'),
    ("aten::glu.out", (torch.ones(3), 0), Out(F32, (1,)), "even to be halved"),
    (
        "aten::where.self_out",
        (torch.ones(2), torch.ones(2), torch.ones(2)),
        Out(F32, (2,)),
        "condition: dtype f32",
    ),
]


@pytest.mark.parametrize(("name", "args", "out", "words"), REFUSED)
@pytest.mark.parametrize("prepared", [False, True])
def test_refused_with_words(
    name: str, args: tuple[Any, ...], out: Out, words: str, prepared: bool
) -> None:
    with pytest.raises(OpError, match=words):
        run_op(name, *args, out=[out], prepared=prepared)
