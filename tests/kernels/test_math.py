"""The f32 functions of the micro-kernels:

error against f64, specials, and the same bits for every instruction set.
"""

from __future__ import annotations

import ctypes
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from op_driver import Out, library, run_op

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


def pointer(a: np.ndarray) -> ctypes._Pointer[ctypes.c_float]:
    return a.ctypes.data_as(FLOATS)


def test_every_instruction_set_gives_the_same_bits() -> None:
    lib = library()
    lib.etd_micro_name.restype = ctypes.c_char_p
    lib.etd_micro_name.argtypes = [ctypes.c_size_t]
    lib.etd_micro_run.argtypes = [
        ctypes.c_size_t, ctypes.c_int, FLOATS, FLOATS, FLOATS, ctypes.c_size_t, FLOATS,
    ]  # fmt: skip
    a = sample_floats(4001)
    b = np.roll(a, 17).copy()
    k = np.array([-0.5, 0.75, 1.25, 0.0], dtype=np.float32)
    index = 0
    while (name := lib.etd_micro_name(index)) is not None:
        expected = np.empty_like(a)
        lib.etd_micro_run(index, 0, pointer(expected), pointer(a), pointer(b), a.size, pointer(k))
        for isa in range(1, lib.etd_best_isa() + 1):
            got = np.empty_like(a)
            lib.etd_micro_run(index, isa, pointer(got), pointer(a), pointer(b), a.size, pointer(k))
            same = (got.view(np.uint32) == expected.view(np.uint32)) | (
                np.isnan(got) & np.isnan(expected)
            )
            assert same.all(), (name, isa, a[~same][:3], b[~same][:3])
            in_place = a.copy()
            lib.etd_micro_run(
                index, isa, pointer(in_place), pointer(in_place), pointer(b), a.size, pointer(k)
            )
            assert np.array_equal(in_place, got, equal_nan=True), (name, isa, "in place")
        index += 1
    assert index > 40


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
    np.testing.assert_allclose(expected[0], wide.sum(), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(expected[1], ((wide - 0.25) ** 2).sum(), rtol=1e-5)
    assert expected[2] == x.max() and expected[3] == x.min()
    for isa in range(1, lib.etd_best_isa() + 1):
        got = np.empty_like(expected)
        lib.etd_micro_rows(isa, pointer(x), n, pointer(got), pointer(got[4:]))
        assert np.array_equal(got.view(np.uint32), expected.view(np.uint32)), isa
