"""Rows of operators that create tensors from nothing or from a number, and of rarer functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from kernels.table.row import FLOATS, INTS, NUMBERS, REAL, WIDE, Row, T

SHAPES: list[tuple[int, ...]] = [(), (0,), (3,), (2, 0, 3), (2, 3, 4), (1, 701)]
VALUES: list[Any] = [0, 1, 7, 2.75, True]


def filled() -> Iterator[Row]:
    for dtype, shape in itertools.product(REAL, SHAPES):
        given: dict[str, Any] = {"out_dtype": dtype}
        like = T(shape, dtype)
        for value in VALUES:

            def full(*_: Any, s: Any = shape, v: Any = value, d: Any = dtype) -> torch.Tensor:
                return torch.full(s, v, dtype=d)

            yield Row("aten::full.out", (list(shape), value), reference=full, **given)
            yield Row("aten::full_like.out", (like, value), reference=full)
            yield Row("aten::fill.Scalar_out", (like, value), reference=full)
            number = T((), torch.float64, values=(float(value),))
            yield Row("aten::fill.Tensor_out", (like, number), reference=full)
        yield Row("aten::zeros.out", (list(shape),), reference=torch.zeros, **given)
        yield Row("aten::ones.out", (list(shape),), reference=torch.ones, **given)
    for dtype, value in itertools.product(REAL, (0, 7, 2.5, True)):
        yield Row("aten::scalar_tensor.out", (value,), out_dtype=dtype)


# start, end, step
STEPS = [
    (0, 10, 1),
    (5, -6, -3),
    (2, 2, 1),
    (0.5, 3.0, 0.25),
    (0, 1, 0.1),
    (-3, 4.5, 2),
    (0, 100, 7),
]


def ranges() -> Iterator[Row]:
    for dtype, (start, end, step) in itertools.product(NUMBERS, STEPS):
        whole = all(isinstance(v, int) for v in (start, end, step))
        if not dtype.is_floating_point and not whole:
            continue
        if dtype == torch.uint8 and (start < 0 or end < 0):
            continue

        def made(a: Any, b: Any, c: Any, d: Any = dtype) -> torch.Tensor:
            return torch.arange(a, b, c, dtype=d)

        yield Row("aten::arange.start_out", (start, end, step), reference=made, out_dtype=dtype)
    for dtype, last in itertools.product(FLOATS, (7, 3.5, 0)):

        def until(b: Any, d: Any = dtype) -> torch.Tensor:
            return torch.arange(b, dtype=d)

        yield Row("aten::arange.out", (last,), reference=until, out_dtype=dtype)


def rare_functions() -> Iterator[Row]:
    """Rows of two operands, compared with eager's f64, rounded once."""

    def rounded(name: str) -> Any:
        function = getattr(torch.ops.aten, name)

        def result(*args: Any) -> torch.Tensor:
            to = next(a.dtype for a in args if isinstance(a, torch.Tensor))
            wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
            value: torch.Tensor = function(*wide).to(to)
            return value

        return result

    for dtype, (left, right) in itertools.product(
        FLOATS, (((3, 5), (3, 5)), ((4, 1), (3,)), ((), (5,)), ((0, 3), (3,)), ((2, 3, 4), ()))
    ):
        for name in ("igamma", "igammac"):
            args = (T(left, dtype, 0.2, 8), T(right, dtype, 0.2, 8, seed=1))
            if dtype in WIDE:
                yield Row(f"aten::{name}.out", args, scale=8, reference=rounded(name))
        args = (T(left, dtype, 1.5, 8), T(right, dtype, 0.5, 8, seed=1))
        if dtype in WIDE:
            yield Row("aten::special_zeta.out", args, scale=8, reference=rounded("special_zeta"))
            args = (T(left, dtype), T(right, dtype, seed=1))
            yield Row("aten::nextafter.out", args)
    for dtype, order in itertools.product(WIDE, (0, 1, 2, 3)):
        x = T((3, 7), dtype, 0.5, 9)
        yield Row(
            "aten::polygamma.out",
            (order, x),
            scale=32,
            reference=lambda n, x: torch.ops.aten.polygamma(n, x.double()).to(x.dtype),
        )
    for dtype, shape in itertools.product(FLOATS, ((), (3, 5), (0,), (2, 3, 4))):
        if dtype in WIDE:
            yield Row("aten::frexp.Tensor_out", (T(shape, dtype, -1000, 1000),))
    special = (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-30, 0.75)
    for dtype in WIDE:
        yield Row("aten::frexp.Tensor_out", (T((5,), dtype, values=special[:3] + special[6:]),))
    for dtype in INTS:
        yield Row("aten::gcd.out", (T((3, 5), dtype), T((5,), dtype, seed=1)))


def rows() -> Iterator[Row]:
    yield from filled()
    yield from ranges()
    yield from rare_functions()
