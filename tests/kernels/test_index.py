"""Indexing by tensors against eager torch: integers, masks, None, repeated and wrong indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.element_samples import ALL, COMPLEX, ONE_PER_SIZE, REAL, laid_out, orders, sample
from support.op_driver import OpError, OptionalTensors, Out, check_op, run_op

aten = torch.ops.aten


def ints(*values: Any) -> torch.Tensor:
    return torch.tensor(values)


def mask(shape: tuple[int, ...], every: int = 3) -> torch.Tensor:
    return sample(shape, torch.int64) % every == 0


Indices = list[torch.Tensor | None]
LISTS: list[tuple[tuple[int, ...], Indices]] = [
    ((5,), [ints(3, 0, -1, 3)]),
    ((5,), [ints([1, 2], [-5, 4])]),
    ((5,), [torch.tensor(2)]),
    ((5,), [torch.tensor([], dtype=torch.int64)]),
    ((5, 4), [ints(1, 1, 4)]),
    ((5, 4), [None, ints(3, 0)]),
    ((5, 4), [ints(1, 2, 3), ints(0, -1, 2)]),
    ((5, 4), [ints([1], [2]), ints(0, 1, 3)]),
    ((3, 4, 5), [None, ints(1, 2), ints(0, 4)]),
    ((3, 4, 5), [ints(1, 2), None, ints(0, 4)]),
    ((3, 4, 5), [ints(1, 2), ints([0], [3]), None]),
    ((2, 3, 4, 5), [None, None, ints([0], [1]), ints(0, 1, 2, -1)]),
    ((2, 3, 4, 5), [ints(0, 1), None, None, ints([0], [2])]),
    ((2, 3, 4, 5), [None, ints(0, 2), None, ints(0, 4)]),
    ((7,), [mask((7,))]),
    ((5, 4), [mask((5, 4))]),
    ((5, 4), [mask((5,), 2)]),
    ((5, 4), [None, mask((4,), 2)]),
    ((3, 4, 5), [None, mask((4, 5))]),
    ((3, 4, 5), [mask((3,), 2), None, ints(3)]),
    ((3, 4, 6), [mask((3,), 3), mask((4, 6), 24)]),
    ((3, 4, 5), [mask((3,), 2), None, ints([0], [1], [4])]),
    ((4, 3), [torch.zeros(4, dtype=torch.bool)]),
    ((4, 3), [torch.ones(4, dtype=torch.bool)]),
    ((0, 3), [torch.tensor([], dtype=torch.int64)]),
    ((3, 0), [ints(1, 2)]),
    ((600, 3), [(torch.arange(1000) * 7) % 600]),
    ((2, 300), [None, (torch.arange(400) * 7) % 300]),
]
IDS = [f"{shape}-{i}" for i, (shape, _) in enumerate(LISTS)]


@pytest.mark.parametrize("shape, indices", LISTS, ids=IDS)
def test_index_equals_eager_in_every_dim_order(shape: tuple[int, ...], indices: Indices) -> None:
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
        x = sample(shape, dtype, order)
        expected = aten.index(x.contiguous(), indices)
        for out_order in orders(expected.dim()):
            check_op(aten.index.Tensor_out, x, indices, expected=expected, out_order=out_order)


@pytest.mark.parametrize("shape, indices", LISTS, ids=IDS)
def test_index_put_equals_eager(shape: tuple[int, ...], indices: Indices) -> None:
    for dtype in ONE_PER_SIZE:
        for order in orders(len(shape)):
            x = sample(shape, dtype, order)
            picked = aten.index(x.contiguous(), indices)
            full = sample(picked.shape, dtype) * 3
            narrow = sample((*picked.shape[:-1], 1), dtype) if 0 not in picked.shape[:-1] else full
            for values in (full, sample((), dtype), narrow if picked.dim() > 0 else full):
                for accumulate in (False, True):
                    want = aten.index_put(x.contiguous(), indices, values, accumulate)
                    check_op(aten.index_put.out, x, indices, values, accumulate, expected=want)
                    updated = laid_out(x.contiguous(), order).clone(
                        memory_format=torch.preserve_format
                    )
                    given = OptionalTensors(indices)
                    run_op("aten::index_put_", updated, given, values, accumulate)
                    torch.testing.assert_close(updated, want, check_stride=False)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type_is_indexed(dtype: torch.dtype) -> None:
    x = sample((5, 4), dtype)
    at = ints(4, 0, 2)
    check_op(aten.index.Tensor_out, x, [at], expected=x[at])
    check_op(aten.index_select.out, x, 1, ints(3, 1), expected=x[:, [3, 1]])
    want = x.tolist()
    want[4], want[0], want[2] = want[0], want[1], want[2]
    want = torch.tensor(want, dtype=dtype)
    check_op(aten.index_put.out, x, [at], x[:3], False, expected=want)


@pytest.mark.parametrize("dtype", REAL + COMPLEX, ids=str)
def test_repeated_indices_accumulate(dtype: torch.dtype) -> None:
    x = sample((3, 4), dtype)
    at = ints(1, 1, 0, 1)
    values = sample((4, 4), dtype)
    check_op(aten.index_put.out, x, [at], values, True)


def test_the_last_of_repeated_indices_wins() -> None:
    x = sample((4,))
    at = torch.zeros(500, dtype=torch.int64)
    (y,) = run_op(
        "aten::index_put.out",
        x,
        OptionalTensors([at]),
        sample((500,)),
        False,
        out=[Out(torch.float32, (4,))],
    )
    assert y.tolist() == [500.0, 2.0, 3.0, 4.0]


def test_int32_indices_are_accepted() -> None:
    check_op(aten.index.Tensor_out, sample((5, 4)), [ints(3, -1).int()])
    check_op(aten.index_select.out, sample((5, 4)), 0, ints(3, 1).int())


SELECTS: list[tuple[tuple[int, ...], int, torch.Tensor]] = [
    ((5,), 0, ints(3, 0, 3)),
    ((5, 4), -1, ints(3, 0)),
    ((3, 4, 5), 1, ints(2)),
    ((3, 4, 5), 1, torch.tensor(2)),
    ((3, 4, 5), 0, torch.tensor([], dtype=torch.int64)),
    ((), 0, ints(0)),
    ((), -1, torch.tensor(0)),
]


@pytest.mark.parametrize("shape, dim, index", SELECTS, ids=str)
def test_index_select_equals_eager(shape: tuple[int, ...], dim: int, index: torch.Tensor) -> None:
    for dtype, order in itertools.product(ONE_PER_SIZE, orders(len(shape))):
        x = sample(shape, dtype, order)
        expected = torch.index_select(x.contiguous(), dim, index)
        for out_order in orders(expected.dim()):
            check_op(aten.index_select.out, x, dim, index, expected=expected, out_order=out_order)


x54 = sample((5, 4))
F32 = torch.float32


def optional(*items: torch.Tensor | None) -> OptionalTensors:
    return OptionalTensors(list(items))


REFUSED: list[tuple[str, list[Any], tuple[int, ...], str]] = [
    (
        "aten::index.Tensor_out",
        [x54, optional(ints(1, 5))],
        (2, 4),
        "index 5 at position 1 of index tensor 0 is out of bounds for dimension 0 with size 5",
    ),
    ("aten::index.Tensor_out", [x54, optional(None, ints(-5))], (5, 1), "index -5 at position 0"),
    ("aten::index.Tensor_out", [x54, optional(ints(2**62))], (1, 4), "out of bounds"),
    ("aten::index.Tensor_out", [x54, optional(ints(-(2**63)))], (1, 4), "out of bounds"),
    (
        "aten::index.Tensor_out",
        [x54, optional(ints(1, 2), ints(1, 2, 3))],
        (2,),
        "do not broadcast",
    ),
    (
        "aten::index.Tensor_out",
        [x54, optional(mask((4,)))],
        (2, 4),
        "mask 0: dimension 0: expected size 5, as the tensor, got 4",
    ),
    (
        "aten::index.Tensor_out",
        [x54, optional(ints(1).half())],
        (1, 4),
        "expected i32, i64 or bool",
    ),
    ("aten::index.Tensor_out", [x54, optional(None, None, ints(1))], (1, 4), "more than the 2"),
    ("aten::index.Tensor_out", [x54, optional(None)], (5, 4), "expected 1 index tensor or more"),
    ("aten::index.Tensor_out", [x54, optional(ints(1, 2))], (1, 4), "out: "),
    ("aten::index_put.out", [x54, optional(ints(7)), x54[:1], False], (5, 4), "index 7"),
    (
        "aten::index_put.out",
        [x54, optional(ints(1)), sample((3,)), False],
        (5, 4),
        "do not broadcast",
    ),
    (
        "aten::index_put.out",
        [x54, optional(ints(1)), sample((4,), torch.int64), False],
        (5, 4),
        "i64",
    ),
    ("aten::index_select.out", [x54, 0, ints(-1)], (1, 4), "index -1"),
    ("aten::index_select.out", [x54, 0, ints(5)], (1, 4), "index 5"),
    (
        "aten::index_select.out",
        [x54, 2, ints(0)],
        (1, 4),
        "expected a dimension of a tensor of rank 2, got 2",
    ),
    ("aten::index_select.out", [x54, 0, ints([0])], (1, 4), "rank 2"),
]


@pytest.mark.parametrize("name, args, shape, words", REFUSED)
def test_wrong_indices_are_refused_with_words(
    name: str, args: list[Any], shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(OpError, match=words):
        run_op(name, *args, out=[Out(F32, shape)])


def test_a_refused_index_leaves_memory_before_it_intact() -> None:
    x = sample((5, 4))
    with pytest.raises(OpError, match="index 9 at position 1"):
        run_op("aten::index_put_", x, optional(ints(0, 9)), sample((2, 4)) * 7, False)
    assert torch.equal(x, sample((5, 4)))


@pytest.fixture
def one_eager_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_threads_share_many_tuples(dtype: torch.dtype, one_eager_thread: None) -> None:
    """Indices repeat, so that sums and last values depend on the order of writes.

    Eager writes the last value last only with one thread.
    """
    x = sample((90, 110), dtype)
    rows = sample((150, 61), torch.int64) * 7919 % 180 - 90
    columns = sample((150, 61), torch.int64) * 31 % 110
    values = sample((150, 61), dtype) % 7
    for given in (x, laid_out(x, [1, 0])):
        check_op(aten.index.Tensor_out, given, [rows, columns])
        check_op(aten.index.Tensor_out, given, [columns[0] % 90, None])
        check_op(aten.index.Tensor_out, sample((3, 90, 2), dtype), [None, rows])
        for adds in (False, True):
            check_op(aten.index_put.out, given, [rows, columns], values, adds)
    wrong = columns.clone()
    wrong[149, 60] = 110
    for threads in (1, 2, 3):
        with pytest.raises(OpError, match="index 110 at position 9149 of index tensor 1"):
            out = [Out(dtype, (150, 61))]
            tensors = OptionalTensors([rows, wrong])
            run_op("aten::index.Tensor_out", x, tensors, out=out, threads=threads)
