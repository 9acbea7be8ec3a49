"""Rows of operators that read and write by index: index, gather, scatter, masks, embeddings.

Indices are inside their bounds (named tests cover the refusals), repeat where the result does not
depend on the order of writes, and are i64 and i32.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from kernels.table.row import COMPLEX, FLOATS, NUMBERS, REAL, Row, T, growing
from support.element_samples import orders

F32, I64, I32, B8 = torch.float32, torch.int64, torch.int32, torch.bool


def _whole(shape: tuple[int, ...], dtype: torch.dtype, order: Any = None, seed: int = 0) -> T:
    return T(shape, dtype, -9, 9, order, whole=True, seed=seed)


def at(shape: tuple[int, ...], size: int, dtype: torch.dtype = I64, low: int = 0) -> T:
    """Indices into a dimension of a size."""
    return T(shape, dtype, low, size, seed=3)


def ints(*values: int) -> T:
    return T((len(values),), I64, values=values)


def mask(*shape: int) -> T:
    return T(shape, B8, seed=5)


# shape of the tensor, indices
LISTS: list[tuple[tuple[int, ...], list[T | None]]] = [
    ((5,), [ints(3, 0, -1, 3)]),
    ((5,), [at((2, 2), 5, low=-5)]),
    ((5,), [T((), I64, values=(2,))]),
    ((5,), [at((0,), 5)]),
    ((5, 4), [at((3,), 5)]),
    ((5, 4), [None, at((2,), 4)]),
    ((5, 4), [ints(1, 2, 3), ints(0, -1, 2)]),
    ((5, 4), [at((2, 1), 5), at((3,), 4)]),
    ((3, 4, 5), [None, at((2,), 4), at((2,), 5)]),
    ((3, 4, 5), [at((2,), 3), None, at((2,), 5)]),
    ((2, 3, 4, 5), [None, None, at((2, 1), 4), at((3,), 5)]),
    ((2, 3, 4, 5), [at((2,), 2), None, None, at((2, 1), 5)]),
    ((7,), [mask(7)]),
    ((5, 4), [mask(5, 4)]),
    ((5, 4), [None, mask(4)]),
    ((3, 4, 5), [None, mask(4, 5)]),
    ((4, 3), [T((4,), B8, values=(False,) * 4)]),
    ((0, 3), [at((0,), 1)]),
    ((3, 0), [at((2,), 3)]),
    ((600, 3), [at((97,), 600)]),
]


def by_lists() -> Iterator[Row]:
    index, put = "aten::index.Tensor_out", "aten::index_put.out"
    for shape, indices in LISTS:
        for dtype in REAL + COMPLEX:
            yield Row(index, (_whole(shape, dtype), indices))
            one = T((), dtype, 2, 3, whole=True)
            yield Row(put, (_whole(shape, dtype), indices, one, False))
            if dtype != B8:
                yield Row(put, (_whole(shape, dtype), indices, one, True))
        for order in orders(len(shape)):
            yield Row(index, (_whole(shape, F32, tuple(order)), indices))
            x = _whole(shape, F32, tuple(order))
            yield Row(put, (x, indices, T((), F32, 2, 3), True), out_order=tuple(order))
    for dtype in REAL:
        narrow = at((3,), 5, I32)
        yield Row(index, (_whole((5, 4), dtype), [narrow]))
        yield Row("aten::index_select.out", (_whole((5, 4), dtype), 0, narrow))
    for sizes in growing(lambda n: (T((5, 4)), [at((n,), 5)]), (0, 3, 9)):
        yield Row(index, **sizes)
    for sizes in growing(lambda n: (T((n, 4)), [None, ints(3, 1)]), (1, 3, 9)):
        yield Row(index, **sizes)


# shape of the tensor, dimension, shape of the index
PLACES: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((5,), 0, (7,)),
    ((5,), -1, (0,)),
    ((5, 4), 0, (9, 4)),
    ((5, 4), 1, (3, 6)),
    ((3, 4, 5), 1, (2, 7, 5)),
    ((3, 4, 5), -1, (3, 3, 9)),
    ((), 0, ()),
    ((), 0, (1,)),
    ((3,), 0, ()),
]


def by_place() -> Iterator[Row]:
    args: tuple[Any, ...]
    for shape, dim, index_shape in PLACES:
        size = shape[dim] if shape else 1
        index = at(index_shape, size)
        for dtype in REAL + COMPLEX:
            x, source = _whole(shape, dtype), _whole(index_shape, dtype, seed=1)
            yield Row("aten::gather.out", (x, dim, index))
            yield Row("aten::scatter.value_out", (x, dim, index, 1))
            yield Row("aten::scatter_add.out", (x, dim, index, source))
            if dtype in COMPLEX:
                continue
            for way, include in itertools.product(("sum", "prod", "amax", "amin"), (True, False)):
                args = (x, dim, index, source, way)
                yield Row("aten::scatter_reduce.two_out", args, {"include_self": include}, scale=8)
        for order, out_order in itertools.product(orders(len(shape)), orders(len(shape))):
            x = _whole(shape, F32, tuple(order))
            args = (x, dim, index, _whole(index_shape, F32, seed=1))
            yield Row("aten::scatter_add.out", args, out_order=tuple(out_order))
            larger = tuple(n + 1 for n in index_shape)
            given = (x, dim, index, _whole(larger, F32, seed=1))
            yield Row("aten::scatter.src_out", given, out_order=tuple(out_order))
            yield Row("aten::scatter.value_out", (*args[:3], 2.5), out_order=tuple(out_order))
            if len(index_shape) == len(shape):
                yield Row("aten::gather.out", args[:3], out_order=tuple(out_order))
    # a permutation, so that the order of writes does not matter
    places = T((5, 1), I64, values=(3, 0, 4, 1, 2))
    for dtype in REAL + COMPLEX:
        for source_shape in ((5, 4), (6, 2)):  # the index says how much of it is read
            args = (_whole((5, 4), dtype), 0, places, _whole(source_shape, dtype, seed=1))
            yield Row("aten::scatter.src_out", args)
    for dtype, dim in itertools.product(REAL + COMPLEX, (0, 1, -1)):
        x = _whole((4, 4), dtype)
        yield Row("aten::index_select.out", (x, dim, at((7,), 4)))
    for sizes in growing(lambda n: (T((5, 4)), 0, at((n, 4), 5)), (0, 3, 9)):
        yield Row("aten::gather.out", **sizes)


# operator, shape, shape of src, other arguments
WINDOWS: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = [
    ("select_scatter", (5,), (), (0, 2)),
    ("select_scatter", (4, 4), (4,), (0, -2)),
    ("select_scatter", (3, 4, 5), (3, 5), (1, -1)),
    ("select_scatter", (3, 4, 5), (3, 4), (-1, 0)),
    ("slice_scatter", (7,), (7,), ()),
    ("slice_scatter", (7, 3), (2, 3), (0, 2, 4)),
    ("slice_scatter", (7, 3), (3, 3), (0, 1, None, 2)),
    ("slice_scatter", (2, 3, 8), (2, 3, 2), (-1, -6, 100, 4)),
    ("slice_scatter", (7, 3), (0, 3), (0, 5, 2)),
]


def by_window() -> Iterator[Row]:
    for op, shape, source, rest in WINDOWS:
        name = f"aten::{op}.out"
        for dtype in REAL + COMPLEX:
            yield Row(name, (_whole(shape, dtype), _whole(source, dtype, seed=1), *rest))
        for order, out_order in itertools.product(orders(len(shape)), orders(len(shape))):
            args = (_whole(shape, F32, tuple(order)), _whole(source, F32, seed=1), *rest)
            yield Row(name, args, out_order=tuple(out_order))
        yield Row(name, (_whole(shape, F32), _whole(source, torch.int32, seed=1), *rest))


MASKS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((5,), (5,)),
    ((4, 5), (4, 5)),
    ((4, 5), (5,)),
    ((4, 5), (4, 1)),
    ((5,), (3, 5)),
    ((), ()),
    ((), (4,)),
    ((4,), ()),
    ((2, 3, 4), (3, 1)),
    ((0, 4), (4,)),
]


def by_mask() -> Iterator[Row]:
    for shape, mask_shape in MASKS:
        for dtype in REAL + COMPLEX:
            x = _whole(shape, dtype)
            yield Row("aten::masked_select.out", (x, mask(*mask_shape)))
            source = _whole((6, 10), dtype, seed=1)
            yield Row("aten::masked_scatter.out", (x, mask(*mask_shape), source))
        for order in orders(len(shape)):
            x = _whole(shape, F32, tuple(order))
            yield Row("aten::masked_select.out", (x, mask(*mask_shape)))
            yield Row("aten::masked_fill.Scalar_out", (x, mask(*mask_shape), 3.0))
            for source_order in ((0, 1), (1, 0)):
                source = _whole((6, 10), F32, source_order, seed=1)
                yield Row("aten::masked_scatter.out", (x, mask(*mask_shape), source))
    for shape, dtype in itertools.product(((), (7,), (4, 5), (2, 3, 4), (0, 3)), REAL + COMPLEX):
        x = T(shape, dtype, 0, 2, whole=True)
        for out_order in ((0, 1), (1, 0)):
            yield Row("aten::nonzero.out", (x,), out_order=out_order)
            for order in orders(len(shape)):
                turned = T(shape, dtype, 0, 2, tuple(order), whole=True)
                yield Row("aten::nonzero.out", (turned,), out_order=out_order)


def embeddings() -> Iterator[Row]:
    op = "aten::embedding.out"
    for dtype, index_type in itertools.product(REAL, (I64, I32)):
        for shape in ((5,), (2, 3, 4), (), (0, 2)):
            table = _whole((10, 7), dtype)
            yield Row(op, (table, at(shape, 10, index_type)))
            yield Row(op, (T((10, 7), dtype, const=True), at(shape, 10, index_type), 3, True))
    for sizes in growing(lambda n: (T((10, 7), const=True), at((n, 2), 10)), (0, 3, 9)):
        yield Row(op, **sizes)
    args: tuple[Any, ...]
    for dtype, mode, padding in itertools.product(FLOATS, (0, 1, 2), (-1, 4)):
        bags = (T((10, 5), dtype, const=True), at((9,), 10), ints(0, 4, 4, 8))
        args = (*bags, False, mode, False, None, False, padding)
        for name in ("_embedding_bag", "_embedding_bag_forward_only"):
            yield Row(f"aten::{name}.out", args, scale=4, exact=dtype.itemsize == 2)
    for dtype in NUMBERS:
        counts = T((6,), I64, values=(0, 2, 1, 0, 3, 1))
        yield Row("aten::repeat_interleave.Tensor_out", (counts,))
        x, index = _whole((4, 3), dtype), at((7,), 4)
        for way in ("prod", "amax", "amin"):
            for include in (True, False):
                args = (x, 0, index, _whole((7, 3), dtype, seed=1), way)
                yield Row("aten::index_reduce.out", args, {"include_self": include}, scale=8)


def rows() -> Iterator[Row]:
    yield from by_lists()
    yield from by_place()
    yield from by_window()
    yield from by_mask()
    yield from embeddings()
