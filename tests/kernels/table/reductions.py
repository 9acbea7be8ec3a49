"""Rows of operators over dimensions: reductions, scans, softmax and normalisation.

Every operator runs in all its dtypes over dimensions (negative ones, several, none), with and
without keeping them, over layouts, empty tensors, ties and NaN.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from kernels.table.row import COMPLEX, FLOATS, HALVES, NUMBERS, REAL, WIDE, Row, T, growing

NAN, INF = math.nan, math.inf
F32, I64 = torch.float32, torch.int64
LAST = (0, 2, 3, 1)
# shape, dim order, dimensions
MANY: list[tuple[tuple[int, ...], Any, list[int]]] = [
    ((), None, []),
    ((7,), None, [0]),
    ((3, 5), None, [1]),
    ((3, 5), (1, 0), [0]),
    ((3, 5), None, [0, 1]),
    ((2, 3, 4, 5), None, [-1]),
    ((2, 3, 4, 5), None, [1]),
    ((2, 3, 4, 5), None, [0, 2]),
    ((2, 3, 4, 5), None, [-1, 1]),
    ((2, 3, 4, 5), LAST, [2, 3]),
    ((2, 3, 4, 5), LAST, [1]),
    ((2, 3, 4, 5), (3, 2, 1, 0), [0, -1]),
    ((2, 3, 4, 5), None, []),
    ((1, 1, 1), None, [1]),
    ((0, 3), None, [1]),
    ((13, 97), None, [1]),
    ((97, 13), None, [0]),
]
EMPTY: list[tuple[tuple[int, ...], Any, list[int]]] = [
    ((0, 3), None, [0]),
    ((2, 0, 3), None, [1, 2]),
]
ONE: list[tuple[tuple[int, ...], Any, int]] = [
    ((), None, 0),
    ((), None, -1),
    ((7,), None, 0),
    ((3, 5), None, -1),
    ((3, 5), (1, 0), 0),
    ((2, 3, 4, 5), None, 1),
    ((2, 3, 4, 5), None, -1),
    ((2, 3, 4, 5), LAST, 1),
    ((2, 3, 4, 5), LAST, 3),
    ((2, 3, 4, 5), (3, 2, 1, 0), 0),
    ((2, 3, 4, 5), (0, 1, 3, 2), 2),
    ((0, 3), None, 1),
    ((13, 97), None, 1),
    ((97, 13), None, 0),
]
STRANGE = (1.0, NAN, INF, -INF, 0.0, -0.0, NAN, 2.0, 2.0, -3.0, -INF, INF)


@dataclass(frozen=True)
class Reduction:
    """dims: how dimensions are given: a list, one number, or not at all."""

    op: str
    dtypes: Sequence[torch.dtype]
    dims: str = "list"
    low: float = -4.0
    high: float = 4.0
    whole: bool = False
    empty: bool = False  # also where nothing is reduced
    keeps: bool = True
    scale: float = 4.0
    special: bool = True
    kwargs: tuple[tuple[str, Any], ...] = ()


REDUCTIONS = [
    Reduction("sum.IntList_out", REAL, empty=True),
    Reduction("sum.IntList_out", COMPLEX, empty=True),
    Reduction("sum.IntList_out", REAL, kwargs=(("dtype", torch.float64),)),
    Reduction(
        "sum.IntList_out",
        NUMBERS,
        low=0,
        whole=True,
        special=False,
        kwargs=(("dtype", torch.int32),),
    ),
    Reduction("mean.out", FLOATS, empty=True),
    Reduction("mean.out", NUMBERS, kwargs=(("dtype", F32),)),
    Reduction("mean.dtype_out", FLOATS, dims="none"),
    Reduction("amax.out", REAL, whole=True),
    Reduction("amin.out", REAL, whole=True),
    Reduction("any.dims_out", REAL, low=0, high=2, whole=True, empty=True),
    Reduction("any.out", REAL, "one", low=0, high=2, whole=True),
    Reduction("any.all_out", REAL, "none", low=0, high=2, whole=True),
    Reduction("argmax.out", NUMBERS, "one", whole=True),
    Reduction("argmin.out", NUMBERS, "one", whole=True),
    Reduction("max.dim_max", REAL, "one", whole=True),
    Reduction("min.dim_min", REAL, "one", whole=True),
    Reduction("max.unary_out", REAL, "none", whole=True),
    Reduction("min.unary_out", REAL, "none", whole=True),
    Reduction("prod.int_out", REAL, "one", low=-2, high=2, scale=8),
    Reduction("prod.out", REAL, "none", low=0.8, high=1.2, scale=8),
    Reduction("var.correction_out", FLOATS, scale=8, special=False),
    Reduction("var.correction_out", FLOATS, scale=8, special=False, kwargs=(("correction", 0),)),
    Reduction("var.correction_out", WIDE, scale=8, special=False, kwargs=(("correction", 1.5),)),
    Reduction("var_mean.correction_out", FLOATS, scale=8, special=False),
]


def _arguments(r: Reduction, shape: tuple[int, ...], dims: list[int]) -> Iterator[tuple[Any, ...]]:
    if r.dims == "none":
        yield ()
        return
    at: Any = dims if r.dims == "list" else dims[0] if dims else 0
    for keep in (False, True):
        if r.op.startswith(("var.c", "var_mean")):
            yield (at,)
            return
        yield (at, keep)


def reductions() -> Iterator[Row]:
    for r in REDUCTIONS:
        op, kwargs = f"aten::{r.op}", dict(r.kwargs)
        for dtype in r.dtypes:
            exact = dtype in HALVES and "dtype" not in kwargs
            cases = MANY + (EMPTY if r.empty else [])
            seen: set[str] = set()
            for shape, order, dims in cases:
                if r.dims != "list" and (len(dims) > 1 or (r.dims == "none" and 0 in shape)):
                    continue
                t = T(shape, dtype, r.low, r.high, order, whole=r.whole)
                for args in _arguments(r, shape, dims):
                    row = Row(op, (t, *args), kwargs, scale=r.scale, exact=exact)
                    if repr(row) not in seen:
                        yield row
                    seen.add(repr(row))
            if dtype.is_floating_point and r.special:
                t = T((3, 4), dtype, values=STRANGE)
                for dims in ([0], [1]):
                    for args in _arguments(r, t.shape, dims):
                        yield Row(op, (t, *args), kwargs, scale=r.scale)
                    if r.dims == "none":
                        break
        for sizes in growing(lambda n: (T((n, 7, 3), F32, 0.5, 1.5, whole=False),), (1, 4, 8)):
            for args in itertools.islice(_arguments(r, (1, 1, 1), [1]), 1):
                given: dict[str, Any] = {k: (*v, *args) for k, v in sizes.items()}
                yield Row(op, kwargs=kwargs, scale=r.scale, **given)


# operator, dtypes, range, whole numbers, arguments after the dimension
SCANS: list[tuple[str, Sequence[torch.dtype], tuple[float, float], bool, tuple[Any, ...]]] = [
    ("cumsum.out", REAL, (-4, 4), False, ()),
    ("cumprod.out", REAL, (-1.5, 1.5), False, ()),
    ("cummax.out", REAL, (-4, 4), True, ()),
    ("cummin.out", REAL, (-4, 4), True, ()),
    ("logcumsumexp.out", FLOATS, (-9, 9), False, ()),
    ("_softmax.out", FLOATS, (-9, 9), False, (False,)),
    ("_log_softmax.out", FLOATS, (-9, 9), False, (False,)),
]


def scans() -> Iterator[Row]:
    for name, dtypes, (low, high), whole, rest in SCANS:
        op = f"aten::{name}"
        for dtype in dtypes:
            exact = dtype in HALVES and name not in ("cummax.out", "cummin.out")
            for shape, order, dim in ONE:
                t = T(shape, dtype, low, high, order, whole=whole)
                yield Row(op, (t, dim, *rest), scale=8, exact=exact)
            if dtype.is_floating_point:
                t = T((3, 4), dtype, values=STRANGE)
                for dim in (0, 1):
                    yield Row(op, (t, dim, *rest), scale=8, exact=exact)
        for sizes in growing(lambda n, a=rest: (T((n, 7)), 0, *a), (1, 4, 8)):
            yield Row(op, scale=8, **sizes)
        for sizes in growing(lambda n, a=rest: (T((n, 7)), 1, *a), (0, 4, 8)):
            yield Row(op, scale=8, **sizes)
    for dtype, to in itertools.product(NUMBERS, (torch.float32, torch.int64)):
        for name in ("cumsum", "cumprod"):
            t = T((3, 5), dtype, 0, 3, whole=True)
            yield Row(f"aten::{name}.out", (t, 1), {"dtype": to}, scale=4)


def layer_norms() -> Iterator[Row]:
    op = "aten::native_layer_norm.out"
    for dtype in FLOATS:
        for shape, n, order in (
            ((4, 7), 1, None), ((2, 3, 97), 1, None), ((2, 5, 33), 2, None), ((6,), 1, None),
            ((0, 4), 1, None), ((3, 5), 1, (1, 0)), ((2, 3, 4, 5), 1, LAST), ((3, 1), 1, None),
        ):  # fmt: skip
            x, normalized = T(shape, dtype, 1, 6, order), list(shape[-n:])
            w = T(shape[-n:], dtype, 0.5, 1.5, seed=1)
            for weight, bias in (
                (w, replace(w, seed=2)),
                (replace(w, const=True), None),
                (None,) * 2,
            ):
                args = (x, normalized, weight, bias, 1e-5)
                if order is None:
                    yield Row(op, args, scale=8, exact=dtype in HALVES)
                else:
                    yield Row(op, args, scale=8, exact=dtype in HALVES, reference=_plain_layer_norm)
    w = T((9,), F32, 0.5, 1.5, seed=1)
    for sizes in growing(lambda n, w=w: (T((n, 9)), [9], w, w, 1e-5), (0, 3, 7)):
        yield Row(op, scale=8, **sizes)


def _plain_layer_norm(x: torch.Tensor, *args: Any) -> Any:
    """Eager's statistics of a permuted tensor are permuted too; ours have the layout of their
    shape."""
    return tuple(t.contiguous() for t in torch.ops.aten.native_layer_norm(x.contiguous(), *args))


def other_norms() -> Iterator[Row]:
    group, batch = "aten::native_group_norm.out", "aten::_native_batch_norm_legit_no_training.out"
    for dtype in FLOATS:
        exact = dtype in HALVES
        for shape, groups, order in (
            ((2, 6, 5), 3, None), ((2, 6, 4, 5), 2, None), ((1, 4, 7), 4, None), ((3, 5), 1, None),
            ((2, 6, 4, 5), 2, LAST), ((1, 301, 3, 2), 7, LAST), ((2, 4, 31, 17), 1, LAST),
        ):  # fmt: skip
            x, w = T(shape, dtype, 1, 6, order), T((shape[1],), dtype, 0.5, 1.5, seed=1)
            size = math.prod(shape[2:])
            for weight, bias in ((w, replace(w, seed=2)), (None, None)):
                args: tuple[Any, ...] = (x, weight, bias, shape[0], shape[1], size, groups, 1e-5)
                yield Row(group, args, scale=8, exact=exact)
        for shape, order in (
            ((2, 6), None), ((2, 6, 5), None), ((2, 6, 4, 5), None), ((2, 6, 4, 5), LAST),
            ((0, 6, 4), None), ((1, 1, 3, 3), None), ((2, 3, 9, 11), LAST), ((1, 301, 3, 2), LAST),
            ((5, 301), None), ((130, 3, 1), None), ((7, 9, 1, 1), LAST),
        ):  # fmt: skip
            x, w = T(shape, dtype, -3, 3, order), T((shape[1],), dtype, 0.5, 1.5, seed=1)
            for weight, bias in ((w, replace(w, seed=2)), (None, None)):
                args = (x, weight, bias, replace(w, seed=3), replace(w, seed=4), 0.1, 1e-5)
                yield Row(batch, args, scale=8, exact=exact)


def unbiased() -> Iterator[Row]:
    """The older form of a variance, and norms that keep their own statistics."""
    for dtype, (shape, order, dims) in itertools.product(FLOATS, MANY):
        x = T(shape, dtype, order=order)
        for corrected, keep in itertools.product((False, True), repeat=2):
            args = (x, dims, corrected, keep)
            yield Row("aten::var.out", args, scale=8, exact=dtype in HALVES)
    for dtype, size in itertools.product(WIDE, ((2, 6, 5), (3, 4, 2, 3), (1, 1, 7))):
        x, w = T(size, dtype), T((size[1],), dtype, 0.5, 1.5, seed=1)
        for weight, bias in ((w, replace(w, seed=2)), (None, None)):
            op = "aten::_native_batch_norm_legit.no_stats_out"
            yield Row(op, (x, weight, bias, True, 0.1, 1e-5), scale=8)


def rows() -> Iterator[Row]:
    yield from unbiased()
    yield from reductions()
    yield from scans()
    yield from layer_norms()
    yield from other_norms()
