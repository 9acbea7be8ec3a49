"""Rows of matrix products and convolutions: dtypes, layouts, constant weights, empty sides.

Weights are constant in some rows, so that the prepare step packs them, and not in others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from table.row import FLOATS, HALVES, INTS, NUMBERS, WIDE, Row, T, growing

F32 = torch.float32
# m, n, k: around the tile and block sizes, and with nothing in one of them
SHAPES = [(1, 1, 1), (3, 5, 7), (1, 64, 33), (14, 32, 16), (15, 33, 65), (29, 97, 130),
          (0, 4, 3), (4, 0, 3), (4, 5, 0)]  # fmt: skip
Pair = tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None]
LAYOUTS: list[Pair] = [
    (a, b, out)
    for a, b, out in itertools.product((None, (1, 0)), repeat=3)
    if (a, b, out) != (None, None, None)
]


def _matrix(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0, **how: Any) -> T:
    """Small elements: sums of products do not cancel to nothing."""
    low, high = (-9, 9) if not dtype.is_floating_point else (-0.5, 0.5)
    return T(shape, dtype, low, high, seed=seed, **how)


def matrices() -> Iterator[Row]:
    mm, addmm = "aten::mm.out", "aten::addmm.out"
    for dtype in NUMBERS:
        exact = dtype in HALVES
        for m, n, k in SHAPES:
            a, b = _matrix((m, k), dtype), _matrix((k, n), dtype, 1)
            bias = _matrix((n,), dtype, 2)
            for left, right in ((a, b), (a, replace(b, const=True)), (replace(a, const=True), b)):
                yield Row(mm, (left, right), scale=4, exact=exact)
                yield Row(addmm, (bias, left, right), scale=4, exact=exact)
        a, b = _matrix((17, 30), dtype), _matrix((30, 21), dtype, 1)
        for of_a, of_b, out in LAYOUTS:
            for const in (False, True):
                args = (replace(a, order=of_a), replace(b, order=of_b, const=const))
                yield Row(mm, args, scale=4, exact=exact, out_order=out)
        for shape in ((21,), (1,), (), (1, 21), (17, 1), (17, 21)):
            bias = _matrix(shape, dtype, 2)
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
            a, b = _matrix((n_batch, m, k), dtype), _matrix((n_batch, k, n), dtype, 1)
            turned = replace(b, order=(0, 2, 1))
            for right, out in (
                (b, None), (turned, None), (replace(b, const=True), (2, 1, 0)),
                (replace(turned, const=True), (0, 2, 1)),
            ):  # fmt: skip
                yield Row(bmm, (a, right), scale=4, exact=exact, out_order=out)
            for shape in ((n,), (m, 1), (1, 1, n), (n_batch, m, n)):
                c = _matrix(shape, dtype, 2)
                if dtype in FLOATS:
                    yield Row(baddbmm, (c, a, b), scale=4, exact=exact)
                    args = (c, a, replace(b, const=True))
                    yield Row(baddbmm, args, {"beta": 0.5, "alpha": 2}, scale=8, exact=exact)
    for dtype, lead in itertools.product(FLOATS, ((), (7,), (2, 3), (2, 0, 3), (1, 40))):
        x, w = _matrix((*lead, 40), dtype), _matrix((37, 40), dtype, 1)
        for bias, const in itertools.product((None, _matrix((37,), dtype, 2)), (False, True)):
            given = (x, replace(w, const=const), bias)
            yield Row(linear, given, scale=4, exact=dtype in HALVES)
    for sizes in growing(
        lambda n: (T((n, 3, 40)), T((37, 40), seed=1, const=True), T((37,))), (0, 2, 9)
    ):
        yield Row(linear, scale=32, **sizes)
    for dtype in (torch.complex64, torch.complex128):
        for n_batch, m, n, k in ((3, 4, 5, 6), (1, 1, 1, 1), (0, 2, 3, 4)):
            yield Row(bmm, (T((n_batch, m, k), dtype), T((n_batch, k, n), dtype, seed=1)), scale=16)


@dataclass(frozen=True)
class Convolution:
    """x and w are shapes; w is torch's weight shape."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    transposed: bool = False
    output_padding: int | tuple[int, ...] = 0

    @property
    def out_channels(self) -> int:
        return self.w[1] * self.groups if self.transposed else self.w[0]

    def arguments(self) -> tuple[Any, ...]:
        n = len(self.x) - 2

        def listed(v: int | tuple[int, ...]) -> list[int]:
            return [v] * n if isinstance(v, int) else list(v)

        return (
            listed(self.stride), listed(self.padding), listed(self.dilation), self.transposed,
            listed(self.output_padding), self.groups,
        )  # fmt: skip


