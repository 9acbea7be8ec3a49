"""Gather, scatter, masks and windows beyond the operator table: refusals, threads, odd values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.element_samples import ALL, ONE_PER_SIZE, laid_out, orders, sample
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten


def pick(shape: tuple[int, ...], size: int) -> torch.Tensor:
    """Index values below size, with repeats."""
    return (sample(shape, torch.int64) * 7 // 3) % max(size, 1)


def test_the_last_of_repeated_indices_wins() -> None:
    index = torch.zeros(300, dtype=torch.int64)
    (y,) = run_op(
        "aten::scatter.src_out",
        sample((3,)),
        0,
        index,
        sample((300,)),
        out=[Out(torch.float32, (3,))],
    )
    assert y.tolist() == [300.0, 2.0, 3.0]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type_is_placed(dtype: torch.dtype) -> None:
    x = sample((4, 3), dtype)
    column = torch.tensor([[3], [1]])
    first = torch.tensor([[x.tolist()[3][0]], [x.tolist()[1][0]]], dtype=dtype)
    check_op(aten.gather.out, x, 0, column, expected=first)
    check_op(aten.select_scatter.out, x, sample((3,), dtype), 0, 2)
    check_op(aten.slice_scatter.out, x, sample((2, 3), dtype), 0, 1, 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_negative_zero_is_zero_and_nan_is_not(dtype: torch.dtype) -> None:
    x = torch.tensor([-0.0, 0.0, float("nan"), -1.0, 2.0**-14], dtype=dtype)
    check_op(aten.nonzero.out, x)
    check_op(aten.nonzero.out, torch.tensor([complex(-0.0, -0.0), complex(0, 1)]))


x54 = sample((5, 4))
REFUSED: list[tuple[str, list[Any], tuple[int, ...], str]] = [
    ("aten::gather.out", [x54, 0, torch.tensor([[5]]), False], (1, 1), "index 5 at position 0"),
    ("aten::gather.out", [x54, 0, torch.tensor([[-1]]), False], (1, 1), "index -1"),
    (
        "aten::gather.out",
        [x54, 0, torch.tensor([1]), False],
        (1,),
        "index: expected rank 2, as the tensor, got 1",
    ),
    (
        "aten::gather.out",
        [x54, 0, pick((1, 5), 5), False],
        (1, 5),
        "dimension 1: expected size 4 or less, as the tensor, got 5",
    ),
    (
        "aten::gather.out",
        [x54, 2, pick((1, 4), 5), False],
        (1, 4),
        "expected a dimension of a tensor of rank 2, got 2",
    ),
    ("aten::gather.out", [x54, 0, pick((1, 4), 5).float(), False], (1, 4), "expected i32 or i64"),
    ("aten::scatter.src_out", [x54, 0, torch.tensor([[5]]), x54], (5, 4), "index 5"),
    ("aten::scatter.src_out", [x54, 0, pick((6, 4), 5), x54], (5, 4), "larger than src"),
    (
        "aten::scatter.src_out",
        [x54, 1, pick((6, 4), 4), x54],
        (5, 4),
        "dimension 0: expected size 5 or less, as the tensor, got 6",
    ),
    ("aten::scatter.src_out", [x54, 0, pick((2, 4), 5), x54.int()], (5, 4), "self and src"),
    ("aten::scatter.value_out", [x54, 0, torch.tensor([[2**62]]), 1.0], (5, 4), "out of bounds"),
    ("aten::scatter_add.out", [x54, 0, torch.tensor([[-6]]), x54], (5, 4), "index -6"),
    ("aten::masked_select.out", [x54, x54], (1,), "mask: expected bool"),
    ("aten::masked_select.out", [x54, torch.ones(3).bool()], (1,), "do not broadcast"),
    ("aten::masked_select.out", [x54, torch.ones(4).bool()], (19,), "out: "),
    (
        "aten::masked_scatter.out",
        [x54, torch.ones(4).bool(), x54[:4]],
        (5, 4),
        "source: expected .* elements, as the mask selects, got 16",
    ),
    ("aten::select_scatter.out", [x54, sample((4,)), 0, 5], (5, 4), "index 5"),
    (
        "aten::select_scatter.out",
        [x54, sample((5,)), 0, 1],
        (5, 4),
        r"src: expected shape \[4\], .*, got \[5\]",
    ),
    ("aten::slice_scatter.out", [x54, x54, 0, 1, 3, 1], (5, 4), r"src: expected shape \[2, 4\]"),
    (
        "aten::slice_scatter.out",
        [x54, x54, 0, 0, 5, 0],
        (5, 4),
        "slice: expected a step of 1 or more, got 0",
    ),
]


@pytest.mark.parametrize("name, args, shape, words", REFUSED)
def test_wrong_arguments_are_refused_with_words(
    name: str, args: list[Any], shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(OpError, match=words):
        run_op(name, *args, out=[Out(torch.float32, shape)])


def test_nonzero_needs_room_and_i64() -> None:
    with pytest.raises(OpError, match="out: "):
        run_op("aten::nonzero.out", sample((5,)), out=[Out(torch.int64, (4, 1))])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_threads_share_many_elements(dim: int) -> None:
    """Indices repeat, so that sums depend on their order."""
    x, index = sample((31, 37, 23)), pick((31, 37, 23), (31, 37, 23)[dim])
    check_op(aten.gather.out, x, dim, index)
    check_op(aten.scatter.src_out, x, dim, index * 0 + 2, x)
    for dtype in (torch.float32, torch.int32, torch.bfloat16):
        check_op(aten.scatter_add.out, x.to(dtype), dim, index, x.to(dtype), scale=8.0)


@pytest.mark.parametrize("dtype", ONE_PER_SIZE, ids=str)
@pytest.mark.parametrize("shape", [(31, 37, 23), (26381,), (2, 13001)], ids=str)
def test_threads_share_what_a_mask_selects(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Any layout of both, and a mask that is broadcast over several elements."""
    rank = len(shape)
    mask = sample(shape, torch.bool)
    for order in orders(rank):
        x, m = sample(shape, dtype, order), laid_out(mask, order[::-1])
        check_op(aten.masked_select.out, x, m)
        check_op(aten.masked_scatter.out, x, m, sample(shape, dtype).flip(0))
        check_op(aten.index.Tensor_out, x, [m])
        check_op(aten.index_put.out, x, [m], sample((int(mask.sum()),), dtype).flip(0), False)
        check_op(aten.nonzero.out, x * m.to(dtype))
    check_op(aten.masked_select.out, sample(shape, dtype), mask[..., :1].contiguous())


def test_an_index_out_of_bounds_among_many_is_named_on_any_number_of_threads() -> None:
    x, index = sample((200, 100)), pick((200, 100), 200)
    index[150, 70] = 200
    for threads in (1, 2, 3):
        with pytest.raises(OpError, match="index 200 at position 70 of a row"):
            out = [Out(torch.float32, (200, 100))]
            run_op("aten::gather.out", x, 0, index, False, out=out, threads=threads)
