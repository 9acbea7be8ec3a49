"""Discrete Fourier transforms against eager torch: lengths of every kind, dimensions, layouts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, check_op, isa_limit, isas, run_op

aten = torch.ops.aten
REALS = [torch.float32, torch.float64]
COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
# Every radix, their products, primes below and above the largest radix, powers of two.
LENGTHS = [*range(1, 34), 36, 37, 60, 64, 67, 97, 100, 121, 127, 128, 210]
LONG = [256, 400, 509, 1000, 1021, 2048, 3 * 5 * 7 * 11, 4099, 2**14, 30000]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=dtype, generator=generator)


def prepared(name: str, *args: Any, like: torch.Tensor, threads: int = 1) -> torch.Tensor:
    out = [Out(like.dtype, like.shape)]
    return run_op(f"aten::{name}.out", *args, out=out, prepared=True, threads=threads)[0]


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Errors of a transform go with the size of its results, whichever they are in."""
    scale = expected.abs().max().clamp(min=1e-30) if expected.numel() > 0 else 1.0
    assert_close(found / scale, expected / scale)


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_lines_of_every_length_equal_eager(dtype: torch.dtype) -> None:
    for n in LENGTHS:
        x, z = values(3, n, dtype=dtype), values(3, n, dtype=COMPLEX[dtype])
        half = torch.fft.rfft(x)
        for forward in (True, False):
            check_op(aten._fft_c2c.out, z, [1], 0, forward, scale=8)
        check_op(aten._fft_r2c.out, x, [1], 0, True, scale=8)
        check_op(aten._fft_r2c.out, x, [1], 0, False, scale=8)
        check_op(aten._fft_c2r.out, half, [1], 2, n, scale=8)


@pytest.mark.parametrize("n", LONG)
@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_long_lines_in_every_instruction_set(dtype: torch.dtype, n: int) -> None:
    x, z = values(9, n, dtype=dtype), values(n, 2, dtype=COMPLEX[dtype])
    half = torch.fft.rfft(x)
    for isa, threads in [(isa, threads) for isa in isas() for threads in (1, 3)]:
        with isa_limit(isa):
            found = prepared("_fft_r2c", x, [1], 0, True, like=half, threads=threads)
            assert_near(found, half)
            found = prepared("_fft_c2r", half, [1], 2, n, like=x, threads=threads)
            assert_near(found, x)
            found = prepared("_fft_c2c", z, [0], 0, True, like=z, threads=threads)
            assert_near(found, torch.fft.fft(z, dim=0))


