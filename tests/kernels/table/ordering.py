"""Rows of operators that compare elements with each other: sorting, searching, counting."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from kernels.table.row import FLOATS, INTS, NUMBERS, REAL, Row, T, growing
from support.element_samples import orders

F32, I64, B8 = torch.float32, torch.int64, torch.bool
NAN, INF = float("nan"), float("inf")
STRANGE = (0.0, NAN, -0.0, -INF, 1.5, 0.0, NAN, INF, -1.5, 3.0, 2.0, -7.0)


def stable_sort(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Our sort is always stable, so that indices are defined; eager's default is not."""
    names = dict(zip(("dim", "descending"), args, strict=False)) | kwargs
    return torch.sort(x.contiguous(), **(names | {"stable": True}))


def sorts() -> Iterator[Row]:
    op = "aten::sort.values"
    for dtype, down in itertools.product(REAL, (False, True)):
        for shape in ((), (1,), (7,), (40,), (3, 50), (4, 5, 18), (0, 3), (3, 0)):
            for dim in dict.fromkeys((-1, 0)):
                x = T(shape, dtype, -30, 30, whole=True)
                yield Row(op, (x, dim, down), reference=stable_sort)
                given = {"stable": True, "dim": dim, "descending": down}
                yield Row("aten::sort.values_stable", (x,), given, reference=stable_sort)
        for order in orders(3):
            x = T((4, 5, 18), dtype, -30, 30, tuple(order), whole=True)
            yield Row(op, (x, 1, down), reference=stable_sort)
        if dtype.is_floating_point:
            x = T((3, 4), dtype, values=STRANGE)
            yield from (Row(op, (x, dim, down), reference=stable_sort) for dim in (0, 1))
    for sizes in growing(lambda n: (T((n, 7)), 0, False), (0, 4, 40)):
        yield Row(op, reference=stable_sort, **sizes)


def largest() -> Iterator[Row]:
    """Distinct elements, so that indices are defined."""
    values = tuple(range(1, 61))
    mixed = tuple(values[i * 37 % 60] for i in range(60))
    for dtype, big, in_order in itertools.product(NUMBERS, (True, False), (True,)):
        for shape, k, dim in (((60,), 7, 0), ((3, 20), 4, -1), ((3, 20), 2, 0), ((5, 4, 3), 4, 1),
                              ((60,), 60, 0), ((60,), 40, 0), ((60,), 0, 0)):  # fmt: skip
            x = T(shape, dtype, values=mixed)
            yield Row("aten::topk.values", (x, k, dim, big, in_order))
    for order, dim in itertools.product(orders(3), (0, 1, 2)):
        x = T((5, 4, 3), F32, order=tuple(order), values=mixed)
        yield Row("aten::topk.values", (x, 2, dim))
        x = T((3, 67, 2), F32, order=tuple(order), values=tuple(i * 37 % 402 for i in range(402)))
        yield Row("aten::topk.values", (x, 50, 1))


def searches() -> Iterator[Row]:
    op = "aten::searchsorted.Tensor_out"
    for dtype, other in itertools.product(NUMBERS, NUMBERS):
        bounds = T((23,), dtype, 0, 40, whole=True, sorted=True)
        x = T((4, 7), other, 0, 40, whole=True)
        for right in (False, True):
            yield Row(op, (bounds, x), {"right": right})
    for dtype, shape in itertools.product(NUMBERS, ((5,), (3, 5), (2, 3, 5), (0,), (3, 0))):
        bounds = T(shape, dtype, 0, 9, whole=True, sorted=True)
        x = T((*shape[:-1], 4), dtype, 0, 9, whole=True)
        for side, narrow in itertools.product(("left", "right"), (False, True)):
            yield Row(op, (bounds, x), {"side": side, "out_int32": narrow})
    for dtype, number in itertools.product(NUMBERS, (3, 2.5, 0, 1000)):
        bounds = T((23,), dtype, 0, 40, whole=True, sorted=True)
        yield Row("aten::searchsorted.Scalar_out", (bounds, number))


def counts() -> Iterator[Row]:
    for dtype in INTS:
        x = T((50,), dtype, 0, 9)
        for least in (0, 5, 20):
            yield Row("aten::bincount.out", (x, None, least))
        for weight in FLOATS[:2]:
            yield Row("aten::bincount.out", (x, T((50,), weight, seed=1)), scale=8)
        yield Row("aten::bincount.out", (T((0,), dtype), None, 3))
    for dtype in FLOATS[:2]:
        for shape, bins, low, high in (((50,), 10, 0, 0), ((3, 17), 7, -2, 3), ((5,), 1, -1, 1)):
            yield Row("aten::histc.out", (T(shape, dtype), bins, low, high))
        for density in (False, True):
            args = (T((50,), dtype), 10)
            yield Row("aten::histogram.bin_ct_out", args, {"density": density}, scale=4)
            edges = T((8,), dtype, -4, 4, sorted=True, seed=1)
            yield Row(
                "aten::histogram.bins_tensor_out", (args[0], edges), {"density": density}, scale=4
            )
    for dtype in REAL:
        for shape in ((30,), (5, 6), (0,), (1,)):
            x = T(shape, dtype, 0, 5, whole=True)
            for inverse, count in itertools.product((False, True), repeat=2):
                yield Row(
                    "aten::_unique2.out", (x, True, inverse, count), reference=_unique(inverse)
                )
                yield Row("aten::unique_consecutive.out", (x, inverse, count))


def _unique(inverse: bool) -> Any:
    """Eager always returns the inverse; ours is empty unless it is requested."""

    def result(x: torch.Tensor, in_order: bool, wants: bool, count: bool) -> Any:
        values, places, counts = torch.ops.aten._unique2(x, in_order, wants, count)
        return values, places if inverse else torch.empty(0, dtype=torch.int64), counts

    return result


def rows() -> Iterator[Row]:
    yield from sorts()
    yield from largest()
    yield from searches()
    yield from counts()
