"""Special functions and the operators on parts of numbers against eager torch in f64: types,
layouts, shapes, poles, infinities, NaN, integers at their limits, and what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from support.element_samples import REAL, laid_out
from support.op_driver import OpError, Out, check_op, run_op
from support.tolerance import F64_ZETA, assert_near

A = torch.ops.aten
INF, NAN = math.inf, math.nan
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, -2.5, 30.0, -30.0, INF, -INF, NAN]


def spread(low: float, high: float, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    if dtype == torch.bool:
        return x > (low + high) / 2
    return (x.clamp(min=0) if dtype == torch.uint8 else x).to(dtype)


def exact(op: Any, *args: Any) -> torch.Tensor:
    """Eager's result in f64, rounded once to what eager would return."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    common = torch.result_type(*tensors) if len(tensors) == 2 else tensors[0].dtype
    common = common if common.is_floating_point else torch.float32
    wide = [a.to(common).double() if isinstance(a, torch.Tensor) else a for a in args]
    result: torch.Tensor = op.overloadpacket(*wide).to(common)
    return result


# operator, range of the operand
UNARY: list[tuple[Any, tuple[float, float]]] = [
    (A.digamma.out, (-20, 20)),
    (A.erfc.out, (-6, 6)),
    (A.erfinv.out, (-1, 1)),
    (A.i0.out, (-20, 20)),
    (A.lgamma.out, (-20, 40)),
    (A.special_erfcx.out, (-4, 40)),
    (A.special_i0e.out, (-40, 40)),
    (A.special_i1.out, (-20, 20)),
    (A.special_i1e.out, (-40, 40)),
    (A.special_log_ndtr.out, (-20, 8)),
    (A.special_ndtri.out, (0, 1)),
]


@pytest.mark.parametrize(("op", "bounds"), UNARY, ids=lambda v: str(v) if callable(v) else "")
def test_a_function_of_one_number_equals_its_f64_value(
    op: Any, bounds: tuple[float, float]
) -> None:
    for dtype in REAL:
        x = spread(*bounds, (3, 5, 7), dtype)
        check_op(op, x, expected=exact(op, x), scale=2)
    for dtype in FLOATS:
        x = torch.tensor(SPECIAL, dtype=dtype)
        check_op(op, x, expected=exact(op, x), scale=2)
    for shape in ((), (2, 0, 3), (20_001,)):
        x = spread(*bounds, shape, torch.float32)
        check_op(op, x, expected=exact(op, x), scale=2)
    x = laid_out(spread(*bounds, (2, 3, 4, 5), torch.float32), [0, 2, 3, 1])
    check_op(op, x, expected=exact(op, x), out_order=[0, 1, 2, 3])


# erfc computes in f32, as elementary functions do: test_math.py measures them.
SINGLE = [row for row in UNARY if row[0] is not A.erfc.out]


@pytest.mark.parametrize(("op", "bounds"), SINGLE, ids=lambda v: str(v) if callable(v) else "")
def test_f32_errs_by_few_units_in_the_last_place(op: Any, bounds: tuple[float, float]) -> None:
    x = spread(*bounds, (20_000,), torch.float32)
    (y,) = run_op(f"{op._schema.name}.out", x, out=[Out(torch.float32, (20_000,))])
    want = op.overloadpacket(x.double())
    rounded = want.float()
    units = (y.double() - want).abs() / (
        torch.nextafter(rounded.abs(), torch.tensor(INF)) - rounded.abs()
    )
    # Near a zero of the function its own terms err; one in 10^11 of them is allowed.
    off = (units > 1.0) & ((y.double() - want).abs() > 1e-10)
    assert not off.any(), (x[off][:3], y[off][:3], want[off][:3])


def normal_log(x: Any) -> Any:
    tail = mpmath.erfc(abs(x) / mpmath.sqrt(2)) / 2
    return mpmath.log(tail) if x < 0 else mpmath.log1p(-tail)


def scaled_bessel(order: int) -> Callable[[Any], Any]:
    return lambda x: mpmath.besseli(order, x) * mpmath.exp(-abs(x))


