"""Rows of linear algebra on small matrices and of Fourier transforms.

Named tests cover factors that are not unique (eigenvectors, singular vectors). The rows here have
their values, and all other results, which must equal eager's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from kernels.table.row import COMPLEX, WIDE, Row, T, growing

SIDES: list[tuple[int, ...]] = [(1, 1), (2, 2), (3, 3), (5, 5), (12, 12), (2, 4, 4), (2, 3, 3, 3),
                                (0, 0), (0, 3, 3)]  # fmt: skip
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 20, 31, 32, 37, 60, 64, 67]


def regular(shape: tuple[int, ...], dtype: torch.dtype, order: Any = None, seed: int = 0) -> T:
    """A matrix far from singular: a large diagonal over small numbers."""
    n = shape[-1]
    batch = 1
    for size in shape[:-2]:
        batch *= size
    values = tuple(
        ((i * 7 + j * 13 + b * 5 + seed * 3) % 11 - 5) / 5 + (n + 1.0 if i == j else 0.0)
        for b, i, j in itertools.product(range(batch), range(n), range(n))
    )
    return T(shape, dtype, order=order, values=values)


def algebra() -> Iterator[Row]:
    for shape, dtype in itertools.product(SIDES, WIDE):
        turned = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        for a in (regular(shape, dtype), regular(shape, dtype, turned)):
            yield Row("aten::linalg_inv_ex.inverse", (a,), scale=16)
            for upper in (False, True):
                yield Row("aten::linalg_cholesky_ex.L", (a,), {"upper": upper}, scale=16)
            for columns in ((), (3,)):
                if not columns and len(shape) > 2:
                    continue
                b = T((*shape[:-1], *columns), dtype, seed=1)
                if 0 not in shape:
                    op = "aten::_linalg_solve_ex.result"
                    yield Row(op, (a, b), {"left": True, "check_errors": False}, scale=16)
            b = T((*shape[:-1], 2), dtype, seed=1)
            for upper, unit in itertools.product((False, True), repeat=2):
                given = {"upper": upper, "left": True, "unitriangular": unit}
                yield Row("aten::linalg_solve_triangular.out", (a, b), given, scale=64)
            if 0 not in shape:
                yield Row("aten::linalg_lu_factor_ex.out", (a,), scale=16)
                yield Row("aten::linalg_lu.out", (a,), scale=16)
                for mode in ("reduced", "complete"):
                    yield Row("aten::linalg_qr.out", (a, mode), scale=64)
    for dtype, shape in itertools.product(WIDE, ((4, 7), (7, 4), (2, 5, 3), (1, 6))):
        a = T(shape, dtype)
        yield Row("aten::_linalg_svd.U", (a, False, False), scale=16)
        for mode in ("reduced", "complete", "r"):
            yield Row("aten::linalg_qr.out", (a, mode), scale=64)
        yield Row("aten::linalg_lu_factor_ex.out", (a,), scale=64)


def transforms() -> Iterator[Row]:
    c2c, r2c, c2r = (f"aten::_fft_{kind}.out" for kind in ("c2c", "r2c", "c2r"))
    for n, real, norm in itertools.product(LENGTHS, WIDE, (0, 1, 2)):
        dtype = COMPLEX[WIDE.index(real)]
        for forward in (True, False):
            yield Row(c2c, (T((3, n), dtype), [1], norm, forward), scale=16)
            yield Row(r2c, (T((3, n), real), [1], norm, forward), scale=16)
    dims: list[list[int]] = [[0], [1], [2], [0, 2], [2, 0], [0, 1, 2]]
    for at, order, norm in itertools.product(dims, (None, (2, 0, 1), (0, 2, 1)), (0, 1, 2)):
        z, x = T((4, 5, 6), torch.complex64, order=order), T((4, 5, 6), order=order)
        yield Row(c2c, (z, at, norm, True), scale=16)
        yield Row(c2c, (z, at, norm, False), scale=16)
        for onesided in (True, False):
            yield Row(r2c, (x, at, norm, onesided), scale=16)
    for n, real in itertools.product(LENGTHS, WIDE):
        dtype = COMPLEX[WIDE.index(real)]
        # the spectrum of a real signal: its ends have no imaginary part
        half = T((2, n // 2 + 1), dtype)
        yield Row(c2r, (half, [1], 2, n), scale=16, reference=_hermitian)


def _hermitian(z: torch.Tensor, dims: list[int], norm: int, n: int) -> torch.Tensor:
    """Eager's result for the spectrum without the imaginary parts of both ends, which it
    ignores."""
    z = z.clone()
    z[:, 0] = z[:, 0].real.to(z.dtype)
    if n % 2 == 0:
        z[:, -1] = z[:, -1].real.to(z.dtype)
    result: torch.Tensor = torch.ops.aten._fft_c2r(z, dims, norm, n)
    return result


def rows() -> Iterator[Row]:
    yield from algebra()
    yield from transforms()
    for sizes in growing(lambda n: (T((n, 12), torch.complex64), [1], 0, True), (1, 3, 8)):
        yield Row("aten::_fft_c2c.out", scale=16, **sizes)
