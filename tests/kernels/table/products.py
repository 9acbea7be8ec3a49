"""Rows of matrix products: dtypes, layouts, constant weights, empty sides.

Weights are constant in some rows, so that the prepare step packs them, and not in others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from kernels.table.row import FLOATS, HALVES, NUMBERS, Row, T, growing, small

F32 = torch.float32
# m, n, k: around the tile and block sizes, and with one size 0
SHAPES = [(1, 1, 1), (3, 5, 7), (1, 64, 33), (14, 32, 16), (15, 33, 65), (29, 97, 130),
          (0, 4, 3), (4, 0, 3), (4, 5, 0)]  # fmt: skip
Pair = tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None]
LAYOUTS: list[Pair] = [
    (a, b, out)
    for a, b, out in itertools.product((None, (1, 0)), repeat=3)
    if (a, b, out) != (None, None, None)
]


def matrices() -> Iterator[Row]:
    mm, addmm = "aten::mm.out", "aten::addmm.out"
    for dtype in NUMBERS:
        exact = dtype in HALVES
        for m, n, k in SHAPES:
            a, b = small((m, k), dtype), small((k, n), dtype, 1)
            bias = small((n,), dtype, 2)
            for left, right in ((a, b), (a, replace(b, const=True)), (replace(a, const=True), b)):
                yield Row(mm, (left, right), scale=4, exact=exact)
                yield Row(addmm, (bias, left, right), scale=4, exact=exact)
        a, b = small((17, 30), dtype), small((30, 21), dtype, 1)
        for of_a, of_b, out in LAYOUTS:
            for const in (False, True):
                args = (replace(a, order=of_a), replace(b, order=of_b, const=const))
                yield Row(mm, args, scale=4, exact=exact, out_order=out)
        for shape in ((21,), (1,), (), (1, 21), (17, 1), (17, 21)):
            bias = small(shape, dtype, 2)
            for factors in ({}, {"beta": 2, "alpha": 3}, {"beta": 0}):
                yield Row(addmm, (bias, a, b), factors, scale=16, exact=exact)
    for sizes in growing(lambda n: (T((n, 30)), T((30, 21), const=True)), (0, 5, 40)):
        yield Row(mm, scale=4, **sizes)
    for sizes in growing(lambda n: (T((30, n)), T((n, 21))), (1, 5, 40)):
        yield Row(mm, scale=16, **sizes)


def batches() -> Iterator[Row]:
    bmm, baddbmm, linear = "aten::bmm.out", "aten::baddbmm.out", "aten::linear.out"
    for dtype in NUMBERS:
        exact = dtype in HALVES
        for n_batch, m, n, k in ((3, 14, 33, 20), (1, 20, 9, 65), (0, 2, 3, 4), (5, 1, 1, 6)):
            a, b = small((n_batch, m, k), dtype), small((n_batch, k, n), dtype, 1)
            turned = replace(b, order=(0, 2, 1))
            for right, out in (
                (b, None), (turned, None), (replace(b, const=True), (2, 1, 0)),
                (replace(turned, const=True), (0, 2, 1)),
            ):  # fmt: skip
                yield Row(bmm, (a, right), scale=4, exact=exact, out_order=out)
            for shape in ((n,), (m, 1), (1, 1, n), (n_batch, m, n)):
                c = small(shape, dtype, 2)
                if dtype in FLOATS:
                    yield Row(baddbmm, (c, a, b), scale=4, exact=exact)
                    args = (c, a, replace(b, const=True))
                    yield Row(baddbmm, args, {"beta": 0.5, "alpha": 2}, scale=8, exact=exact)
    for dtype, lead in itertools.product(FLOATS, ((), (7,), (2, 3), (2, 0, 3), (1, 40))):
        x, w = small((*lead, 40), dtype), small((37, 40), dtype, 1)
        for bias, const in itertools.product((None, small((37,), dtype, 2)), (False, True)):
            given = (x, replace(w, const=const), bias)
            yield Row(linear, given, scale=4, exact=dtype in HALVES)
    for sizes in growing(
        lambda n: (T((n, 3, 40)), T((37, 40), seed=1, const=True), T((37,))), (0, 2, 9)
    ):
        yield Row(linear, scale=32, **sizes)
    for dtype in (torch.complex64, torch.complex128):
        for n_batch, m, n, k in ((3, 4, 5, 6), (1, 1, 1, 1), (0, 2, 3, 4)):
            yield Row(bmm, (T((n_batch, m, k), dtype), T((n_batch, k, n), dtype, seed=1)), scale=16)


def rows() -> Iterator[Row]:
    yield from matrices()
    yield from batches()
