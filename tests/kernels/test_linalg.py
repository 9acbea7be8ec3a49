"""Linear algebra of small matrices against eager torch, and by the products of factors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, assert_close, check_op, run_op

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64]
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 2), (0,)]
SIDES = [1, 2, 5, 20]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 1)
    return torch.randn(shape, dtype=dtype, generator=generator)


def well_conditioned(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return values(*shape, dtype=dtype) * 0.3 + torch.eye(shape[-2], shape[-1], dtype=dtype) * 3


def positive(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = values(*shape, dtype=dtype)
    return x @ x.mT / shape[-1] + torch.eye(shape[-1], dtype=dtype)


def run(name: str, *args: Any, like: Any, prepared: bool = True) -> list[torch.Tensor]:
    """The results, in planned memory with the layout of eager's results."""
    outs = [Out(t.dtype, t.shape) for t in ([like] if isinstance(like, torch.Tensor) else like)]
    return run_op(f"aten::{name}", *args, out=outs, prepared=prepared)


def shapes() -> list[tuple[int, ...]]:
    return [(*batch, n, n) for batch in BATCHES for n in SIDES] + [(0, 0), (2, 0, 0)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_inverses_equal_eager(dtype: torch.dtype) -> None:
    for shape in shapes():
        a = well_conditioned(*shape, dtype=dtype)
        expected = torch.linalg.inv_ex(a)
        for x in (a, a.mT.contiguous().mT):
            for prepared in (True, False):
                found = run(
                    "linalg_inv_ex.inverse", x, False, like=tuple(expected), prepared=prepared
                )
                assert_close(found[0], expected[0], 16)
                assert_close(found[1], expected[1])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_solutions_of_equations_equal_eager(dtype: torch.dtype) -> None:
    cases = [((4, 4), (4,)), ((4, 4), (4, 3)), ((3, 4, 4), (3, 4)), ((3, 4, 4), (2, 3, 4, 5))]
    cases += [((2, 1, 4, 4), (3, 4, 2)), ((0, 4, 4), (0, 4, 2)), ((3, 4, 4), (4, 2))]
    for of_a, of_b in cases:
        a, b = well_conditioned(*of_a, dtype=dtype), values(*of_b, dtype=dtype)
        expected = aten._linalg_solve_ex(a, b)
        found = run("_linalg_solve_ex.result", a, b, True, False, like=expected)
        for ours, eager in zip(found, expected, strict=True):
            assert_close(ours, eager, 16)
        triangular = aten.linalg_solve_triangular
        if of_b in ((4,), (3, 4)):  # vectors
            continue
        for upper, unit in ((True, False), (False, True)):
            want = triangular(a, b, upper=upper, unitriangular=unit)
            args = (a, b, upper, True, unit)
            assert_close(run("linalg_solve_triangular.out", *args, like=want)[0], want, 16)
    a, b = well_conditioned(3, 4, 4, dtype=dtype), values(3, 2, 4, dtype=dtype)
    want = aten._linalg_solve_ex(a, b, left=False)
    assert_close(run("_linalg_solve_ex.result", a, b, False, False, like=want)[0], want[0], 16)
    lower = aten.linalg_solve_triangular(a, b, upper=False, left=False)
    args = (a, b, False, False, False)
    assert_close(run("linalg_solve_triangular.out", *args, like=lower)[0], lower, 16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_determinants_equal_eager(dtype: torch.dtype) -> None:
    for shape in shapes():
        a = well_conditioned(*shape, dtype=dtype) / 3 if shape[-1] > 0 else values(*shape)
        a = a.to(dtype)
        expected = aten._linalg_det(a)
        assert_close(run("_linalg_det.result", a, like=expected)[0], expected[0], 16)
        expected = aten._linalg_slogdet(-a)
        found = run("_linalg_slogdet.sign", -a, like=expected)
        assert_close(found[0], expected[0])
        assert_close(found[1], expected[1], 16)
    flat = torch.ones(2, 3, 3, dtype=dtype)
    assert run("_linalg_det.result", flat, like=aten._linalg_det(flat))[0].tolist() == [0, 0]
    sign, log = run("_linalg_slogdet.sign", flat, like=aten._linalg_slogdet(flat))[:2]
    assert sign.tolist() == [0, 0] and log.tolist() == [-torch.inf] * 2


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (3, 5, 2), (2, 3, 6), (0, 3, 3), (2, 0, 3)], ids=str)
def test_triangular_factors_equal_eager_or_multiply_to_the_matrix(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    a = values(*shape, dtype=dtype)
    b = well_conditioned(*shape, dtype=dtype)
    expected = torch.linalg.lu_factor_ex(b)
    found = run("linalg_lu_factor_ex.out", b, True, False, like=tuple(expected))
    for ours, eager in zip(found, expected, strict=True):
        assert_close(ours, eager, 16)
    # Eager torch exchanges rows always on this device.
    lu = run("linalg_lu_factor_ex.out", b, False, False, like=tuple(expected))[0]
    k = min(shape[-2:])
    lower = lu[..., :k].tril(-1) + torch.eye(shape[-2], k, dtype=dtype)
    assert_close(lower @ lu[..., :k, :].triu(), b, 16)
    lu = torch.linalg.lu(a)
    found = run("linalg_lu.out", a, True, like=tuple(lu))
    for ours, eager in zip(found, lu, strict=True):
        assert_close(ours, eager, 64)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_roots_of_positive_matrices_equal_eager(dtype: torch.dtype) -> None:
    for shape in shapes():
        a = positive(*shape, dtype=dtype) if shape[-1] > 0 else values(*shape, dtype=dtype)
        for upper in (False, True):
            expected = torch.linalg.cholesky_ex(a, upper=upper)
            kept = a.triu() if upper else a.tril()  # the other triangle is ignored
            found = run("linalg_cholesky_ex.L", kept, upper, False, like=tuple(expected))
            assert_close(found[0], expected[0], 16)
            assert_close(found[1], expected[1])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_orthogonal_factors_equal_eager(mode: str, dtype: torch.dtype) -> None:
    for shape in [(4, 4), (3, 7, 3), (3, 2, 6), (1, 1), (0, 3, 2), (2, 3, 0)]:
        a = values(*shape, dtype=dtype)
        expected = torch.linalg.qr(a, mode)
        found = run("linalg_qr.out", a, mode, like=tuple(expected))
        for ours, eager in zip(found, expected, strict=True):
            assert_close(ours, eager, 64)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_eigenvectors_rebuild_symmetric_matrices(dtype: torch.dtype) -> None:
    for shape in [(1, 1), (4, 4), (2, 12, 12), (0, 3, 3), (2, 0, 0)]:
        a = values(*shape, dtype=dtype)
        a = a + a.mT
        for triangle in ("L", "U"):
            kept = a.tril() if triangle == "L" else a.triu()
            expected = torch.linalg.eigh(kept, triangle)
            found = run("_linalg_eigh.eigenvalues", kept, triangle, True, like=tuple(expected))
            assert_close(found[0], expected[0], 16)
            assert_close(found[1] * found[0].unsqueeze(-2) @ found[1].mT, a, 64)
            like = aten._linalg_eigh(kept, triangle, False)
            values_only = run("_linalg_eigh.eigenvalues", kept, triangle, False, like=like)
            assert_close(values_only[0], expected[0], 16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_singular_vectors_rebuild_their_matrices(full: bool, dtype: torch.dtype) -> None:
    flat = values(5, 2, dtype=dtype) @ values(2, 4, dtype=dtype)
    matrices = [values(*s, dtype=dtype) for s in [(4, 4), (2, 7, 3), (2, 3, 7), (1, 1), (0, 3, 2)]]
    for a in [*matrices, flat, flat.t().contiguous(), torch.zeros(3, 2, dtype=dtype)]:
        expected = aten._linalg_svd(a, full)
        u, s, vh = run("_linalg_svd.U", a, full, True, None, like=expected)
        assert_close(s, expected[1], 16)
        k = s.shape[-1]
        assert_close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a, 64)
        assert_close(u.mT @ u, torch.eye(u.shape[-1], dtype=dtype).expand_as(u.mT @ u), 16)
        assert_close(vh @ vh.mT, torch.eye(vh.shape[-2], dtype=dtype).expand_as(vh @ vh.mT), 16)
        like = aten._linalg_svd(a, full, False)
        assert_close(run("_linalg_svd.U", a, full, False, None, like=like)[1], expected[1], 16)


def awkward() -> list[torch.Tensor]:
    """Matrices with many equal or vanishing values, far from 1, or of more than one register."""
    f64 = torch.float64
    x, y = values(24, 24, dtype=f64), values(70, 70, dtype=f64)
    ranks = values(24, 5, dtype=f64)
    bidiagonal = torch.diag(values(9, dtype=f64)) + torch.diag(values(8, dtype=f64), 1)
    bidiagonal[0, 0] = bidiagonal[4, 4] = 0.0
    last = bidiagonal.clone()
    last[8, 8] = 0.0
    pairs = torch.diag(torch.tensor([2.0, 2.0, -1.0, -1.0, 0.0, 0.0, 2.0], dtype=f64))
    graded = x * torch.logspace(0, -12, 24, dtype=f64)
    return [torch.zeros(6, 6, dtype=f64), torch.eye(9, dtype=f64), torch.ones(17, 17, dtype=f64),
            pairs, bidiagonal, last, ranks @ ranks.T, graded, x * 1e-200, x * 1e200, y,
            torch.eye(3, dtype=f64) * 5e-324, values(33, 33, dtype=f64)]  # fmt: skip


def test_awkward_matrices_have_eigenvectors() -> None:
    for a in awkward():
        a = a.tril() + a.tril(-1).T
        expected = torch.linalg.eigh(a)
        found = run("_linalg_eigh.eigenvalues", a, "L", True, like=tuple(expected))
        size = max(float(a.abs().max()), 5e-324)
        assert (found[0] - expected[0]).abs().max() <= 1e-13 * size * a.shape[0]
        rest = a @ found[1] - found[1] * found[0]
        assert rest.abs().max() <= 1e-13 * size * a.shape[0]
        torch.testing.assert_close(found[1].T @ found[1], torch.eye(len(a), dtype=a.dtype))


def test_awkward_matrices_have_singular_vectors() -> None:
    for whole in awkward():
        for a in (whole, whole[:, : max(1, whole.shape[1] // 3)].contiguous()):
            size = max(float(a.abs().max()), 5e-324)
            expected = aten._linalg_svd(a, True)
            u, s, vh = run("_linalg_svd.U", a, True, True, None, like=expected)
            assert (s - expected[1]).abs().max() <= 1e-13 * size * len(a)
            rest = a @ vh.T - u[:, : len(s)] * s
            assert rest.abs().max() <= 1e-13 * size * len(a)
            torch.testing.assert_close(u.T @ u, torch.eye(len(u), dtype=a.dtype))
            torch.testing.assert_close(vh @ vh.T, torch.eye(len(vh), dtype=a.dtype))
            like = aten._linalg_svd(a, True, False)
            (_, only, _) = run("_linalg_svd.U", a, True, False, None, like=like)
            assert torch.equal(only, s)


def test_matrices_with_infinities_end() -> None:
    a = values(20, 20)
    a[3, 4] = a[4, 3] = torch.inf
    like = (torch.zeros(20), a)
    for name, args in (("_linalg_eigh.eigenvalues", ("L", True)),):
        run(name, a, *args, like=like)
    run("_linalg_svd.U", a, False, True, None, like=(a, like[0], a))


def test_singular_matrices_are_numbered_or_errors() -> None:
    a = torch.stack([torch.eye(3), torch.tensor([[1.0, 2, 3], [2, 4, 6], [0, 1, 1]])])
    like = torch.linalg.inv_ex(a)
    assert run("linalg_inv_ex.inverse", a, False, like=tuple(like))[1].tolist() == [0, 3]
    words = "linalg.inv: matrix 1 of the batch is singular: diagonal element 3 of U is zero"
    with pytest.raises(OpError, match=words):
        run("linalg_inv_ex.inverse", a, True, like=tuple(like))
    b = torch.ones(2, 3)
    with pytest.raises(OpError, match=r"linalg.solve: matrix 1 of the batch is singular"):
        run("_linalg_solve_ex.result", a, b, True, True, like=aten._linalg_solve_ex(a, b))
    with pytest.raises(OpError, match="leading minor of order 1 is not positive"):
        run("linalg_cholesky_ex.L", -a, False, True, like=tuple(torch.linalg.cholesky_ex(-a)))


def test_wrong_matrices_are_refused() -> None:
    out = (torch.zeros(2, 3), torch.zeros((), dtype=torch.int32))
    with pytest.raises(OpError, match=r"linalg.inv: expected square matrices, got 2 by 3"):
        run("linalg_inv_ex.inverse", torch.zeros(2, 3), False, like=out)
    with pytest.raises(OpError, match=r"linalg.inv: expected rank 2 or more, got 1"):
        run("linalg_inv_ex.inverse", torch.zeros(2), False, like=out)
    with pytest.raises(OpError, match=r"linalg.qr: mode: expected .*, got other"):
        run("linalg_qr.out", torch.zeros(2, 3), "other", like=(torch.zeros(2, 2), out[0]))
    with pytest.raises(OpError, match="UPLO: expected L or U, got X"):
        args = (torch.zeros(2, 2), "X", True)
        run("_linalg_eigh.eigenvalues", *args, like=(torch.zeros(2), torch.zeros(2, 2)))
    big = torch.eye(80)
    like = tuple(torch.linalg.inv_ex(big))
    assert_close(run("linalg_inv_ex.inverse", big, False, like=like)[0], big)


def test_a_great_batch_of_empty_matrices_ends_at_once() -> None:
    many, f32 = 2**31 - 1, torch.float32
    x = torch.empty(many, 0, 7)
    outs = [Out(f32, (many, 0, 0)), Out(f32, (many, 0)), Out(f32, (many, 0, 7))]
    run_op("aten::_linalg_svd.U", x, False, True, None, out=outs)
    run_op("aten::linalg_qr.out", x, "reduced", out=[outs[0], outs[2]])


@pytest.mark.parametrize("count, n", [(9000, 3), (1700, 7)])
def test_threads_share_a_batch(count: int, n: int) -> None:
    a = positive(count, n, n, dtype=torch.float64)
    check_op(aten.linalg_inv_ex.inverse, a)
    check_op(aten.linalg_cholesky_ex.L, a)
    check_op(aten._linalg_solve_ex.result, a, a[..., :2].contiguous())


def test_matrices_too_large_for_the_stack_have_memory_for_each_thread() -> None:
    a = positive(5, 90, 90)
    out = [Out(torch.float32, (5, 90, 90)), Out(torch.int32, (5,))]
    results = [
        run_op("aten::linalg_inv_ex.inverse", a, False, out=out, prepared=True, threads=threads)[0]
        for threads in (1, 2, 3)
    ]
    assert_close(results[0], torch.linalg.inv(a.double()).float(), scale=10.0)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_a_singular_matrix_among_many_is_named_on_any_number_of_threads() -> None:
    a = torch.eye(4).repeat(9000, 1, 1)
    a[7001, 2] = 0
    a[8000] = 0
    for threads in (1, 2, 3):
        with pytest.raises(OpError, match="matrix 7001 of the batch is singular"):
            out = [Out(torch.float32, (9000, 4, 4)), Out(torch.int32, (9000,))]
            run_op("aten::linalg_inv_ex.inverse", a, True, out=out, threads=threads)
