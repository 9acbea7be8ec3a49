"""The functions of the element-wise micro-kernels: error against wider types, specials, exact
remainders and conversions, and the same bits for every instruction set."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.op_driver import Out, isa_limit, isas, library, run_op
from support.tolerance import F32_SUM, F32_SUM_OF_SQUARES

FUNCTIONS = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
MAX_ULP = 2.0
FLOATS = ctypes.POINTER(ctypes.c_float)


def sample_floats(n: int) -> np.ndarray:
    """Floats of every exponent and sign, and many of everyday size."""
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 2**32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
    everyday = np.concatenate(
        [rng.normal(0, 3, n), rng.uniform(-1, 1, n), rng.uniform(-100, 100, n)]
    )
    return np.concatenate([anything[np.isfinite(anything)], everyday.astype(np.float32)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_at_most_two_units_in_the_last_place(name: str) -> None:
    x = torch.from_numpy(sample_floats(100_000))
    (y,) = run_op(f"aten::{name}.out", x, out=[Out(torch.float32, tuple(x.shape))])
    exact = getattr(torch, name)(x.double())
    rounded = exact.float()
    assert torch.equal(torch.isnan(y), torch.isnan(rounded))
    assert torch.equal(torch.isinf(y), torch.isinf(rounded))
    normal = torch.isfinite(rounded) & (rounded.abs() > 1.2e-38)
    unit = torch.from_numpy(np.spacing(np.abs(rounded[normal].numpy()))).double()
    error = (y[normal].double() - exact[normal]).abs() / unit
    worst = int(error.argmax())
    assert error[worst] <= MAX_ULP, f"{name}({x[normal][worst].item()!r})"


def test_the_tail_of_erfc_fades_through_denormal_numbers() -> None:
    x = torch.linspace(9, 10.3, 50_000)
    (y,) = run_op("aten::erfc.out", x, out=[Out(torch.float32, tuple(x.shape))])
    exact = torch.erfc(x.double())
    tail = exact < 1.2e-38
    assert ((y.double() - exact)[tail].abs() <= MAX_ULP * 2.0**-149).all()
    assert (y[tail] > 0).any() and y[-1] == 0


def test_f64_error_functions_err_by_at_most_two_units() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(0, 1, 20_000), rng.uniform(-7, 7, 20_000)])
    x = np.concatenate([x, 10.0 ** rng.uniform(-320, 0, 5000), [0.0, math.inf]])
    given = torch.from_numpy(x)
    (got,) = run_op("aten::erf.out", given, out=[Out(torch.float64, tuple(given.shape))])
    exact = np.array([math.erf(a) for a in x])  # within a unit
    assert (np.abs(got.numpy() - exact) <= MAX_ULP * np.spacing(np.abs(exact))).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_an_angle_does_not_depend_on_its_neighbours(name: str) -> None:
    x = torch.from_numpy(sample_floats(2000))
    x[::7] = torch.tensor([40000.0, 1e16, math.inf, -0.0, -5e4]).repeat(len(x))[: len(x[::7])]
    (together,) = run_op(f"aten::{name}.out", x, out=[Out(torch.float32, tuple(x.shape))])
    for i in range(0, 700, 3):
        (alone,) = run_op(f"aten::{name}.out", x[i : i + 1], out=[Out(torch.float32, (1,))])
        assert torch.equal(alone.view(torch.int32), together[i : i + 1].view(torch.int32)) or (
            torch.isnan(alone).all() and torch.isnan(together[i])
        ), x[i]


def test_arc_tangents_of_two_err_by_at_most_two_units() -> None:
    y = torch.from_numpy(sample_floats(100_000))
    x = y.roll(4321)
    (got,) = run_op("aten::atan2.out", y, x, out=[Out(torch.float32, tuple(x.shape))])
    exact = torch.atan2(y.double(), x.double())
    normal = exact.abs() > 1.2e-38
    unit = torch.from_numpy(np.spacing(exact[normal].abs().float().numpy())).double()
    error = (got[normal].double() - exact[normal]).abs() / unit
    worst = int(error.argmax())
    assert error[worst] <= MAX_ULP, (y[normal][worst].item(), x[normal][worst].item())


# numpy computes these in long double; the others are computed from them.
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{name: getattr(np, "arc" + name[1:] if name[0] == "a" else name) for name in FUNCTIONS[:8]},
    **{name: getattr(np, name) for name in FUNCTIONS if hasattr(np, name)},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def sample_doubles(n: int) -> np.ndarray:
    """Numbers as of sample_floats, and angles of every size."""
    rng = np.random.default_rng(1)
    anything = rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64)
    everyday = [rng.normal(0, 3, n), rng.uniform(-1, 1, n), rng.uniform(-700, 700, n)]
    return np.concatenate([anything[np.isfinite(anything)], *everyday, [0.0, -0.0, math.inf]])


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name in EXACT])
def test_f64_error_is_at_most_two_units_in_the_last_place(name: str) -> None:
    x = sample_doubles(20_000)
    given = torch.from_numpy(x)
    (got,) = run_op(f"aten::{name}.out", given, out=[Out(torch.float64, tuple(given.shape))])
    y = got.numpy()
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        assert np.array_equal(np.isnan(y), np.isnan(rounded))
        assert np.array_equal(np.isinf(y), np.isinf(rounded))
        normal = np.isfinite(rounded) & (np.abs(rounded) > 2.3e-308)
        unit = np.spacing(np.abs(rounded[normal]))
        error = np.abs(y[normal].astype(np.longdouble) - exact[normal]) / unit
    worst = int(error.argmax())
    assert error[worst] <= MAX_ULP, f"{name}({x[normal][worst]!r})"


def test_f64_powers_err_by_at_most_two_units() -> None:
    rng = np.random.default_rng(2)
    base = np.concatenate([rng.uniform(0.5, 2, 20_000), np.exp(rng.uniform(-100, 100, 20_000))])
    power = np.concatenate([rng.uniform(-1000, 1000, 20_000), rng.uniform(-7, 7, 20_000)])
    a, b = torch.from_numpy(base), torch.from_numpy(power)
    (got,) = run_op("aten::pow.Tensor_Tensor_out", a, b, out=[Out(torch.float64, tuple(a.shape))])
    with np.errstate(all="ignore"):
        exact = base.astype(np.longdouble) ** power.astype(np.longdouble)
        rounded = exact.astype(np.float64)
        normal = np.isfinite(rounded) & (rounded > 2.3e-308)
        unit = np.spacing(rounded[normal])
        error = np.abs(got.numpy()[normal].astype(np.longdouble) - exact[normal]) / unit
    assert normal.sum() > 30_000
    assert error.max() <= MAX_ULP


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(
    "name",
    [
        "asin",
        "asinh",
        "atan",
        "atanh",
        "erf",
        "expm1",
        "log1p",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
    ],
)
def test_a_zero_keeps_its_sign(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([-0.0, 0.0], dtype=dtype)
    (y,) = run_op(f"aten::{name}.out", x, out=[Out(dtype, (2,))])
    assert y[0] == y[1] == 0
    assert torch.signbit(y).tolist() == [True, False]


def remainders(a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """ATen's definitions over libm's exact fmod; eager's vectors err for large quotients."""
    with np.errstate(all="ignore"):
        mod = np.fmod(a, b)
        wraps = (mod != 0) & ((b < 0) != (mod < 0))
        quotient = (a - mod) / b - wraps.astype(a.dtype)
        whole = np.floor(quotient)
        whole += quotient - whole > 0.5
        floored = np.where(quotient == 0, np.copysign(a.dtype.type(0), a / b), whole)
        return {
            "fmod.Tensor_out": mod,
            "remainder.Tensor_out": np.where(wraps, mod + b, mod),
            "floor_divide.out": np.where(b == 0, a / b, floored),
        }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
