"""Cases of bench_operators whose results depend on many elements: reductions, scans, norms,
softmax, sorting, distances, spectra, small matrices. Data only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from operator_data import SIDE, Case, data, each, square, words

REDUCED = words(
    "sum.IntList_out mean.out amax.out amin.out prod.int_out argmax.out argmin.out any.out "
    "max.dim_max min.dim_min cumsum.out cumprod.out cummax.out logcumsumexp.out _softmax.out "
    "_log_softmax.out var.correction_out var_mean.correction_out"
)
WITH_ONE_DIM = words("argmax argmin cumsum cumprod cummax logcumsumexp max min prod any")
LISTED = words("sum.IntList_out mean.out amax.out amin.out var.correction_out")


def along(name: str, dim: int) -> tuple[Any, ...]:
    if name in ("_softmax.out", "_log_softmax.out"):
        return (dim, False)
    return (dim,) if name.split(".")[0] in WITH_ONE_DIM else ([dim],)


def reductions() -> Iterator[Case]:
    x, cube = square(), data(64, 128, 128)
    for name in REDUCED:
        near_one = name.split(".")[0] in ("prod", "cumprod")  # a product that stays normal
        for dim in (0, 1):
            yield f"{name} dim {dim}", name, (x * 0.2 + 0.9 if near_one else x, *along(name, dim))
        given = cube * 0.2 + 0.9 if near_one else cube
        yield f"{name} middle of three", name, (given, *along(name, 1))
        yield f"{name} short rows", name, (given.view(65536, 16), *along(name, 1))
    for name in LISTED:
        yield f"{name} all", name, (x, [0, 1])
        yield f"{name} outer and inner", name, (cube, [0, 2])
        yield f"{name} image", name, (data(4, 64, 64, 64), [2, 3])
        lasts = data(4, 64, 64, 64).to(memory_format=torch.channels_last)
        yield f"{name} image, channels last", name, (lasts, [2, 3])
    for name, dtype in each(words("sum.IntList_out amax.out"), "f64 f16 bf16 i64 i32 u8"):
        for dim in (0, 1):
            yield f"{name} {dtype} dim {dim}", name, (square(dtype), [dim])
    for name, dtype in each(words("mean.out var.correction_out"), "f64 f16 bf16"):
        for dim in (0, 1):
            yield f"{name} {dtype} dim {dim}", name, (square(dtype), [dim])
    scans = words("argmax.out max.dim_max cumsum.out")
    for name, dtype in each(scans, "f64 f16 bf16 i64 i32 u8"):
        for dim in (0, 1):
            yield f"{name} {dtype} dim {dim}", name, (square(dtype), dim)
    for name, dtype in each(words("_softmax.out _log_softmax.out"), "f64 f16 bf16"):
        for dim in (0, 1):
            yield f"{name} {dtype} dim {dim}", name, (square(dtype), dim, False)
    yield "max all", "max.unary_out", (x,)
    yield "min all", "min.unary_out", (x,)
    yield "prod all", "prod.out", (x * 0.2 + 0.9,)
    yield "argmax all", "argmax.out", (x, None)
    yield "any all", "any.all_out", (square("bool") & False,)
    yield "any bool dim 0", "any.out", (square("bool"), 0)
    yield "any bool dim 1", "any.out", (square("bool"), 1)


def norms() -> Iterator[Case]:
    for dtype in words("f32 f64 f16 bf16"):
        x, short = square(dtype), data(16384, 64, dtype=dtype)
        w, v = data(SIDE, dtype=dtype), data(64, dtype=dtype)
        image = data(4, 64, 64, 64, dtype=dtype)
        lasts = image.to(memory_format=torch.channels_last)
        yield f"layer_norm {dtype}", "native_layer_norm.out", (x, [SIDE], w, w, 1e-5)
        yield f"layer_norm short {dtype}", "native_layer_norm.out", (short, [64], v, v, 1e-5)
        yield f"group_norm {dtype}", "native_group_norm.out", (image, v, v, 4, 64, 4096, 8, 1e-5)
        name = "_native_batch_norm_legit_no_training.out"
        yield f"batch_norm {dtype}", name, (image, v, v, v, v, 0.1, 1e-5)
        yield f"batch_norm channels last {dtype}", name, (lasts, v, v, v, v, 0.1, 1e-5)
    yield "layer_norm, no weights", "native_layer_norm.out", (square(), [SIDE], None, None, 1e-5)
    yield "softmax short", "_softmax.out", (data(16384, 64), 1, False)
    yield "softmax long", "_softmax.out", (data(8, 131072), 1, False)
    yield "softmax image dim 1", "_softmax.out", (data(4, 64, 64, 64), 1, False)


def orders() -> Iterator[Case]:
    x = square()
    for dtype in words("f32 f64 i64 u8 bf16"):
        y = (square("f32") * 200).to(square(dtype).dtype)
        yield f"topk {dtype}", "topk.values", (y, 10)
        for dim in (0, 1):
            yield f"sort {dtype} dim {dim}", "sort.values", (y, dim)
    yield "topk dim 0", "topk.values", (x, 10, 0)
    yield "topk half of a row", "topk.values", (x, 512)
    yield "topk smallest, unsorted", "topk.values", (x, 10, 1, False, False)
    yield "sort descending", "sort.values", (x, 1, True)
    yield "sort stable", "sort.values_stable", (x, {"stable": True})
    yield "sort short rows", "sort.values", (data(65536, 16), 1)
    yield "sort one long row", "sort.values", (data(SIDE * SIDE), 0)
    yield "unique", "_unique2.out", ((x * 1000).long(), True, False, False)
    yield "unique f32 with inverse", "_unique2.out", (x, True, True, True)
    yield "unique_consecutive", "unique_consecutive.out", ((x * 10).long().view(-1), True, True)
    yield "unique_dim", "unique_dim.out", ((data(65536, 16) * 4).long(), 0)
    few = (data(SIDE * SIDE) * 1000).long()
    yield "bincount", "bincount.out", (few,)
    yield "bincount weighed", "bincount.out", (few, data(SIDE * SIDE))
    yield "histc", "histc.out", (x, 100, 0.0, 1.0)
    yield "searchsorted", "searchsorted.Tensor_out", (torch.linspace(0, 1, SIDE), x)
    yield "searchsorted rows", "searchsorted.Tensor_out", (x.sort()[0], x)
    for p in (2.0, 1.0, 0.0, float("inf"), 3.0):
        yield f"cdist p {p}", "_cdist_forward.out", (data(SIDE, 32), data(SIDE, 32), p, None)
    yield "cdist f64", "_cdist_forward.out", (
        data(512, 64, dtype="f64"), data(512, 64, dtype="f64"), 2.0, None)  # fmt: skip
    yield "cdist by products", "_cdist_forward.out", (data(512, 64), data(512, 64), 2.0, None)
    yield "pdist", "_pdist_forward.out", (data(512, 64), 2.0)


def transforms() -> Iterator[Case]:
    rows, c = square(), data(SIDE, 512, dtype="c64")
    yield "fft r2c", "_fft_r2c.out", (rows, [1], 0, True)
    yield "fft c2c", "_fft_c2c.out", (c, [1], 0, True)
    yield "fft c2c dim 0", "_fft_c2c.out", (c, [0], 0, True)
    yield "fft c2c both", "_fft_c2c.out", (c, [0, 1], 0, True)
    yield "fft c2r", "_fft_c2r.out", (data(SIDE, 513, dtype="c64"), [1], 2, SIDE)
    yield "fft c2c f64", "_fft_c2c.out", (data(SIDE, 512, dtype="c128"), [1], 0, True)
    yield "fft c2c 60", "_fft_c2c.out", (data(8192, 60, dtype="c64"), [1], 0, True)
    yield "fft c2c 1000", "_fft_c2c.out", (data(512, 1000, dtype="c64"), [1], 0, True)
    yield "fft c2c prime 509", "_fft_c2c.out", (data(SIDE, 509, dtype="c64"), [1], 0, True)
    image = data(8, 14, 14, 640)
    yield "fft r2c inner 14 x 14", "_fft_r2c.out", (image, [1, 2], 1, True)
    half = data(8, 14, 8, 640, dtype="c64")
    yield "fft c2r inner 14 x 14", "_fft_c2r.out", (half, [1, 2], 1, 14)
    yield "fft c2c 22", "_fft_c2c.out", (data(22, 22, 1024, dtype="c64"), [0, 1], 0, True)
    yield "fft c2c one line", "_fft_c2c.out", (data(SIDE * 512, dtype="c64"), [0], 0, True)
    yield "fft r2c long", "_fft_r2c.out", (data(8, 131072), [1], 0, True)
    for n in (4, 16, 64):
        a = data(SIDE * SIDE // n // n, n, n)
        definite = a @ a.mT + 4 * torch.eye(n)
        yield f"inv {n}", "linalg_inv_ex.inverse", (definite,)
        yield f"cholesky {n}", "linalg_cholesky_ex.L", (definite,)
        yield f"solve {n}", "_linalg_solve_ex.result", (definite, a)
        yield f"triangular {n}", "linalg_solve_triangular.out", (definite, a, {"upper": True})
        yield f"det {n}", "_linalg_det.result", (definite,)
        yield f"lu_factor {n}", "linalg_lu_factor_ex.out", (definite,)
        yield f"qr {n}", "linalg_qr.out", (a,)
        yield f"eigh {n}", "_linalg_eigh.eigenvalues", (definite,)
        yield f"svd {n}", "_linalg_svd.U", (a,)
