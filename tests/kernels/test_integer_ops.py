"""Operators on 8-bit integers give exactly the integers of their definitions, in every way of
running and with every instruction set: sums are exact, and requantization uses the same operations.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import Const, OpError, Out, check_op, isa_limit, isas_and_dots, run_op

from executorch_py.exir.dialects import integer_ops

own = torch.ops.executorch_py
NCHW, NHWC = (0, 1, 2, 3), (0, 2, 3, 1)


def integers(*shape: int, low: int = -128) -> torch.Tensor:
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randint(low, 128, shape, generator=made, dtype=torch.int8)


def image(*shape: int) -> torch.Tensor:
    return integers(*shape).contiguous(memory_format=torch.channels_last)


def check_everywhere(op: Any, *args: Any, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """Compares every way of running, with each instruction set, with the operator's definition."""
    (wanted,) = check_op(op, *args, out_order=order, scale=4)
    name = f"{op._schema.name}.out"
    for isa in isas_and_dots():
        for prepared in (False, True):
            with isa_limit(isa):
                out = [Out(wanted.dtype, tuple(wanted.shape), order)]
                (got,) = run_op(name, *args, out=out, prepared=prepared)
            assert torch.equal(wanted, got), (isa, prepared)
    return wanted


def columns(
    matrices: torch.Tensor, zero_point: int, numbers: int, *, is_float: bool = False
) -> list[Any]:
    """Packed weights, starts, scales and addends that spread the sums over what i8 can hold."""
    groups, n, k = matrices.shape
    made = torch.Generator().manual_seed(n)
    sums = matrices.to(torch.int32).sum(-1).to(torch.int32)
    starts = integer_ops.packed_starts((-zero_point * sums).reshape(-1), matrices)
    if is_float:
        starts = integer_ops.packed_columns(sums, groups)
    scales = (torch.rand(groups, n, generator=made) + 0.1) * 2.0 / (127 * math.sqrt(max(k, 1)))
    addends = torch.randn(groups, n, generator=made) * 8
    packed = [integer_ops.packed_columns(t, groups) for t in (scales, addends)]
    return [
        *(Const(t) for t in (integer_ops.packed_weight(matrices), starts, *packed)),
        numbers,
    ]