def test_remainders_are_exact_for_quotients_of_every_size(dtype: torch.dtype) -> None:
    values = sample_doubles(20_000) if dtype == torch.float64 else sample_floats(20_000)
    a = torch.from_numpy(values)
    near = a.roll(13) * torch.linspace(0.01, 3.0, len(a), dtype=dtype)
    for b in (a.roll(777), near, a, torch.full((1,), 0.1, dtype=dtype)):
        for name, expected in remainders(values, b.numpy()).items():
            (got,) = run_op(f"aten::{name}", a, b, out=[Out(dtype, tuple(a.shape))])
            same = (got.numpy() == expected) | (np.isnan(got.numpy()) & np.isnan(expected))
            assert same.all(), (name, a[~same][:3], b.expand_as(a)[~same][:3])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_divide_and_shift_alike_for_every_instruction_set(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(3)
    few = torch.randint(max(-9, info.min), 10, (1000,), generator=generator).to(dtype)
    wide = torch.randint(info.min, info.max, (1000,), generator=generator, dtype=dtype)
    ends = torch.tensor([info.min, info.max, info.min + 1, info.max - 1]).to(dtype).repeat(250)
    a = torch.cat([few, wide, ends, wide, ends, few])
    b = torch.cat([wide, few, few, wide.roll(1), ends.roll(1), few.roll(1)])
    divisor = torch.where(b == 0, torch.ones_like(b), b)
    for name in (
        "fmod.Tensor_out", "remainder.Tensor_out", "floor_divide.out",
        "bitwise_left_shift.Tensor_out", "bitwise_right_shift.Tensor_out",
    ):  # fmt: skip
        packet, overload = name.split(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        right = b if "shift" in name else divisor
        expected = op(a, right, out=torch.empty_like(a))
        for isa in isas():
            with isa_limit(isa):
                (got,) = run_op(f"aten::{name}", a, right, out=[Out(dtype, tuple(a.shape))])
            assert torch.equal(got, expected), (name, isa)


@pytest.mark.parametrize("bf16", [0, 1], ids=["f16", "bf16"])
def test_every_half_converts_alike_for_every_instruction_set(bf16: int) -> None:
    lib = library()
    lib.etd_micro_halves.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
        ctypes.c_int,
    ]  # fmt: skip
    x = np.arange(2**16, dtype=np.uint16)
    expected_wide, expected_back = np.empty(x.size, dtype=np.uint32), np.empty_like(x)
    for isa in range(lib.etd_best_isa() + 1):
        wide, back = np.empty_like(expected_wide), np.empty_like(x)
        lib.etd_micro_halves(isa, x.ctypes.data, wide.ctypes.data, back.ctypes.data, x.size, bf16)
        if isa == 0:
            expected_wide, expected_back = wide, back
        assert np.array_equal(wide, expected_wide)
        assert np.array_equal(back, expected_back)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
def test_floats_round_to_halves_alike_for_every_instruction_set(dtype: torch.dtype) -> None:
    x = torch.from_numpy(np.append(sample_floats(50_000), np.float32(math.inf)))
    expected = x.to(dtype)
    for isa in isas():
        with isa_limit(isa):
            (got,) = run_op("aten::_to_copy.out", x, False, None, out=[Out(dtype, tuple(x.shape))])
        assert torch.equal(got.view(torch.int16), expected.view(torch.int16)), isa


@pytest.mark.parametrize("f64", [0, 1], ids=["f32", "f64"])
def test_every_instruction_set_gives_the_same_bits(f64: int) -> None:
    lib = library()
    lib.etd_micro_name.restype = ctypes.c_char_p
    lib.etd_micro_name.argtypes = [ctypes.c_size_t]
    pointers = [ctypes.c_void_p] * 3
    lib.etd_micro_run.argtypes = [
        ctypes.c_size_t, ctypes.c_int, ctypes.c_int, *pointers, ctypes.c_size_t, ctypes.c_void_p,
    ]  # fmt: skip
    a = sample_doubles(4001) if f64 else sample_floats(4001)
    b = np.roll(a, 17).copy()
    bits = np.uint64 if f64 else np.uint32
    k = np.array([-0.5, 0.75, 1.25, 0.0], dtype=a.dtype)

    def run(index: int, isa: int, left: np.ndarray, out: np.ndarray) -> np.ndarray:
        lib.etd_micro_run(
            index, isa, f64, out.ctypes.data, left.ctypes.data, b.ctypes.data, a.size,
            k.ctypes.data,
        )  # fmt: skip
        return out

    index = 0
    while (name := lib.etd_micro_name(index)) is not None:
        expected = run(index, 0, a, np.empty_like(a))
        for isa in range(1, lib.etd_best_isa() + 1):
            got = run(index, isa, a, np.empty_like(a))
            same = (got.view(bits) == expected.view(bits)) | (np.isnan(got) & np.isnan(expected))
            assert same.all(), (name, isa, a[~same][:3], b[~same][:3])
            in_place = a.copy()
            run(index, isa, in_place, in_place)
            assert np.array_equal(in_place, got, equal_nan=True), (name, isa, "in place")
        index += 1
    assert index > 40


def pointer(a: np.ndarray) -> ctypes._Pointer[ctypes.c_float]:
    return a.ctypes.data_as(FLOATS)


@pytest.mark.parametrize(
    "n", [*range(1, 20), 31, 32, 33, 63, 64, 65, 127, 130, 511, 513, 4096, 4097, 9001]
)
def test_row_kernels_give_the_same_bits_for_every_instruction_set(n: int) -> None:
    lib = library()
    lib.etd_micro_rows.argtypes = [ctypes.c_int, FLOATS, ctypes.c_size_t, FLOATS, FLOATS]
    x = np.random.default_rng(n).normal(0, 2, n).astype(np.float32)
    expected = np.empty(4 + 2 * n, dtype=np.float32)
    lib.etd_micro_rows(0, pointer(x), n, pointer(expected), pointer(expected[4:]))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(expected[0], wide.sum(), *F32_SUM)
    np.testing.assert_allclose(expected[1], ((wide - 0.25) ** 2).sum(), *F32_SUM_OF_SQUARES)
    assert expected[2] == x.max() and expected[3] == x.min()
    for isa in range(1, lib.etd_best_isa() + 1):
        got = np.empty_like(expected)
        lib.etd_micro_rows(isa, pointer(x), n, pointer(got), pointer(got[4:]))
        assert np.array_equal(got.view(np.uint32), expected.view(np.uint32)), isa