@pytest.mark.parametrize("norm", [0, 1, 2])
@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], [2, 0], [0, 1, 2], []], ids=str)
def test_transforms_over_any_dimensions_and_norms_equal_eager(dims: list[int], norm: int) -> None:
    x, z = values(4, 5, 6), values(4, 5, 6, dtype=torch.complex64)
    check_op(aten._fft_c2c.out, z, dims, norm, True, scale=8)
    check_op(aten._fft_c2c.out, z.permute(2, 0, 1), dims, norm, False, scale=8)
    if not dims:
        return
    for onesided in (True, False):
        check_op(aten._fft_r2c.out, x, dims, norm, onesided, scale=8)
        check_op(aten._fft_r2c.out, x.permute(1, 2, 0), dims, norm, onesided, scale=8)
    half = aten._fft_r2c(x, dims, norm, True)
    for n in (x.shape[dims[-1]], x.shape[dims[-1]] - 1):
        kept = half.narrow(dims[-1], 0, n // 2 + 1).contiguous()
        expected = aten._fft_c2r(kept, dims, norm, n)
        found = prepared("_fft_c2r", kept, dims, norm, n, like=expected)
        assert_close(found, expected, 8)


@pytest.mark.parametrize("n", [1, 2, 4, 7, 8, 30, 97, 256])
@pytest.mark.parametrize("wild", [math.nan, math.inf])
def test_ends_of_a_real_line_are_real_whatever_it_holds(n: int, wild: float) -> None:
    x = torch.randn(3, n, generator=torch.Generator().manual_seed(n))
    x[1, n // 2] = wild
    for onesided in (True, False):
        wanted = torch.ops.aten._fft_r2c(x, [1], 0, onesided)
        out = [Out(torch.complex64, tuple(wanted.shape))]
        (found,) = run_op("aten::_fft_r2c.out", x, [1], 0, onesided, out=out)
        ends = [0, n // 2] if n % 2 == 0 else [0]
        for end in ends:
            torch.testing.assert_close(found[:, end], wanted[:, end], equal_nan=True)
            assert (found[:, end].imag == 0).all()
        torch.testing.assert_close(found[::2], wanted[::2])  # the lines beside it


def test_batches_may_be_empty_and_lines_may_not() -> None:
    z = torch.zeros(0, 4, dtype=torch.complex64)
    check_op(aten._fft_c2c.out, z, [1], 0, True, expected=z)  # eager fails on them
    check_op(aten._fft_r2c.out, torch.zeros(0, 4), [1], 0, True, expected=z[:, :3])
    check_op(aten._fft_c2r.out, z[:, :3].clone(), [1], 0, 4, expected=torch.zeros(0, 4))
    with pytest.raises(
        OpError, match="fft: expected 1 element or more along each dimension, got none"
    ):
        run_op(
            "aten::_fft_r2c.out",
            torch.zeros(2, 0),
            [1],
            0,
            True,
            out=[Out(torch.complex64, (2, 1))],
        )


def test_wrong_arguments_are_refused() -> None:
    x, out = torch.zeros(4, 4), [Out(torch.complex64, (4, 3))]
    cases = [
        ((x, [2], 0, True), out, "2"),
        (
            (x, [1, 1], 0, True),
            out,
            "expected distinct dimensions, of rank 1 or more, got dimension 1 at rank 2",
        ),
        ((x, [], 0, True), out, "fft: expected 1 dimension or more, got none"),
        ((x, [1], 3, True), out, "normalization: expected 0, 1 or 2, got 3"),
        ((x, [1], 0, True), [Out(torch.complex128, (4, 3))], "not defined for input f32"),
    ]
    for args, outs, words in cases:
        with pytest.raises(OpError, match=words):
            run_op("aten::_fft_r2c.out", *args, out=outs)
    half = torch.zeros(4, 3, dtype=torch.complex64)
    with pytest.raises(OpError, match="last dimension: expected 4 numbers for 6 results, got 3"):
        run_op("aten::_fft_c2r.out", half, [1], 0, 6, out=[Out(torch.float32, (4, 6))])


def test_long_lines_are_prepared_in_any_case() -> None:
    torch.manual_seed(0)
    x = torch.rand(2**14, dtype=torch.complex64)
    (found,) = run_op("aten::_fft_c2c.out", x, [0], 0, True, out=[Out(x.dtype, x.shape)])
    assert_near(found, torch.fft.fft(x))


@pytest.mark.parametrize("n", [60, 512, 896, 1000, 4096, 6000])
def test_a_line_has_one_transform_whatever_lies_beside_it(n: int) -> None:
    z = values(35, n, dtype=torch.complex64)
    for isa in isas():
        with isa_limit(isa):
            together = prepared("_fft_c2c", z, [1], 0, False, like=z)
            assert_near(together, torch.fft.ifft(z, norm="forward"))
            columns = z.T.contiguous()
            found = prepared("_fft_c2c", columns, [0], 0, False, like=columns)
            assert torch.equal(torch.view_as_real(found.T), torch.view_as_real(together))
            for i in (0, 34):
                alone = prepared("_fft_c2c", z[i : i + 1], [1], 0, False, like=z[i : i + 1])
                assert torch.equal(torch.view_as_real(alone[0]), torch.view_as_real(together[i]))
            x = torch.view_as_real(z).reshape(70, n)
            half = torch.fft.rfft(x)
            several = prepared("_fft_r2c", x, [1], 0, True, like=half)
            assert_near(several, half)
            one = prepared("_fft_r2c", x[3:4], [1], 0, True, like=half[3:4])
            assert torch.equal(torch.view_as_real(one[0]), torch.view_as_real(several[3]))


@pytest.mark.parametrize("n", [6000, 2**15, 8209])
def test_threads_share_a_single_long_line(n: int) -> None:
    """A line is split: in halves, pairs of real numbers, and within a convolution."""
    z, x = values(n, dtype=torch.complex64), values(2 * n)
    half = torch.fft.rfft(x)
    calls: list[tuple[Any, ...]] = [
        ("_fft_c2c", z, [0], 0, True, torch.fft.fft(z)),
        ("_fft_r2c", x, [0], 0, True, half),
        ("_fft_c2r", half, [0], 2, 2 * n, x),
    ]
    for *call, like in calls:
        alone = prepared(*call, like=like)
        assert_near(alone, like)
        for threads in (2, 3, 5):
            assert torch.equal(prepared(*call, like=like, threads=threads), alone)