# operator, exact function, ranges of the operand, units in the last place of f64. Near a zero of
# the function, which ranges leave out, its own terms err by more units.
WIDE: list[tuple[str, Callable[[Any], Any], list[tuple[float, float]], float]] = [
    ("erfc", mpmath.erfc, [(-6, 6), (1, 27.2)], 2.5),
    ("special_erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [(-26, 5), (5, 1e9)], 2.5),
    ("erfinv", mpmath.erfinv, [(-0.99, 0.99), (0, 1e-3)], 2.5),
    ("special_log_ndtr", normal_log, [(-8, 4), (-1e9, 0), (4, 38)], 2.5),
    ("lgamma", mpmath.loggamma, [(0, 0.5), (1.7, 60)], 3.0),
    ("digamma", mpmath.digamma, [(0, 0.3), (5, 60)], 6.0),
    ("i0", lambda x: mpmath.besseli(0, x), [(-7, 7), (8, 700)], 6.0),
    ("special_i0e", scaled_bessel(0), [(-7, 7), (8, 700)], 6.0),
    ("special_i1", lambda x: mpmath.besseli(1, x), [(-6, 6), (8, 700)], 8.0),
    ("special_i1e", scaled_bessel(1), [(-6, 6), (8, 700)], 8.0),
]


@pytest.mark.parametrize(("name", "function", "ranges", "most"), WIDE, ids=lambda v: str(v)[:16])
def test_f64_errs_by_few_units_in_the_last_place(
    name: str, function: Callable[[Any], Any], ranges: list[tuple[float, float]], most: float
) -> None:
    x = torch.cat([spread(low, high, (200,), torch.float64) for low, high in ranges])
    (y,) = run_op(f"aten::{name}.out", x, out=[Out(torch.float64, tuple(x.shape))])
    with mpmath.workprec(120):
        for operand, found in zip(x.tolist(), y.tolist(), strict=True):
            want = function(mpmath.mpf(operand))
            unit = float(np.spacing(abs(float(want))))
            assert abs(found - want) <= most * unit, (operand, found, float(want))


def test_the_f64_tail_of_erfc_fades_through_denormal_numbers() -> None:
    x = torch.linspace(26.6, 27.4, 400, dtype=torch.float64)
    (y,) = run_op("aten::erfc.out", x, out=[Out(torch.float64, (400,))])
    with mpmath.workprec(120):
        for operand, found in zip(x.tolist(), y.tolist(), strict=True):
            assert abs(found - mpmath.erfc(mpmath.mpf(operand))) <= 2 * 2.0**-1074, operand
    assert (y > 0).any() and y[-1] == 0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
def test_polygamma_of_every_order_equals_its_f64_value(n: int) -> None:
    for dtype in FLOATS:
        x = spread(0.1, 12, (3, 5), dtype)
        check_op(A.polygamma.out, n, x, expected=exact(A.polygamma.out, n, x), scale=2)
    check_op(A.polygamma.out, n, torch.tensor(SPECIAL[2:10:2], dtype=torch.float64))
    check_op(A.polygamma.out, n, torch.arange(1, 9))


def test_incomplete_gamma_functions_equal_their_f64_values() -> None:
    a, x = spread(0, 30, (40, 1), torch.float64), spread(0, 50, (30,), torch.float64)
    ends = torch.tensor([0.0, 0.5, 1.0, 7.0, -1.0, INF, NAN], dtype=torch.float64)
    for op, dtype in itertools.product((A.igamma.out, A.igammac.out), FLOATS):
        left, right = a.to(dtype), x.to(dtype)
        check_op(op, left, right, expected=exact(op, left, right), scale=2)
        left, right = ends.to(dtype)[:, None], ends.to(dtype)
        check_op(op, left, right, expected=exact(op, left, right), scale=2)
    big = torch.tensor([150.0, 900.0, 5000.0], dtype=torch.float64)
    check_op(A.igamma.out, big, big * 1.01)
    check_op(A.igammac.out, big, big * 0.99)


def test_great_arguments_end_soon() -> None:
    s = torch.tensor([2.0, 3.0, 2.0, 3.0], dtype=torch.float64)
    q = torch.tensor([-5000.25, -4999.75, -1e15 + 0.5, -1e15 + 0.5], dtype=torch.float64)
    (found,) = run_op("aten::special_zeta.out", s, q, out=[Out(torch.float64, (4,))])
    near = torch.special.zeta(s[:2], q[:2])
    far = torch.tensor([math.pi**2, 0.0], dtype=torch.float64)  # the sums to both sides
    assert_near(found, torch.cat([near, far]), F64_ZETA)
    great = torch.tensor([9.3e18, 9.3e18, 1e300], dtype=torch.float64)
    for name in ("igamma", "igammac"):
        (found,) = run_op(f"aten::{name}.out", great, great, out=[Out(torch.float64, (3,))])
        assert ((found >= 0) & (found <= 1)).all()


def test_zeta_equals_its_f64_value() -> None:
    s, q = spread(1, 30, (40, 1), torch.float64), spread(0, 20, (30,), torch.float64)
    for dtype in (torch.float32, torch.float64):
        left, right = s.to(dtype), q.to(dtype)
        want = exact(A.special_zeta.out, left, right)
        check_op(A.special_zeta.out, left, right, expected=want, scale=2)
    whole = torch.arange(0.0, 6.0, dtype=torch.float64)[:, None]
    shifts = torch.tensor([-2.5, -1.0, -0.5, 0.0, 2.0], dtype=torch.float64)
    check_op(A.special_zeta.out, whole, shifts)
    not_finite = torch.tensor([[math.nan], [math.inf], [2.0]], dtype=torch.float64)
    ends = torch.tensor([-math.inf, -1.0, -0.0, -2.5, 1.0, 2.0, math.inf], dtype=torch.float64)
    check_op(A.special_zeta.out, not_finite, ends)
    check_op(A.special_zeta.out, not_finite.float(), ends.float())
    check_op(A.special_zeta.other_scalar_out, s.float(), 2.5, scale=2)
    check_op(A.special_zeta.self_scalar_out, 3, q.float(), scale=2)
    check_op(A.special_zeta.out, torch.arange(2, 5), torch.arange(1, 4), scale=2)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 4.0), (torch.float32, 0.6)], ids=str)
