"""Rows of operators that move elements: views copied, joined, repeated, padded, converted.

Each operator runs in every element type, and in pairs of dim orders of input and output.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from kernels.table.row import ALL, COMPLEX, REAL, Row, T, growing
from support.element_samples import ONE_PER_SIZE, orders

F32 = torch.float32
BIG = 9223372036854775807

# operator, shape of the first argument, the other arguments
VIEWS: list[tuple[str, tuple[int, ...], list[Any]]] = [
    ("permute_copy.out", (), [[]]),
    ("permute_copy.out", (5,), [[0]]),
    ("permute_copy.out", (3, 4), [[1, 0]]),
    ("permute_copy.out", (3, 4), [[-1, -2]]),
    ("permute_copy.out", (2, 3, 4, 5), [[0, 2, 1, 3]]),
    ("permute_copy.out", (2, 3, 4, 5), [[0, 2, 3, 1]]),
    ("permute_copy.out", (2, 3, 4, 5), [[3, 2, 1, 0]]),
    ("permute_copy.out", (2, 1, 4, 1), [[2, 3, 0, 1]]),
    ("permute_copy.out", (2, 0, 4), [[2, 0, 1]]),
    ("permute_copy.out", (13, 37), [[1, 0]]),
    ("transpose_copy.int_out", (), [0, -1]),
    ("transpose_copy.int_out", (3, 4, 5), [-1, 0]),
    ("transpose_copy.int_out", (3, 4, 5), [1, 1]),
    ("t_copy.out", (), []),
    ("t_copy.out", (4,), []),
    ("t_copy.out", (17, 34), []),
    ("unsqueeze_copy.out", (), [0]),
    ("unsqueeze_copy.out", (3, 4), [-1]),
    ("unsqueeze_copy.out", (3, 4), [-3]),
    ("squeeze_copy.dim_out", (3, 1, 4), [1]),
    ("squeeze_copy.dim_out", (3, 1, 4), [-1]),
    ("squeeze_copy.dims_out", (1, 3, 1, 4), [[0, 2]]),
    ("squeeze_copy.dims_out", (1, 3, 1), [[]]),
    ("view_copy.out", (2, 3, 4), [[6, 4]]),
    ("view_copy.out", (2, 3, 4), [[-1]]),
    ("view_copy.out", (6, 10, 2), [[4, -1, 5]]),
    ("view_copy.out", (2, 0, 3), [[0, 5]]),
    ("view_copy.out", (1,), [[]]),
    ("expand_copy.out", (), [[2, 3]]),
    ("expand_copy.out", (3, 1), [[3, 4]]),
    ("expand_copy.out", (3, 1), [[2, -1, 40]]),
    ("expand_copy.out", (2, 1, 3, 1), [[2, 2, 3, 3]]),
    ("select_copy.int_out", (4,), [0, 2]),
    ("select_copy.int_out", (2, 3, 4), [0, -1]),
    ("select_copy.int_out", (2, 3, 4), [-1, 3]),
    ("slice_copy.Tensor_out", (7,), []),
    ("slice_copy.Tensor_out", (7, 3), [0, 1, 6, 2]),
    ("slice_copy.Tensor_out", (7, 3), [0, -3, 100, 1]),
    ("slice_copy.Tensor_out", (7, 3), [0, 5, 2, 1]),
    ("slice_copy.Tensor_out", (7, 3), [1, -BIG, None, 2]),
    ("slice_copy.Tensor_out", (2, 8, 9), [-1, 1, -1, 3]),
    ("narrow_copy.out", (7, 3), [0, 2, 3]),
    ("narrow_copy.out", (7, 3), [1, 3, 0]),
    ("diagonal_copy.out", (3, 4), []),
    ("diagonal_copy.out", (3, 4), [-5]),
    ("diagonal_copy.out", (3, 4, 5), [-1, 0, 2]),
    ("unfold_copy.out", (9,), [0, 3, 2]),
    ("unfold_copy.out", (2, 9, 3), [1, 4, 5]),
    ("split_copy.Tensor_out", (7, 3), [3]),
    ("split_copy.Tensor_out", (2, 6, 5), [2, -1]),
    ("split_with_sizes_copy.out", (7, 3), [[2, 0, 5]]),
    ("split_with_sizes_copy.out", (2, 6, 5), [[4, 1], -1]),
    ("unbind_copy.int_out", (2, 3, 4), [1]),
    ("unbind_copy.int_out", (2, 3, 4), [-1]),
    ("clone.out", (2, 3, 4), []),
    ("clone.out", (), []),
    ("alias_copy.out", (2, 3, 4), []),
    ("detach_copy.out", (2, 3, 4, 5), []),
    ("lift_fresh_copy.out", (3, 4), []),
    ("repeat.out", (), [[3]]),
    ("repeat.out", (4,), [[2, 3]]),
    ("repeat.out", (3, 4), [[2, 1]]),
    ("repeat.out", (2, 3, 4), [[2, 2, 2]]),
    ("repeat.out", (3, 4), [[0, 2]]),
]
# the same, for element types that eager supports
MOVES: list[tuple[str, tuple[int, ...], list[Any]]] = [
    ("flip.out", (3, 4), [[0]]),
    ("flip.out", (2, 3, 5), [[-1, 0]]),
    ("flip.out", (0, 3), [[1]]),
    ("flip.out", (), [[]]),
    ("roll.out", (7,), [[3]]),
    ("roll.out", (3, 5), [[-1, 2], [0, 1]]),
    ("roll.out", (3, 5), [[4]]),
    ("roll.out", (2, 0), [[1], [0]]),
    ("tril.out", (4, 5), []),
    ("tril.out", (5, 4), [-1]),
    ("tril.out", (2, 3, 3), [1]),
    ("tril.out", (2, 0, 3), []),
    ("pixel_shuffle.out", (1, 8, 2, 3), [2]),
    ("pixel_shuffle.out", (9, 2, 1), [3]),
    ("pixel_unshuffle.out", (1, 2, 4, 6), [2]),
    ("pixel_unshuffle.out", (2, 3, 6), [3]),
    ("constant_pad_nd.out", (4,), [[1, 2]]),
    ("constant_pad_nd.out", (4,), [[-1, 3], 2]),
    ("constant_pad_nd.out", (3, 4), [[1, 2, 3, 0], 1]),
    ("constant_pad_nd.out", (2, 3, 4, 5), [[-1, 2, 1, -2], 3]),
    ("constant_pad_nd.out", (0, 3), [[1, 1, 2, 0], 1]),
    ("constant_pad_nd.out", (4, 1), [[-1, 1], 1]),
    ("constant_pad_nd.out", (2, 3, 1), [[-1, 1, 2, -1, 0, 1], 1]),
]
PADS: list[tuple[int, tuple[int, ...], list[int]]] = [
    (1, (2, 5), [1, 2]),
    (1, (2, 3, 5), [4, 4]),
    (1, (2, 5), [-1, 2]),
    (2, (2, 4, 5), [1, 2, 3, 0]),
    (2, (2, 3, 4, 5), [-1, 2, 1, -1]),
    (2, (0, 3, 4, 5), [1, 1, 1, 1]),
    (3, (2, 3, 4, 5), [1, 2, 3, 0, 1, 2]),
    (3, (1, 2, 3, 4, 5), [1, 1, 1, 1, 1, 1]),
]


def _whole(shape: tuple[int, ...], dtype: torch.dtype, order: Any = None, seed: int = 0) -> T:
    return T(shape, dtype, -100, 100, order, whole=True, seed=seed)


def _result_rank(op: str, t: T, args: list[Any]) -> int | None:
    """The rank of the one result; None for lists."""
    x = torch.empty(t.shape)
    result = getattr(torch.ops.aten, op.partition(".")[0])(x, *args)
    return result.dim() if isinstance(result, torch.Tensor) else None


def _in_every_order(op: str, shape: tuple[int, ...], args: list[Any]) -> Iterator[Row]:
    rank = _result_rank(op, T(shape), args)
    for order in orders(len(shape)):
        x = _whole(shape, F32, tuple(order))
        if rank is None:
            yield Row(f"aten::{op}", (x, *args))
            continue
        for out_order in orders(rank):
            yield Row(f"aten::{op}", (x, *args), out_order=tuple(out_order))


def views() -> Iterator[Row]:
    for op, shape, args in VIEWS:
        yield from (Row(f"aten::{op}", (_whole(shape, d), *args)) for d in ALL)
        yield from _in_every_order(op, shape, args)
    for op, shape, args in MOVES:
        yield from (Row(f"aten::{op}", (_whole(shape, d), *args)) for d in REAL + COMPLEX)
        yield from _in_every_order(op, shape, args)
    for rule, (n, shape, pad) in itertools.product(("reflection", "replication"), PADS):
        op = f"{rule}_pad{n}d.out"
        yield from _in_every_order(op, shape, [pad])
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.complex64):
            yield Row(f"aten::{op}", (_whole(shape, dtype), pad))


def growing_views() -> Iterator[Row]:
    """Sizes that change between runs."""
    makers: list[tuple[str, Any]] = [
        ("permute_copy.out", lambda n: (T((n, 3, 5)), [2, 0, 1])),
        ("transpose_copy.int_out", lambda n: (T((n, 3, 5)), 1, 2)),
        ("unsqueeze_copy.out", lambda n: (T((n, 3)), 1)),
        ("view_copy.out", lambda n: (T((n, 3, 4)), [-1, 12])),
        ("expand_copy.out", lambda n: (T((1, 3)), [n, 3])),
        ("select_copy.int_out", lambda n: (T((n, 3, 4)), 1, -1)),
        ("slice_copy.Tensor_out", lambda n: (T((n, 9)), 1, 2, 8, 3)),
        ("clone.out", lambda n: (T((n, 9)),)),
        ("repeat.out", lambda n: (T((n, 3)), [2, 2])),
        ("flip.out", lambda n: (T((n, 3)), [0, 1])),
        ("roll.out", lambda n: (T((n, 3)), [1], [0])),
        ("tril.out", lambda n: (T((n, 5)),)),
        ("constant_pad_nd.out", lambda n: (T((n, 3)), [1, 1, 2, 0], 7)),
        ("cat.out", lambda n: ([T((n, 3)), T((2, 3), seed=1)], 0)),
        ("stack.out", lambda n: ([T((n, 3)), T((n, 3), seed=1)], 1)),
    ]
    for op, make in makers:
        yield from (Row(f"aten::{op}", **sizes) for sizes in growing(make, (1, 4, 9)))


# shapes, dimension
JOINS: list[tuple[list[tuple[int, ...]], int]] = [
    ([(3,), (5,)], 0),
    ([(2, 3), (4, 3), (1, 3)], 0),
    ([(2, 3), (2, 5)], -1),
    ([(2, 3, 4), (2, 1, 4)], 1),
    ([(0,), (2, 3)], 0),
    ([(2, 0, 3), (2, 2, 3)], 1),
    ([(2, 3)], 1),
]


def joins() -> Iterator[Row]:
    for shapes, dim in JOINS:
        for dtype in REAL + COMPLEX:
            parts = [_whole(s, dtype, seed=i) for i, s in enumerate(shapes)]
            yield Row("aten::cat.out", (parts, dim))
            if dtype != F32 and dtype not in COMPLEX:
                mixed = [*parts, _whole(shapes[-1], F32, seed=9)]
                yield Row("aten::cat.out", (mixed, dim))
        rank = max(len(s) for s in shapes)
        for order, out_order in itertools.product(orders(rank), orders(rank)):
            ordered = [
                _whole(s, F32, tuple(order) if len(s) == rank else None, i)
                for i, s in enumerate(shapes)
            ]
            yield Row("aten::cat.out", (ordered, dim), out_order=tuple(out_order))
    for dtype, dim in itertools.product(REAL + COMPLEX, (0, 1, -1)):
        parts = [_whole((2, 3), dtype, seed=i) for i in range(3)]
        yield Row("aten::stack.out", (parts, dim))
        yield Row("aten::stack.out", ([_whole((2, 3), dtype, (1, 0), i) for i in range(2)], dim))
        yield Row("aten::stack.out", ([_whole((), dtype)], 0 if dim == 1 else dim))


def conversions() -> Iterator[Row]:
    """Every pair of element types; layouts of both sides."""

    def converted(x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return x

    for source, to in itertools.product(REAL + COMPLEX, REAL + COMPLEX):
        if source.is_complex and not to.is_complex:
            continue
        x = T((3, 5, 4), source, 0, 100, whole=True)
        y = T((2, 3, 4, 5), source, 0, 100, (0, 2, 3, 1), whole=True)
        op = "aten::_to_copy.out"
        yield Row(op, (x,), reference=converted, out_dtype=to)
        yield Row(op, (y,), reference=converted, out_dtype=to, out_order=(0, 1, 2, 3))
        yield Row(op, (y,), reference=converted, out_dtype=to)
        yield Row(
            "aten::copy.out", (T((3, 5, 4), to, seed=1), T((5, 1), source, 0, 100, whole=True))
        )
    for dtype, other in itertools.product(ONE_PER_SIZE, ONE_PER_SIZE):
        x = T((3, 16), dtype, 0, 100, whole=True)
        yield Row("aten::view_copy.dtype_out", (x, other))
    for real in (torch.float32, torch.float64):
        for shape in ((2,), (5, 2), (3, 4, 2), (0, 2)):
            yield Row("aten::view_as_complex_copy.out", (T(shape, real),))
    for dtype, size in itertools.product(COMPLEX, ((), (5,), (2, 3, 4), (0, 2))):
        yield Row("aten::view_as_real_copy.out", (T(size, dtype),))


def dim_orders() -> Iterator[Row]:
    """Copies to a given layout of the result."""

    def same(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return x

    for shape in ((3, 4), (2, 3, 4), (2, 3, 4, 5), (0, 3)):
        for order, out_order in itertools.product(orders(len(shape)), orders(len(shape))):
            for dtype in ONE_PER_SIZE:
                x = _whole(shape, dtype, tuple(order))
                for op, rest in (
                    ("dim_order_ops::_clone_dim_order.out", (False, None)),
                    ("dim_order_ops::_to_dim_order_copy.out", (False, None)),
                ):
                    yield Row(op, (x, *rest), reference=same, out_order=tuple(out_order))
        for op in ("et_copy::_h2d_copy.out", "et_copy::_d2h_copy.out"):
            yield from (Row(op, (_whole(shape, d),), reference=same) for d in ONE_PER_SIZE)


def rows() -> Iterator[Row]:
    yield from dim_orders()
    yield from views()
    yield from growing_views()
    yield from joins()
    yield from conversions()
