"""Rows of operators over windows: pooling and its gradients, resampling, sampling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from kernels.table.row import FLOATS, HALVES, NUMBERS, WIDE, Row, T, growing

F32, I64 = torch.float32, torch.int64
LAST = {3: (1, 2, 0), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}

# input shape; kernel, stride, padding, dilation, ceil_mode
MAX_POOLS: list[tuple[tuple[int, ...], list[Any]]] = [
    ((2, 3, 13, 17), [[3, 3], [2, 2], [1, 1], [1, 1], False]),
    ((1, 2, 12, 10), [[2, 2], [], [0, 0], [1, 1], False]),
    ((3, 9, 11), [[3, 2], [2, 3], [1, 1], [1, 1], True]),
    ((1, 1, 15, 60), [[2, 3], [1, 1], [1, 1], [2, 3], True]),
    ((1, 2, 7, 7), [[7, 7], [1, 1], [3, 3], [1, 1], False]),
    ((1, 1, 5, 5), [[2, 2], [4, 4], [1, 1], [1, 1], True]),
    ((0, 2, 5, 5), [[2, 2], [2, 2], [0, 0], [1, 1], False]),
    ((2, 19, 9, 8), [[3, 3], [1, 1], [1, 1], [1, 1], False]),
    ((1, 21, 31, 31), [[3, 3], [2, 2], [0, 0], [1, 1], True]),
    ((9, 2, 1), [[3, 2], [1, 3], [1, 1], [1, 1], False]),
    ((1, 33, 6, 7), [[2, 3], [3, 2], [1, 1], [2, 3], True]),
]
MAX_POOLS_3D: list[tuple[tuple[int, ...], list[Any]]] = [
    ((2, 3, 6, 7, 9), [[2, 3, 3], [1, 2, 2], [1, 1, 1], [1, 1, 2], True]),
    ((3, 6, 7, 9), [[2, 2, 2], [], [0, 0, 0], [1, 1, 1], False]),
]
# kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
AVG_POOLS: list[tuple[tuple[int, ...], list[Any]]] = [
    ((2, 3, 13, 17), [[3, 3], [2, 2], [1, 1], False, True, None]),
    ((2, 3, 13, 17), [[3, 3], [2, 2], [1, 1], True, True, None]),
    ((2, 3, 13, 17), [[3, 3], [2, 2], [1, 1], True, False, None]),
    ((3, 8, 9), [[2, 4], [], [1, 2], True, False, 3]),
    ((1, 2, 6, 30), [[2, 2], [1, 1], [0, 0], False, True, -2]),
    ((2, 19, 9, 8), [[3, 3], [1, 1], [1, 1], False, True, None]),
    ((1, 21, 30, 33), [[3, 3], [2, 2], [1, 1], True, False, None]),
    ((37, 1, 1), [[3, 3], [1, 1], [1, 1], False, False, None]),
    ((1, 10, 90, 3), [[4, 3], [3, 1], [2, 1], False, True, 7]),
]
AVG_POOLS_3D: list[tuple[tuple[int, ...], list[Any]]] = [
    ((2, 3, 6, 7, 9), [[2, 3, 3], [2, 2, 1], [1, 1, 0], True, False, None]),
    ((3, 6, 7, 9), [[3, 2, 2], [], [1, 1, 1], False, True, 5]),
]
ADAPTIVE: list[tuple[tuple[int, ...], list[int]]] = [
    ((2, 3, 7, 7), [1, 1]),
    ((1, 2, 10, 13), [3, 5]),
    ((3, 5, 6), [7, 9]),
    ((2, 21, 7, 6), [3, 4]),
    ((70, 4, 4), [1, 1]),
    ((1, 1, 4, 60), [2, 2]),
    ((0, 2, 4, 4), [3, 3]),
    ((2, 3, 4, 7, 5), [3, 4, 2]),
    ((2, 4, 7, 5), [2, 1, 5]),
]


def _whole(shape: tuple[int, ...], dtype: torch.dtype, order: Any = None) -> T:
    return T(shape, dtype, -20, 20, order, whole=True)


def _in_layouts(op: str, shape: tuple[int, ...], args: Any, how: dict[str, Any]) -> Iterator[Row]:
    last, back = LAST[len(shape)], tuple(range(len(shape)))[::-1]
    pairs: list[tuple[Any, Any]] = [
        (last, None),
        (last, last),
        (None, last),
        (back, None),
        (None, back),
    ]
    for order, out_order in pairs:
        if "max_pool3d" in op and order is not None and len(shape) == 4:
            continue  # eager refuses volumes without a batch in other layouts
        yield Row(op, (_whole(shape, F32, order), *args), out_order=out_order, **how)


def pools() -> Iterator[Row]:
    tables = [
        ("max_pool2d_with_indices", MAX_POOLS, NUMBERS), ("avg_pool2d", AVG_POOLS, [*FLOATS, I64]),
        ("max_pool3d_with_indices", MAX_POOLS_3D, WIDE), ("avg_pool3d", AVG_POOLS_3D, WIDE),
    ]  # fmt: skip
    for name, cases, dtypes in tables:
        op = f"aten::{name}.out"
        for shape, args in cases:
            for dtype in dtypes:
                exact = dtype in HALVES and name.startswith("avg")
                yield Row(op, (_whole(shape, dtype), *args), scale=2, exact=exact)
            yield from _in_layouts(op, shape, args, {"scale": 2})
            if shape[0] > 0:
                for sizes in growing(
                    lambda n, s=shape, a=args: (_whole((n, *s[1:]), F32), *a), (1, 2, 4)
                ):
                    yield Row(op, scale=2, **sizes)
    for shape, size in ADAPTIVE:
        flat = len(size) == 2
        mean = "aten::_adaptive_avg_pool2d.out" if flat else "aten::_adaptive_avg_pool3d.out"
        largest = "aten::adaptive_max_pool2d.out" if flat else "aten::adaptive_max_pool3d.out"
        for dtype in FLOATS:
            given = (_whole(shape, dtype), size)
            yield Row(mean, given, scale=2, exact=dtype in HALVES)
            if 0 not in shape:
                yield Row(largest, given)
        if 0 not in shape:
            yield from _in_layouts(mean, shape, (size,), {"scale": 2})
            yield from _in_layouts(largest, shape, (size,), {})


def gradients() -> Iterator[Row]:
    for cases, name in ((AVG_POOLS, "avg_pool2d"), (AVG_POOLS_3D, "avg_pool3d")):
        pool = getattr(torch.ops.aten, name)
        for (shape, args), dtype in itertools.product(cases, FLOATS):
            grad = tuple(pool(torch.empty(shape), *args).shape)
            given = (_whole(grad, dtype), _whole(shape, dtype), *args)
            op = f"aten::{name}_backward.grad_input"
            yield Row(op, given, scale=4, exact=dtype in HALVES)
    for (shape, size), dtype in itertools.product(ADAPTIVE, WIDE):
        grad = (*shape[: len(shape) - len(size)], *size)
        name = f"aten::_adaptive_avg_pool{len(size)}d_backward.out"
        if 0 not in shape:
            yield Row(name, (_whole(grad, dtype), _whole(shape, dtype)), scale=4)

    # windows that do not overlap: indices are known in advance
    indices = T((1, 2, 2, 2), I64, values=(0, 3, 9, 11, 1, 2, 8, 15))
    for dtype in FLOATS:
        args = (_whole((1, 2, 2, 2), dtype), _whole((1, 2, 4, 4), dtype))
        rest = ([2, 2], [2, 2], [0, 0], [1, 1], False, indices)
        yield Row("aten::max_pool2d_with_indices_backward.grad_input", (*args, *rest))


BYTE_IMAGES = [(2, 3, 7, 5), (1, 6, 31, 70), (1, 1, 1, 9)]


def resampling() -> Iterator[Row]:
    """Sizes, or factors; corners aligned or not."""
    sizes: list[tuple[list[int] | None, list[float] | None]] = [
        ([10, 13], None), ([3, 2], None), ([7, 5], None), ([1, 1], None),
        (None, [2.0, 2.0]), (None, [1.7, 0.6]),
    ]  # fmt: skip
    for dtype, (size, factors) in itertools.product(FLOATS, sizes):
        exact = dtype in HALVES
        for order in (None, (0, 2, 3, 1)):
            x = T((2, 3, 7, 5), dtype, order=order)
            nearest, linear = (
                "aten::upsample_nearest2d.vec_out",
                "aten::upsample_bilinear2d.vec_out",
            )
            yield Row(nearest, (x, size, factors))
            for align in (False, True):
                yield Row(linear, (x, size, align, factors), scale=8, exact=exact)
                if size is not None:
                    op = "aten::_upsample_bilinear2d_aa.out"
                    yield Row(op, (x, size, align, None, None), scale=8, exact=exact)
    # Eager fails on bytes that keep their size, and differs from itself where the width becomes 1.
    sizes = [*(s for s in sizes if s[0] != [1, 1]), ([20, 2], None), ([1, 64], None)]
    for (size, factors), align, shape in itertools.product(sizes, (False, True), BYTE_IMAGES):
        for order in (None, (0, 2, 3, 1)):
            x = T(shape, torch.uint8, 0, 256, order=order)
            if size is None or size != [*shape[2:]]:
                yield Row("aten::upsample_bilinear2d.vec_out", (x, size, align, factors))
                given = (size or [20, 21], align, None, None)
                yield Row("aten::_upsample_bilinear2d_aa.out", (x, *given))
    for dtype in FLOATS:
        modes = itertools.product((0, 1, 2), (0, 1, 2), (False, True))
        for mode, padding, align in modes:
            x, grid = T((2, 3, 7, 5), dtype), T((2, 4, 6, 2), dtype, -1.5, 1.5)
            args = (x, grid, mode, padding, align)
            yield Row("aten::grid_sampler_2d.out", args, scale=8, exact=dtype in HALVES)
            if mode < 2:
                x, grid = T((1, 2, 4, 7, 5), dtype), T((1, 3, 4, 6, 3), dtype, -1.5, 1.5)
                args = (x, grid, mode, padding, align)
                yield Row("aten::grid_sampler_3d.out", args, scale=8, exact=dtype in HALVES)


def distances() -> Iterator[Row]:
    for dtype, p in itertools.product(WIDE, (0.0, 0.5, 1.0, 2.0, 3.0, float("inf"))):
        for left, right in (
            ((5, 3), (4, 3)),
            ((2, 5, 3), (2, 4, 3)),
            ((0, 3), (4, 3)),
            ((2, 0), (3, 0)),
        ):
            args = (T(left, dtype), T(right, dtype, seed=1), p, 2)
            yield Row("aten::_cdist_forward.out", args, scale=8)
        for shape in ((5, 3), (1, 3), (2, 7)):
            yield Row("aten::_pdist_forward.out", (T(shape, dtype), p), scale=8)


def rows() -> Iterator[Row]:
    yield from pools()
    yield from gradients()
    yield from resampling()
    yield from distances()