# Image, output channels, kernel, stride, padding, dilation, groups.
CONVOLUTIONS = {
    "first of a network": ((1, 3, 19, 17), 32, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "pointwise": ((1, 24, 9, 9), 40, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "three by three": ((2, 7, 9, 8), 5, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "grouped, dilated": ((1, 8, 9, 9), 16, (3, 2), (1, 1), (1, 2), (2, 1), 2),
    "a pixel": ((1, 33, 3, 3), 17, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    "depthwise": ((2, 40, 13, 11), 40, (3, 3), (1, 1), (1, 1), (1, 1), 40),
    "depthwise, few channels": ((1, 5, 9, 9), 5, (3, 3), (2, 2), (1, 1), (1, 1), 5),
    "depthwise, five by five": ((1, 32, 13, 11), 32, (5, 5), (2, 1), (2, 2), (1, 2), 32),
    "depthwise, large": ((1, 16, 12, 12), 16, (9, 9), (1, 1), (4, 4), (1, 1), 16),
    "two for each channel": ((1, 6, 8, 8), 12, (3, 3), (1, 1), (1, 1), (1, 1), 6),
    "many pixels": ((1, 64, 40, 41), 24, (1, 1), (1, 1), (0, 0), (1, 1), 1),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_sum_exactly_and_round_once(case: str) -> None:
    shape, out, kernel, stride, padding, dilation, groups = CONVOLUTIONS[case]
    weight = integers(out, shape[1] // groups, *kernel, low=-127)
    matrices = integer_ops.matrices_of_kernel(weight, groups)
    geometry = [list(g) for g in (kernel, stride, padding, dilation)]
    args = [image(*shape), -3, *columns(matrices, -3, out), 7, -100, 127, *geometry, groups]
    result = check_everywhere(own.qconvolution.out, *args, order=NHWC)
    # The definition itself, without packing.
    sums = torch.nn.functional.conv2d(
        args[0].double() + 3, weight.double(), None, stride, padding, dilation, groups
    )
    n_groups = matrices.shape[0]
    scales, addends = (
        integer_ops.unpacked_columns(args[i].tensor, n_groups, out // n_groups).view(-1, 1, 1)
        for i in (4, 5)
    )
    wanted = torch.round(sums.float() * scales + addends) + 7
    assert torch.equal(result, wanted.clamp(-100, 127).to(torch.int8))
    assert result.unique().numel() > 10


# Five rows or more of whole quads are read in place on machines with products of i8.
ROWS = [(1, 64), (7, 33), (2, 3, 130), (65, 1), (3, 0), (0, 5), (4, 68), (5, 4), (71, 132)]


@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("n", [1, 16, 37])
def test_linear_layers_sum_exactly_and_round_once(shape: tuple[int, ...], n: int) -> None:
    matrices = integers(1, n, max(shape[-1], 1))[..., : shape[-1]]
    given = columns(matrices, 5, n)
    check_everywhere(own.qlinear.out, integers(*shape), *given, -20, -128, 127)
    given = columns(matrices, 5, n, is_float=True)
    rows = math.prod(shape[:-1])
    for count in {1, rows} - {0}:
        made = torch.Generator().manual_seed(count)
        scale = torch.rand(count, generator=made).to(torch.float64)
        zero_point = torch.randint(-128, 128, (count,), generator=made)
        check_everywhere(own.qlinear_float.out, integers(*shape), scale, zero_point, *given)


# Blocks of 64 rows would leave a single one.
@pytest.mark.parametrize("rows", [65, 129, 193, 449])
def test_threads_share_any_number_of_rows(rows: int) -> None:
    x, given = integers(rows, 132), columns(integers(1, 37, 132), 5, 37)
    args, out = [x, *given, -20, -128, 127], [Out(torch.int8, (rows, 37))]
    for isa in isas_and_dots():
        with isa_limit(isa):
            (alone,) = run_op("executorch_py::qlinear.out", *args, out=out, prepared=True)
            (shared,) = run_op(
                "executorch_py::qlinear.out", *args, out=out, prepared=True, threads=2
            )
        assert torch.equal(alone, shared), isa


def test_sums_beyond_32_bits_wrap_and_odd_numbers_end_at_a_limit() -> None:
    x = torch.full((1, 4), -128, dtype=torch.int8)
    matrices = torch.full((1, 4, 4), -128, dtype=torch.int8)
    weight = Const(integer_ops.packed_weight(matrices))
    starts = Const(integer_ops.packed_starts(torch.full((4,), 2**31 - 1), matrices))
    scales = torch.tensor([1e-9, math.nan, math.inf, -math.inf] * 4)
    for isa in isas_and_dots():
        with isa_limit(isa):
            args = [weight, starts, Const(scales), Const(torch.zeros(16)), 4, 0, -100, 90]
            out = [Out(torch.int8, (1, 4))]
            (result,) = run_op("executorch_py::qlinear.out", x, *args, out=out)
        assert result.tolist() == [[-2, 90, -100, 90]]


OPERANDS = {
    "a row": ((67,), (67,), None),
    "images": ((2, 5, 9, 7), (2, 5, 9, 7), NHWC),
    "broadcast": ((2, 20, 5, 7), (2, 20, 1, 1), NHWC),
    "columns": ((3, 1), (1, 65), None),
    "planes": ((2, 3, 4, 5), (3, 1, 1), NCHW),
}


@pytest.mark.parametrize("case", OPERANDS)
@pytest.mark.parametrize("name", ["qadd", "qsub", "qmul"])
def test_two_operands_give_the_bits_of_their_operators(name: str, case: str) -> None:
    *shapes, order = OPERANDS[case]
    layout = torch.channels_last if order == NHWC else torch.contiguous_format
    a, b = (integers(*shape).contiguous(memory_format=layout) for shape in shapes)
    args = [a, 0.03, -11, b, 0.021, 4, 0.0417 if name != "qmul" else 0.04, 3, -90, 127]
    check_everywhere(getattr(own, name).out, *args, order=order)


@pytest.mark.parametrize("name", ["qadd", "qsub", "qmul"])
def test_results_of_two_operands_beyond_32_bits_end_at_a_limit(name: str) -> None:
    a, b = integers(3, 67), integers(67)
    for scale in (1e-12, 1e12):
        args = [a, 0.03, -11, b, 0.021, 4, scale, 3, -90, 120]
        result = check_everywhere(getattr(own, name).out, *args)
        assert set(result.unique().tolist()) <= {-90, 3, 120}


def test_a_table_answers_for_every_integer() -> None:
    table = Const(integers(256))
    every = torch.arange(-128, 128).to(torch.int8)
    got = check_everywhere(own.qlookup.out, every, table)
    assert torch.equal(got, table.tensor)
    check_everywhere(own.qlookup.out, image(1, 3, 5, 6), table, order=NHWC)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_windows_give_their_largest_integer(ceil_mode: bool) -> None:
    for shape, *geometry in (
        ((1, 35, 10, 9), [3, 3], [2, 2], [1, 1], [1, 1]),
        ((2, 3, 7, 8), [2, 3], [2, 1], [0, 1], [1, 2]),
    ):
        check_everywhere(own.qmax_pool2d.out, image(*shape), *geometry, ceil_mode, order=NHWC)


def test_means_of_planes_round_once() -> None:
    for shape in ((2, 300, 7, 7), (1, 5, 1, 3)):
        multiplier = 1.3 / (shape[2] * shape[3])
        check_everywhere(own.qmean.out, image(*shape), 12, multiplier, -7, -128, 127, order=NCHW)


def conv_args(**changed: Any) -> list[Any]:
    weight = integers(4, 2, 3, 3)
    given = {
        "input": image(1, 4, 6, 6),
        "input_zero": 0,
        **dict(
            zip(
                ("weight", "starts", "scales", "addends", "channels"),
                columns(integer_ops.matrices_of_kernel(weight, 2), 0, 4),
                strict=True,
            )
        ),
        **{"zero": 0, "low": -128, "high": 127},
        **{"kernel": [3, 3], "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 2},
    }
    return list({**given, **changed}.values())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"input": integers(1, 4, 6, 6)}, "expected channels-last images"),
        ({"input_zero": 128}, "expected a number of i8, got 128"),
        ({"weight": integers(64)}, "weight: expected .*, got 64 of i8"),
        ({"weight": integers(2 * 5 * 64)}, "weight: expected panels .*, got rank 1; .* earlier"),
        ({"starts": torch.zeros(32, dtype=torch.int32)}, "starts: expected 64 .*, got 32 of i32"),
        ({"scales": integers(32)}, "scales: expected 32 contiguous elements of f32, got"),
        ({"low": 3, "high": 2}, "quant_min below quant_max"),
        ({"kernel": [7, 7]}, "no valid output size"),
        ({"kernel": [1 << 16, 1]}, "kernel size: expected at most"),
        ({"groups": 3}, "do not divide"),
        ({"channels": -4}, "do not divide"),
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(OpError, match=words):
        run_op(
            "executorch_py::qconvolution.out",
            *conv_args(**changed),
            out=[Out(torch.int8, (1, 4, 4, 4), NHWC)],
        )


def test_results_in_another_dim_order_are_refused() -> None:
    x, geometry = image(1, 4, 6, 6), ([3, 3], [1, 1], [0, 0], [1, 1])
    last = r"out: expected the channels-last dim order, got \[0, 1, 2, 3\]"
    rows = r"out: expected the contiguous dim order, got "
    linear = columns(integers(1, 4, 8), 0, 4)
    for name, args, out, words in (
        ("qconvolution", conv_args(), Out(torch.int8, (1, 4, 4, 4)), last),
        ("qmax_pool2d", [x, *geometry, False], Out(torch.int8, (1, 4, 4, 4)), last),
        (
            "qmean",
            [image(2, 4, 6, 6), 0, 0.1, 0, -128, 127],
            Out(torch.int8, (2, 4, 1, 1), (1, 0, 2, 3)),
            rf"{rows}\[1, 0, 2, 3\]",
        ),
        (
            "qlinear",
            [integers(3, 8), *linear, 0, -128, 127],
            Out(torch.int8, (3, 4), (1, 0)),
            rf"{rows}\[1, 0\]",
        ),
    ):
        with pytest.raises(OpError, match=words):
            run_op(f"executorch_py::{name}.out", *args, out=[out])
