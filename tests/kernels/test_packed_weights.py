"""Products and convolutions with packed weights give the bits of those with plain ones, and wrong
panels are refused.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.op_driver import (
    Const,
    Doubles,
    OpError,
    Out,
    Tensors,
    check_op,
    isa_limit,
    isas,
    run_op,
)

from executorch_py.exir.dialects import own_ops
from executorch_py.exir.dialects.packed_weights import packed_kernel, packed_linear_weight

own = getattr(torch.ops, own_ops.LIBRARY)
# Epilogues: none, a range, steps with numbers, steps with a tensor.
CHAINS: list[tuple[str, list[float], int]] = [
    ("", [], 0),
    ("clamp", [-0.5, 0.75], 0),
    ("sigmoid mul:x_ add:_s", [0.5], 0),
    ("add:0_ relu", [], 1),
]


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + seed))


def bits(name: str, *args: Any, like: torch.Tensor) -> torch.Tensor:
    order = (0, 2, 3, 1) if like.dim() == 4 and not like.is_contiguous() else None
    return run_op(name, *args, out=[Out(torch.float32, like.shape, order)])[0]


def check_same(op: Any, name: str, args: Any, plain_name: str, plain_args: Any, like: Any) -> None:
    """Compares with the plain operator after every epilogue and with every instruction set."""
    for chain, numbers, n_tensors in CHAINS:
        tensors = [torch.empty_like(like).copy_(values(*like.shape, seed=1))] * n_tensors
        (got,) = check_op(op, *args, chain, numbers, Tensors(tensors), scale=4)
        wanted = bits(plain_name, *plain_args, like=like)
        if chain:
            epilogue = (chain, Doubles(numbers), Tensors(tensors))
            wanted = bits("executorch_py::chain.out", wanted, *epilogue, like=like)
        assert torch.equal(wanted, got), chain
        for isa in isas():
            with isa_limit(isa):
                again = bits(name, *args, chain, Doubles(numbers), Tensors(tensors), like=like)
            assert torch.equal(wanted, again), (chain, isa)


@pytest.mark.parametrize("columns", [1, 16, 17, 33, 50, 264])
@pytest.mark.parametrize("rows", [1, 13, 150])
def test_a_linear_layer_has_the_bits_of_plain_weights(rows: int, columns: int) -> None:
    for terms in (1, 300):
        x, w, bias = values(rows, terms), values(columns, terms), values(columns)
        stored = Const(packed_linear_weight(w))
        for b in (None, bias):
            plain = (x, Const(w), b)
            like = torch.nn.functional.linear(x, w, b)
            args = (x, stored, b, columns)
            name = "executorch_py::packed_linear.out"
            check_same(own.packed_linear.out, name, args, "aten::linear.out", plain, like)


@pytest.mark.parametrize("k", [255, 256, 257, 1100])
def test_long_sums_of_a_linear_layer_have_the_bits_of_plain_weights(k: int) -> None:
    x, w = values(3, 40, k), values(70, k)
    like = torch.nn.functional.linear(x, w)
    args = (x, Const(packed_linear_weight(w)), None, 70)
    name = "executorch_py::packed_linear.out"
    check_same(own.packed_linear.out, name, args, "aten::linear.out", (x, Const(w), None), like)


def test_columns_of_a_result_may_be_adjacent() -> None:
    x, w = values(40, 33), values(50, 33)
    args = (x, Const(packed_linear_weight(w)), None, 50, "", Doubles(), Tensors([]))
    out = Out(torch.float32, (40, 50), (1, 0))
    (got,) = run_op("executorch_py::packed_linear.out", *args, out=[out])
    (wanted,) = run_op("aten::linear.out", x, Const(w), None, out=[out])
    assert torch.equal(got, wanted)


# Input, weight, groups, stride, padding, dilation.
CONVOLUTIONS = {
    "pointwise": ((1, 8, 20, 21), (24, 8, 1, 1), 1, 1, 0, 1),
    "pointwise, strided": ((2, 16, 15, 14), (48, 16, 1, 1), 1, 2, 0, 1),
    "three by three": ((2, 5, 17, 19), (20, 5, 3, 3), 1, 1, 1, 1),
    "three by three, in place": ((2, 16, 17, 19), (33, 16, 3, 3), 1, 1, 1, 1),
    "dilated": ((1, 12, 17, 19), (16, 12, 3, 3), 1, 2, 2, 2),
    "few pixels": ((1, 24, 5, 5), (32, 24, 3, 3), 1, 1, 1, 1),
    "one pixel, padded": ((2, 40, 1, 1), (70, 40, 3, 3), 1, 1, 1, 1),
    "dilated to the edges": ((1, 33, 9, 11), (40, 33, 3, 3), 1, 1, 6, 6),
    "one image, one pixel": ((1, 40, 1, 1), (70, 40, 1, 1), 1, 1, 0, 1),
    "grouped": ((1, 8, 18, 18), (44, 4, 3, 3), 2, 2, 1, 1),
    "one channel for each group": ((1, 3, 18, 18), (48, 1, 3, 3), 3, 1, 1, 1),
    "depthwise": ((2, 37, 14, 15), (37, 1, 3, 3), 37, 1, 1, 1),
    "depthwise, strided": ((1, 40, 14, 15), (40, 1, 5, 5), 40, 2, 2, 1),
    "depthwise, pointwise": ((1, 20, 9, 9), (20, 1, 1, 1), 20, 1, 0, 1),
    "stem": ((1, 3, 32, 32), (32, 3, 7, 7), 1, 2, 3, 1),
    "worth transposing": ((1, 64, 16, 16), (64, 64, 3, 3), 1, 1, 1, 1),
}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_a_convolution_has_the_bits_of_plain_weights(case: str, channels_last: bool) -> None:
    size, weight_size, groups, stride, padding, dilation = CONVOLUTIONS[case]
    x, w, bias = values(*size), values(*weight_size), values(weight_size[0])
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    geometry = ([stride] * 2, [padding] * 2, [dilation] * 2, False, [0, 0], groups)
    stored = Const(packed_kernel(w, groups))
    for b in (None, bias):
        like = torch.ops.aten.convolution.default(x, w, b, *geometry)
        if channels_last:
            like = like.to(memory_format=torch.channels_last)
        args = (x, stored, b, *geometry, list(weight_size))
        plain = (x, Const(w), b, *geometry)
        name = "executorch_py::packed_convolution.out"
        check_same(own.packed_convolution.out, name, args, "aten::convolution.out", plain, like)


@pytest.mark.parametrize(
    ("size", "kernel"), [((2, 9, 30), (20, 9, 5)), ((1, 4, 5, 6, 7), (16, 4, 3, 3, 3))]
)
def test_lines_and_volumes_have_the_bits_of_plain_weights(size: Any, kernel: Any) -> None:
    x, w, n = values(*size), values(*kernel), len(kernel) - 2
    geometry = ([1] * n, [1] * n, [1] * n, False, [0] * n, 1)
    like = torch.ops.aten.convolution.default(x, w, None, *geometry)
    args = (x, Const(packed_kernel(w, 1)), None, *geometry, list(kernel))
    plain = (x, Const(w), None, *geometry)
    name = "executorch_py::packed_convolution.out"
    check_same(own.packed_convolution.out, name, args, "aten::convolution.out", plain, like)


LINEAR = "executorch_py::packed_linear.out"
PANELS = r"weight: expected contiguous panels f32\[1, 2, 7, 16\] for 20 columns in each group, got "


@pytest.mark.parametrize(
    ("panels", "columns", "message"),
    [
        ((1, 1, 7, 16), 20, "expected at most the 112 elements of its panels, got more"),
        ((1, 2, 8, 16), 20, PANELS),
        ((2, 2, 7, 16), 20, PANELS),
        ((1, 2, 7, 17), 20, PANELS),
        ((2, 7, 16), 20, PANELS),
        ((1, 2, 7, 16), 33, "expected at most the 224 elements of its panels, got more"),
        ((1, 2, 7, 16), 0, "size 0: expected 1 to 2147483647, got 0"),
        ((1, 2, 7, 16), -5, "size 0: expected 1 to 2147483647, got -5"),
        ((1, 2, 7, 16), 2**40, "size 0: expected 1 to 2147483647, got 1099511627776"),
    ],
)
def test_panels_of_wrong_sizes_are_refused(
    panels: tuple[int, ...], columns: int, message: str
) -> None:
    out = [Out(torch.float32, (3, max(0, min(columns, 64))))]
    args = (values(3, 7), Const(values(*panels)), None, columns, "", Doubles(), Tensors([]))
    with pytest.raises(OpError, match=message):
        run_op(LINEAR, *args, out=out)


@pytest.mark.parametrize(
    ("sizes", "transposed", "message"),
    [
        ([8, 24, 1, 1], True, "packed weights: expected transposed False, got True"),
        ([24, 8, 3, 3], False, "of its panels, got more"),
        ([24, 4, 1, 2], False, "expected input of 4 channels"),
        (
            [40, 8, 1, 1],
            False,
            r"expected contiguous panels f32\[1, 3, 8, 16\]|of its panels, got more",
        ),
        ([8, 8, 1, 1], False, r"expected contiguous panels f32\[1, 1, 8, 16\]"),
        ([8, 8, 0, 1], False, "size 2: expected 1 to 2147483647, got 0"),
        ([8, 8], False, "expected rank 3, 4 or 5"),
        ([8, 1, 1, 3], False, "expected input of 1 channels"),
        ([2**30, 2**30, 2**30, 2**30], False, "of its panels, got more"),
    ],
)
def test_sizes_that_do_not_fit_the_panels_are_refused(
    sizes: list[int], transposed: bool, message: str
) -> None:
    panels = packed_kernel(values(24, 8, 1, 1), 1)
    two = [1, 1]
    args = (values(1, 8, 4, 4), Const(panels), None, two, [0, 0], two, transposed, [0, 0], 1)
    with pytest.raises(OpError, match=message):
        run_op(
            "executorch_py::packed_convolution.out",
            *args,
            sizes,
            "",
            Doubles(),
            Tensors([]),
            out=[Out(torch.float32, (1, 24, 4, 4))],
        )


@pytest.mark.parametrize("panels", [(1, 1, 3, 8), (1, 1, 9, 9), (1, 9, 8), (1, 1, 8, 9)])
def test_depthwise_weights_of_wrong_sizes_are_refused(panels: tuple[int, ...]) -> None:
    two, expected = [1, 1], r"expected contiguous f32\[1, 1, 9, 8\]|of its panels, got more"
    args = (values(1, 8, 4, 4), Const(values(*panels)), None, two, two, two, False, [0, 0], 8)
    with pytest.raises(OpError, match=expected):
        run_op(
            "executorch_py::packed_convolution.out",
            *args,
            [8, 1, 3, 3],
            "",
            Doubles(),
            Tensors([]),
            out=[Out(torch.float32, (1, 8, 4, 4))],
        )