def test_zeta_of_fractional_exponents_errs_by_few_units(dtype: torch.dtype, most: float) -> None:
    s = torch.cat([spread(1.001, 3, (20,), dtype), spread(3, 45, (20,), dtype)])
    q = torch.cat([spread(0.05, 4, (10,), dtype), spread(4, 30, (10,), dtype)]).repeat(2)
    if dtype == torch.float32:
        q[20:] = q[20:] % 4 + 0.25  # otherwise most sums vanish
    (y,) = run_op("aten::special_zeta.out", s, q, out=[Out(dtype, (40,))])
    with mpmath.workprec(400):
        for exponent, shift, found in zip(s.tolist(), q.tolist(), y.numpy(), strict=True):
            want = mpmath.zeta(mpmath.mpf(exponent), mpmath.mpf(shift))
            unit = float(np.spacing(found.dtype.type(want)))
            assert abs(mpmath.mpf(float(found)) - want) <= most * unit, (exponent, shift, found)


# ---- parts of numbers


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_signs_are_eagers(dtype: torch.dtype) -> None:
    values = torch.tensor(SPECIAL, dtype=torch.float64)
    if not dtype.is_floating_point:
        values = torch.tensor([0.0, 1.0, 2.0, 100.0, -1.0, -100.0])[
            : 4 if dtype.itemsize == 1 else 6
        ]
    x = values.to(dtype)
    x = x if not dtype.is_floating_point else torch.cat([x, -x])  # a NaN of either sign
    check_op(A.signbit.out, x)
    check_op(A.signbit.out, x.reshape(1, -1, 1))
    for other in (torch.float16, torch.float32, torch.float64, torch.int32):
        check_op(A.copysign.out, x[:, None], torch.tensor([1, -1, 0]).to(other))
    for number in (2, -2.5, -0.0):
        check_op(A.copysign.Scalar_out, x, number)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fractions_neighbours_and_lengths_are_eagers(dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).smallest_normal
    values = [*SPECIAL, tiny, -tiny, tiny / 4, torch.finfo(dtype).max, 3.25, -1e-3]
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    check_op(A.frexp.Tensor_out, x)
    check_op(A.frexp.Tensor_out, spread(-9, 9, (3, 0, 2), dtype))
    check_op(A.frexp.Tensor_out, laid_out(spread(-9, 9, (2, 3, 4), dtype), [2, 0, 1]))
    check_op(A.nextafter.out, x[:, None], x)
    wanted = exact(A.hypot.out, x[:, None].expand(-1, x.numel()), x.expand(x.numel(), -1))
    check_op(A.hypot.out, x[:, None], x, expected=wanted)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(INTS, INTS)), ids=str)
def test_common_divisors_and_multiples_are_eagers(a: torch.dtype, b: torch.dtype) -> None:
    x, y = spread(-60, 60, (4, 1, 5), a), spread(-30, 30, (3, 5), b)
    check_op(A.gcd.out, x, y)
    check_op(A.lcm.out, x, y)
    least = torch.tensor([torch.iinfo(a).min, 0, 12], dtype=a)
    for other in (0, 5, 12, torch.iinfo(a).max):
        check_op(A.gcd.out, least, torch.full((3,), other, dtype=a))


def test_wrong_arguments_are_refused_with_words() -> None:
    whole = torch.arange(3)
    with pytest.raises(OpError, match="not defined for dtype i64"):
        run_op("aten::hypot.out", whole, whole, out=[Out(torch.int64, (3,))])
    with pytest.raises(OpError, match="not defined for dtype i64"):
        run_op("aten::igamma.out", whole, whole, out=[Out(torch.int64, (3,))])
    with pytest.raises(OpError, match="not defined for dtype f32"):
        run_op("aten::gcd.out", torch.ones(3), torch.ones(3), out=[Out(torch.float32, (3,))])
    with pytest.raises(OpError, match="exponents of i32, got f32 and i64"):
        outs = [Out(torch.float32, (3,)), Out(torch.int64, (3,))]
        run_op("aten::frexp.Tensor_out", torch.ones(3), out=outs)
    with pytest.raises(OpError, match="n: expected 0 to 100000, got -1"):
        run_op("aten::polygamma.out", -1, torch.ones(3), out=[Out(torch.float32, (3,))])
    with pytest.raises(OpError, match="do not broadcast"):
        out = [Out(torch.float16, (3,))]
        run_op("aten::nextafter.out", torch.ones(3).half(), torch.ones(2).half(), out=out)