C = Convolution
CONVOLUTIONS = [
    C((2, 20, 9, 8), (33, 20, 1, 1)),
    C((2, 40, 3, 5), (48, 40, 1, 1)),
    C((3, 17, 1, 1), (35, 17, 1, 1)),
    C((1, 6, 9, 9), (8, 6, 1, 1), stride=2),
    C((1, 6, 5, 5), (8, 6, 1, 1), padding=1),
    C((2, 5, 11, 13), (18, 5, 3, 3), padding=1),
    C((1, 3, 17, 15), (32, 3, 3, 3), stride=2, padding=1),
    C((1, 40, 7, 7), (33, 40, 3, 3), padding=1),
    C((1, 3, 15, 15), (16, 3, 7, 7), stride=2, padding=3),
    C((1, 3, 6, 45), (20, 3, 3, 5), stride=(2, 1), padding=(1, 2)),
    C((1, 4, 12, 17), (6, 4, 2, 5), stride=(3, 2), padding=(1, 2), dilation=(2, 1)),
    C((1, 4, 12, 12), (6, 4, 3, 3), padding=4, dilation=4),
    C((1, 2, 3, 3), (4, 2, 3, 3), padding=5),
    C((2, 3, 5, 6), (7, 3, 5, 6)),
    C((2, 12, 9, 9), (24, 4, 3, 3), padding=1, groups=3),
    C((1, 32, 6, 6), (32, 8, 1, 1), groups=4),
    C((2, 19, 14, 14), (19, 1, 3, 3), padding=1, groups=19),
    C((1, 8, 23, 21), (8, 1, 3, 3), stride=2, padding=1, groups=8),
    C((1, 9, 9, 30), (9, 1, 5, 5), padding=2, groups=9),
    C((1, 4, 20, 18), (4, 1, 3, 3), padding=2, dilation=2, groups=4, stride=2),
    C((2, 6, 8, 9), (18, 1, 3, 3), padding=1, groups=6),
    C((2, 6, 40), (6, 1, 4), padding=3, groups=6),
    C((2, 7, 30), (9, 7, 5), padding=2),
    C((1, 4, 51), (40, 4, 8), stride=4, dilation=2, padding=3),
    C((1, 3, 4, 5, 6), (5, 3, 3, 3, 3), padding=1),
    C((2, 4, 5, 5, 7), (6, 2, 3, 1, 2), stride=(2, 1, 3), padding=(1, 0, 1), groups=2),
    C((2, 5, 6, 7), (5, 8, 3, 3), transposed=True),
    C((1, 6, 5, 6), (6, 4, 3, 3), 2, 1, output_padding=1, transposed=True),
    C((1, 6, 5, 6), (6, 4, 2, 2), 2, groups=3, transposed=True),
    C((1, 3, 5, 5), (3, 4, 3, 3), 3, 2, 2, transposed=True),
    C((1, 6, 9, 9), (6, 1, 4, 4), 2, 1, groups=6, transposed=True),
    C((1, 4, 9), (4, 6, 5), 3, 1, output_padding=2, transposed=True),
    C((1, 2, 3, 4, 5), (2, 3, 3, 3, 3), 2, 1, transposed=True),
    C((2, 5, 4, 6), (5, 7, 2, 1), (5, 3), output_padding=(4, 2), transposed=True),
    C((0, 3, 8, 8), (4, 3, 3, 3)),
]
CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def exact_integers(x: torch.Tensor, w: torch.Tensor, b: Any, *args: Any) -> torch.Tensor:
    """Eager's narrow integers overflow in their own way: f64 is exact here, then wraps."""
    wide = None if b is None else b.double()
    result: torch.Tensor = torch.ops.aten.convolution(x.double(), w.double(), wide, *args)
    return result.to(torch.int64).to(x.dtype)


def convolutions() -> Iterator[Row]:
    op = "aten::convolution.out"
    for case in CONVOLUTIONS:
        last = CHANNELS_LAST[len(case.x)]
        for dtype in (*FLOATS, *INTS):
            x, w = _matrix(case.x, dtype), _matrix(case.w, dtype, 1)
            bias = _matrix((case.out_channels,), dtype, 2)
            how: dict[str, Any] = {"scale": 4, "exact": dtype in HALVES}
            if dtype in INTS:
                how = {"reference": exact_integers}
            const = replace(w, const=True)
            yield Row(op, (x, const, bias, *case.arguments()), **how)
            if dtype in INTS:
                continue
            yield Row(op, (x, w, None, *case.arguments()), **how)
            args = (replace(x, order=last), const, bias, *case.arguments())
            yield Row(op, args, out_order=last, **how)
        x, w = _matrix(case.x, F32), _matrix(case.w, F32, 1)
        rest = (None, *case.arguments())
        back = tuple(range(len(case.x)))[::-1]
        yield Row(op, (x, replace(w, order=last), *rest), scale=4, out_order=back)
        yield Row(op, (replace(x, order=back), replace(w, const=True), *rest), scale=4,
                  out_order=tuple(range(len(case.x))))  # fmt: skip
        if case.x[0] > 0:
            for sizes in growing(
                lambda n, c=case: (
                    _matrix((n, *c.x[1:]), F32), _matrix(c.w, F32, 1, const=True), None,
                    *c.arguments(),
                ), (1, 2, 4),
            ):  # fmt: skip
                yield Row(op, scale=4, **sizes)


def gradients() -> Iterator[Row]:
    op = "aten::convolution_backward.out"
    for case in CONVOLUTIONS:
        if math.prod(case.x) * math.prod(case.w[1:]) > 60_000 or case.x[0] == 0:
            continue
        x, w = torch.empty(case.x), torch.empty(case.w)
        shape = tuple(torch.ops.aten.convolution(x, w, None, *case.arguments()).shape)
        for dtype in WIDE:
            given = (_matrix(shape, dtype, 3), _matrix(case.x, dtype), _matrix(case.w, dtype, 1))
            args = (*given, [case.out_channels], *case.arguments(), [True, True, True])
            yield Row(op, args, scale=16)


def rows() -> Iterator[Row]:
    yield from matrices()
    yield from batches()
    yield from convolutions()
    yield from gradients()
