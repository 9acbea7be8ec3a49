"""Gradients against eager torch: convolutions of every kind, and max pooling."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.element_samples import laid_out
from support.op_driver import OpError, Out, assert_close, check_op, dim_order, run_op

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

# input, weight, stride, padding, dilation, transposed, output_padding, groups
CASES: list[tuple[Any, ...]] = [
    ((2, 3, 8, 7), (4, 3, 3, 3), [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
    ((1, 4, 6, 6), (6, 2, 3, 2), [1], [1], [1], False, [0], 2),
    ((2, 3, 9), (3, 1, 3), [2], [1], [1], False, [0], 3),
    ((1, 2, 4, 5, 3), (3, 2, 2, 2, 2), [1, 2, 1], [0, 1, 0], [1, 1, 1], False, [0, 0, 0], 1),
    ((2, 4, 5, 4), (4, 3, 3, 3), [2, 1], [1, 0], [1, 2], True, [1, 0], 1),
    ((1, 4, 5), (4, 2, 3), [3], [1], [1], True, [2], 2),
    ((1, 1, 1, 1), (1, 1, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def given(case: tuple[Any, ...], dtype: torch.dtype) -> tuple[list[torch.Tensor], list[Any]]:
    x, w = torch.randn(case[0]).to(dtype), torch.randn(case[1]).to(dtype)
    stride, padding, dilation, transposed, output_padding, groups = case[2:]
    y = aten.convolution(
        x.double(), w.double(), None, stride, padding, dilation, transposed, output_padding, groups
    )
    grad = torch.randn_like(y).to(dtype)
    rest = [[y.shape[1]], stride, padding, dilation, transposed, output_padding, groups]
    return [grad, x, w], rest


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_backward_equals_eager(case: Any, dtype: torch.dtype) -> None:
    tensors, rest = given(case, dtype)
    full = [*rest, [True, True, True]]
    expected = aten.convolution_backward(*(t.double() for t in tensors), *full)
    wanted = [e.to(dtype) for e in expected]
    check_op(aten.convolution_backward.out, *tensors, *full, expected=wanted, scale=4)


def test_convolution_backward_computes_what_the_mask_asks_for() -> None:
    tensors, rest = given(CASES[0], torch.float32)
    expected = aten.convolution_backward(*tensors, *rest, [True, True, True])
    for mask in ([True, False, False], [False, True, False], [False, False, True], [False] * 3):
        out = [
            Out(e.dtype, tuple(e.shape)) if m else None for e, m in zip(expected, mask, strict=True)
        ]
        got = run_op("aten::convolution_backward.out", *tensors, *rest, mask, out=out)
        for y, e in zip(got, [e for e, m in zip(expected, mask, strict=True) if m], strict=True):
            assert_close(y, e, 4)


def test_convolution_backward_takes_any_layout() -> None:
    tensors, rest = given(CASES[0], torch.float32)
    full = [*rest, [True, True, False]]
    expected = aten.convolution_backward(*tensors, *full)[:2]
    for order in ((0, 2, 3, 1), (3, 2, 1, 0)):
        outs = [Out(e.dtype, tuple(e.shape), order) for e in expected]
        moved = [laid_out(t, order) for t in tensors]
        got = run_op("aten::convolution_backward.out", *moved, *full, out=[*outs, None], threads=3)
        for y, e in zip(got, expected, strict=True):
            assert_close(y, e, 4)
            assert dim_order(y) == list(order)


def test_wrong_gradients_are_refused_with_words() -> None:
    (grad, x, w), rest = given(CASES[0], torch.float32)
    mask = [True, False, False]
    rows: list[tuple[str, list[Any]]] = [
        (
            r"convolution_backward: sizes 3 and 8 do not match kernel size 3 \(padding 1,",
            [grad[:, :, 1:].clone(), x, w, *rest, mask],
        ),
        (
            "as many images of gradient as of input, got 2 and 1",
            [grad, x[:1].clone(), w, *rest, mask],
        ),
        ("do not match a weight of 4 x 3 channels", [grad, x[:, :2].clone(), w, *rest, mask]),
        (
            "expected rank 3, 4 or 5 for all, got gradient 4, input 3, weight 4",
            [grad, x[0], w, *rest, mask],
        ),
        ("expected one floating-point type, got gradient f64", [grad.double(), x, w, *rest, mask]),
        ("stride.0.: expected at least 1, got 0", [grad, x, w, rest[0], [0, 1], *rest[2:], mask]),
        ("in 0 groups", [grad, x, w, *rest[:-1], 0, mask]),
    ]
    for words, args in rows:
        with pytest.raises(OpError, match=words):
            run_op(
                "aten::convolution_backward.out",
                *args,
                out=[Out(torch.float32, tuple(x.shape)), None, None],
            )


def test_a_gradient_that_the_mask_asks_for_has_the_type_of_the_input() -> None:
    tensors, rest = given(CASES[0], torch.float32)
    absent = Out(torch.uint8, (0,))
    with pytest.raises(OpError, match="input and gradient"):
        run_op(
            "aten::convolution_backward.out",
            *tensors,
            *rest,
            [True, False, False],
            out=[absent, absent, absent],
        )
    run_op(
        "aten::convolution_backward.out", *tensors, *rest, [False] * 3, out=[absent, absent, absent]
    )


# input shape; kernel, stride, padding, dilation, ceil_mode
POOLS: list[tuple[Any, ...]] = [
    ((2, 3, 13, 17), [3, 3], [2, 2], [1, 1], [1, 1], False),
    ((3, 9, 11), [3, 2], [2, 3], [1, 1], [1, 1], True),
    ((1, 1, 15, 30), [2, 3], [1, 1], [1, 1], [2, 3], False),
    ((0, 2, 5, 5), [2, 2], [2, 2], [0, 0], [1, 1], False),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_max_pool_backward_equals_eager(case: Any, dtype: torch.dtype) -> None:
    x = torch.randint(-9, 9, case[0]).to(dtype)
    y, indices = aten.max_pool2d_with_indices(x, *case[1:])
    # Sums of small integers are exact in every type.
    grad = torch.randint(-3, 4, y.shape).to(dtype)
    op = aten.max_pool2d_with_indices_backward
    args = (grad, x, *case[1:], indices)
    check_op(op.grad_input, *args)
    if x.dim() == 4 and x.numel():
        order = (0, 2, 3, 1)
        moved = (laid_out(grad, order), laid_out(x, order), *case[1:], laid_out(indices, order))
        check_op(op.grad_input, *moved, expected=op(*args), out_order=(3, 1, 2, 0))


def test_wrong_indices_are_refused_with_words() -> None:
    x, grad = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2)
    good = torch.zeros(1, 1, 2, 2, dtype=torch.int64)
    out = [Out(torch.float32, (1, 1, 4, 4))]
    for words, indices in (
        ("index 16 is outside of a plane of 16", good + 16),
        ("index -1 is outside", good - 1),
        (
            r"max_pool2d_with_indices_backward: indices: expected .*, got i32\[1, 1, 2, 2\]",
            good.int(),
        ),
        (
            r"indices: expected i64\[1, 1, 2, 2\], the gradient's shape, got i64\[1, 1, 1, 2\]",
            good[:, :, :1].clone(),
        ),
    ):
        with pytest.raises(OpError, match=words):
            run_op(
                "aten::max_pool2d_with_indices_backward.grad_input",
                grad,
                x,
                [2, 2],
                [2, 2],
                [0, 0],
                [1, 1],
                False,
                indices,
                out=out,
            )
