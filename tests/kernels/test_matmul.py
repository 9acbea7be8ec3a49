"""Matrix products against eager torch: every dtype and layout, prepared or not, any threads."""

from __future__ import annotations

import pytest
import torch
from support.op_driver import Const, OpError, Out, check_op, isa_limit, isas, run_op

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
# m, n, k: around the tile and block sizes, and with one size 0.
SHAPES = [
    (1, 1, 1),
    (3, 5, 7),
    (1, 64, 33),
    (14, 32, 16),
    (15, 33, 65),
    (29, 97, 130),
    (70, 17, 600),
    (0, 4, 3),
    (4, 0, 3),
    (4, 5, 0),
]


def matrix(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values whose sums differ little between summation orders; integers that overflow."""
    if dtype.is_floating_point:
        return (torch.rand(shape) - 0.5).to(dtype)
    info = torch.iinfo(dtype)
    return torch.randint(max(info.min, -(2**40)), min(info.max, 2**40), shape).to(dtype)


def columns(t: torch.Tensor) -> torch.Tensor:
    """The same matrices with columns adjacent in memory."""
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mm_equals_eager(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    m, n, k = shape
    a, b = matrix(m, k, dtype=dtype), matrix(k, n, dtype=dtype)
    check_op(aten.mm.out, a, b, scale=4)
    check_op(aten.mm.out, a, Const(b), scale=4)
    check_op(aten.mm.out, Const(a), b, scale=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_mm_takes_any_layout(dtype: torch.dtype) -> None:
    a, b = matrix(37, 70, dtype=dtype), matrix(70, 45, dtype=dtype)
    for x in (a, columns(a)):
        for y in (b, columns(b)):
            for order in ((0, 1), (1, 0)):
                check_op(aten.mm.out, x, Const(y), scale=4, out_order=order)
                check_op(aten.mm.out, x, y, scale=4, out_order=order)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64], ids=str)
@pytest.mark.parametrize(
    "shape", [(3, 14, 33, 20), (1, 40, 9, 65), (0, 2, 3, 4), (5, 1, 1, 6)], ids=str
)
def test_bmm_equals_eager(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    n_batch, m, n, k = shape
    a, b = matrix(n_batch, m, k, dtype=dtype), matrix(n_batch, k, n, dtype=dtype)
    check_op(aten.bmm.out, a, b, scale=4)
    check_op(aten.bmm.out, columns(a), b, scale=4, out_order=(0, 2, 1))
    check_op(aten.bmm.out, a, Const(columns(b)), scale=4, out_order=(2, 1, 0))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32], ids=str)
@pytest.mark.parametrize("self_shape", [(33,), (1,), (), (1, 33), (20, 1), (20, 33)], ids=str)
def test_addmm_broadcasts_and_scales(self_shape: tuple[int, ...], dtype: torch.dtype) -> None:
    bias, a, b = (
        matrix(*self_shape, dtype=dtype),
        matrix(20, 50, dtype=dtype),
        matrix(50, 33, dtype=dtype),
    )
    check_op(aten.addmm.out, bias, a, Const(b), scale=4)
    check_op(aten.addmm.out, bias, a, columns(b), beta=2, alpha=3, scale=16)
    check_op(aten.addmm.out, bias, a, b, beta=0, scale=4)
    check_op(aten.addmm.out, Const(bias), a, Const(b), scale=4, out_order=(1, 0))


def test_addmm_with_beta_zero_ignores_nan_in_self() -> None:
    bias = torch.full((4,), torch.nan)
    check_op(aten.addmm.out, bias, matrix(3, 5), matrix(5, 4), beta=0)
    check_op(aten.addmm.out, bias, matrix(3, 5), matrix(5, 4), beta=0, alpha=0.5)


def test_baddbmm_broadcasts_and_scales() -> None:
    a, b = matrix(3, 7, 9), matrix(3, 9, 11)
    for self_shape in ((11,), (7, 1), (3, 1, 11), (3, 7, 11)):
        check_op(aten.baddbmm.out, matrix(*self_shape), a, b, scale=4)
        check_op(aten.baddbmm.out, matrix(*self_shape), a, Const(b), beta=0.5, alpha=2, scale=4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("lead", [(), (7,), (2, 3), (2, 0, 3), (1, 100)], ids=str)
def test_linear_equals_eager(lead: tuple[int, ...], dtype: torch.dtype) -> None:
    x, w, bias = (
        matrix(*lead, 40, dtype=dtype),
        matrix(70, 40, dtype=dtype),
        matrix(70, dtype=dtype),
    )
    check_op(aten.linear.out, x, Const(w), Const(bias), scale=4)
    check_op(aten.linear.out, x, w, None, scale=4)


def test_linear_takes_any_layout() -> None:
    x = matrix(2, 3, 5, 40).permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1)
    check_op(aten.linear.out, x, Const(matrix(6, 40)), matrix(6), scale=4, out_order=(0, 3, 1, 2))
    check_op(aten.linear.out, x, matrix(6, 40), matrix(6), scale=4)


def test_threads_and_packing_do_not_change_a_bit() -> None:
    a, b = matrix(61, 1300), matrix(1300, 131)
    out = [Out(torch.float32, (61, 131))]
    (reference,) = run_op("aten::mm.out", a, b, out=out)
    for threads in (1, 2, 3, 8):
        for x, y in ((a, b), (a, Const(b)), (Const(a), b), (columns(a), columns(b))):
            (y_out,) = run_op("aten::mm.out", x, y, out=out, prepared=True, threads=threads)
            assert torch.equal(y_out, reference)


def test_accumulation_is_sequential_fma() -> None:
    # (1 + 2^-12)^2 needs the low bits that only a fused multiply-add keeps.
    x = torch.full((1, 1), 1 + 2**-12)
    (y,) = run_op(
        "aten::addmm.out", torch.tensor([-1.0]), x, x, 1, 1, out=[Out(torch.float32, (1, 1))]
    )
    assert y.item() == 2**-11 + 2**-24
    (y,) = run_op(
        "aten::mm.out",
        torch.tensor([[2.0**24, 1.0, -(2.0**24)]]),
        torch.ones(3, 1),
        out=[Out(torch.float32, (1, 1))],
    )
    assert y.item() == 0.0


def test_wrong_arguments_are_refused_with_words() -> None:
    out = [Out(torch.float32, (2, 2))]
    with pytest.raises(OpError, match=r"\[2, 3\] and \[4, 2\] cannot be multiplied"):
        run_op("aten::mm.out", matrix(2, 3), matrix(4, 2), out=out)
    with pytest.raises(OpError, match="expected rank 2 for both, got 1 and 2"):
        run_op("aten::mm.out", matrix(3), matrix(3, 2), out=out)
    with pytest.raises(OpError, match="expected one dtype for all, got f32, f64 and out f32"):
        run_op("aten::mm.out", matrix(2, 3), matrix(3, 2).double(), out=out)
    with pytest.raises(OpError, match="self: dimension 0: expected size 1 or 2, got 3"):
        run_op("aten::addmm.out", matrix(3), matrix(2, 3), matrix(3, 2), 1, 1, out=out)
    with pytest.raises(
        OpError, match="expected an integer for matrices of i32, got floating point"
    ):
        i = torch.ones(2, 2, dtype=torch.int32)
        run_op("aten::addmm.out", i, i, i, 1.5, 1, out=[Out(torch.int32, (2, 2))])
    with pytest.raises(OpError, match=r"bias: expected f32.*, got f32 of rank 1"):
        run_op("aten::linear.out", matrix(2, 3), matrix(2, 3), matrix(3), out=out)
    with pytest.raises(OpError):
        run_op("aten::mm.out", matrix(3, 3), matrix(3, 3), out=out)


CHUNK = 256  # of the sums over k: micro/gemm/gemm.h


def chunked(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The definition of a product with large k: products of one chunk of k each, added one by
    one."""
    total = None
    for k in range(0, a.shape[1], CHUNK):
        out = Out(a.dtype, (a.shape[0], b.shape[1]))
        (part,) = run_op("aten::mm.out", a[:, k : k + CHUNK].clone(), b[k : k + CHUNK], out=[out])
        total = part if total is None else total + part
    assert total is not None
    return total


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("k", [255, 256, 257, 511, 600, 4099])
@pytest.mark.parametrize("m", [1, 3, 31, 97])
def test_long_sums_are_added_in_chunks(m: int, k: int, dtype: torch.dtype) -> None:
    n = 67
    a, b = matrix(m, k, dtype=dtype), matrix(k, n, dtype=dtype)
    expected = chunked(a, b)
    for x, y, prepared, threads in (
        (a, b, False, 1),
        (a, Const(b), True, 1),
        (Const(a), b, True, 1),
        (a, Const(columns(b)), True, 3),
        (columns(a), b, True, 2),
    ):
        for order in (None, (1, 0)):
            out = [Out(dtype, (m, n), order)]
            (got,) = run_op("aten::mm.out", x, y, out=out, prepared=prepared, threads=threads)
            assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize(
    "shape",
    [(1, 131, 769), (2, 37, 300), (13, 61, 521), (47, 29, 258), (83, 103, 31), (547, 45, 1100)],
    ids=str,
)
def test_every_instruction_set_gives_the_same_bits(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    m, n, k = shape
    a, w, bias = matrix(m, k, dtype=dtype), matrix(n, k, dtype=dtype), matrix(n, dtype=dtype)
    results = []
    for isa in isas():
        with isa_limit(isa):
            for weight, prepared, threads in ((w, False, 1), (Const(w), True, 1), (w, True, 3)):
                results += run_op(
                    "aten::linear.out",
                    a,
                    weight,
                    bias,
                    out=[Out(dtype, (m, n))],
                    prepared=prepared,
                    threads=threads,
                )
    assert all(torch.equal(r, results[0]) for r in results)


@pytest.mark.parametrize("k", [768, 4096])
def test_long_sums_are_as_accurate_as_eager(k: int) -> None:
    a, b = torch.rand(48, k), torch.rand(k, 48)
    exact = a.double() @ b.double()
    (got,) = run_op("aten::mm.out", a, b, out=[Out(torch.float32, (48, 48))])
    ours, eager = ((x.double() - exact).abs().mean() for x in (got, a @ b))
    assert ours <= 1.5 * eager


def test_products_of_several_blocks_begin_at_what_is_added() -> None:
    """Both operands are packed block by block, and partial sums are stored in the result."""
    a, b, c = matrix(547, 1100), matrix(1100, 45), matrix(547, 45)
    check_op(aten.addmm.out, c, a, b, beta=0.5, alpha=2.0, scale=8)
    check_op(aten.addmm.out, matrix(547, 1), a, b, scale=8)
    check_op(aten.baddbmm.out, c[None], a[None], b[None], scale=8)
