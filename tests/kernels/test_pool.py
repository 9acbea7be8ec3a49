"""Pooling against eager torch: windows, borders, indices, NaN and infinities, layouts, dtypes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]

# input shape; kernel, stride, padding, dilation, ceil_mode
MAX_CASES: list[tuple[tuple[int, ...], Any, Any, Any, Any, bool]] = [
    ((2, 3, 13, 17), [3, 3], [2, 2], [1, 1], [1, 1], False),
    ((1, 2, 12, 10), [2, 2], [], [0, 0], [1, 1], False),
    ((3, 9, 11), [3, 2], [2, 3], [1, 1], [1, 1], True),
    ((1, 1, 15, 600), [2, 3], [1, 1], [1, 1], [2, 3], True),
    ((1, 2, 7, 7), [7, 7], [1, 1], [3, 3], [1, 1], False),
    ((1, 1, 5, 5), [2, 2], [4, 4], [1, 1], [1, 1], True),
    ((0, 2, 5, 5), [2, 2], [2, 2], [0, 0], [1, 1], False),
]
# input shape; kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
AVG_CASES: list[tuple[tuple[int, ...], Any, Any, Any, bool, bool, int | None]] = [
    ((2, 3, 13, 17), [3, 3], [2, 2], [1, 1], False, True, None),
    ((2, 3, 13, 17), [3, 3], [2, 2], [1, 1], True, True, None),
    ((2, 3, 13, 17), [3, 3], [2, 2], [1, 1], True, False, None),
    ((3, 8, 9), [2, 4], [], [1, 2], True, False, 3),
    ((1, 2, 6, 300), [2, 2], [1, 1], [0, 0], False, True, -2),
]
ADAPTIVE_CASES = [
    ((2, 3, 7, 7), [1, 1]),
    ((1, 2, 10, 13), [3, 5]),
    ((3, 5, 6), [7, 9]),
    ((1, 1, 4, 600), [2, 2]),
    ((1, 2, 5, 5), [0, 3]),
]


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Many ties, so that indices are tested."""
    torch.manual_seed(0)
    return torch.randint(0 if dtype == torch.uint8 else -20, 20, shape).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("case", MAX_CASES, ids=str)
def test_max_pool2d_equals_eager(case: Any, dtype: torch.dtype) -> None:
    check_op(aten.max_pool2d_with_indices.out, values(case[0], dtype), *case[1:])


@pytest.mark.parametrize("special", [torch.nan, torch.inf, -torch.inf])
def test_max_pool2d_of_special_values(special: float) -> None:
    x = values((1, 2, 9, 40), torch.float32)
    x[torch.rand(x.shape) < 0.3] = special
    check_op(aten.max_pool2d_with_indices.out, x, [3, 3], [2, 2], [1, 1])
    check_op(
        aten.max_pool2d_with_indices.out, torch.full((1, 1, 6, 6), special), [3, 3], [1, 1], [1, 1]
    )


def test_pools_take_any_layout() -> None:
    x = values((2, 3, 9, 10), torch.float32)
    for given in (
        x.contiguous(memory_format=torch.channels_last),
        x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    ):
        check_op(aten.max_pool2d_with_indices.out, given, [3, 3], [2, 2], [1, 1])
        check_op(
            aten.max_pool2d_with_indices.out, given, [3, 3], [2, 2], [1, 1], out_order=(0, 2, 3, 1)
        )
        check_op(aten.avg_pool2d.out, given, [3, 3], [2, 2], [1, 1], out_order=(3, 1, 0, 2))
        check_op(aten._adaptive_avg_pool2d.out, given, [4, 4], out_order=(0, 2, 3, 1))


# input shape; kernel, stride, padding
SMALL_PLANES: list[tuple[tuple[int, ...], Any, Any, Any]] = [
    ((2, 37, 9, 9), [3, 3], [1, 1], [1, 1]),
    ((1, 70, 4, 5), [2, 3], [1, 2], [1, 0]),
    ((3, 300, 1, 1), [3, 3], [1, 1], [1, 1]),
    ((1, 12, 33, 31), [3, 3], [2, 2], [1, 1]),
    ((1, 9, 40, 100), [4, 5], [4, 5], [0, 0]),
    ((1, 8, 60, 1), [2, 1], [2, 1], [0, 0]),
]


@pytest.mark.parametrize("case", SMALL_PLANES, ids=str)
def test_small_planes_have_the_bits_of_channels_last_images(case: Any) -> None:
    x, (kernel, stride, padding) = torch.randn(case[0]), case[1:]
    x[torch.rand(x.shape) < 0.02] = torch.nan
    last = x.contiguous(memory_format=torch.channels_last)
    size = tuple(aten.avg_pool2d(x, kernel, stride, padding).shape)
    calls: list[tuple[str, list[Any], list[torch.dtype]]] = [
        ("avg_pool2d", [False, False, None], [torch.float32]),
        ("max_pool2d_with_indices", [[1, 1], False], [torch.float32, torch.int64]),
    ]
    for name, rest, dtypes in calls:
        args = (kernel, stride, padding, *rest)
        outs = [Out(dtype, size, (0, 2, 3, 1)) for dtype in dtypes]
        wanted = run_op(f"aten::{name}.out", last, *args, out=outs)
        for threads in (1, 2, 3):
            outs = [Out(dtype, size) for dtype in dtypes]
            found = run_op(f"aten::{name}.out", x, *args, out=outs, threads=threads)
            for a, b in zip(wanted, found, strict=True):
                assert torch.equal(a.nan_to_num(1e9), b.nan_to_num(1e9))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64], ids=str)
@pytest.mark.parametrize("case", AVG_CASES, ids=str)
def test_avg_pool2d_equals_eager(case: Any, dtype: torch.dtype) -> None:
    check_op(aten.avg_pool2d.out, values(case[0], dtype), *case[1:])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", ADAPTIVE_CASES, ids=str)
def test_adaptive_avg_pool2d_equals_eager(case: Any, dtype: torch.dtype) -> None:
    x = values(case[0], dtype)
    # Eager sums half types in their own precision; f32, rounded once, is nearer to the truth.
    expected = aten._adaptive_avg_pool2d(x if dtype == torch.float64 else x.float(), case[1]).to(
        dtype
    )
    check_op(aten._adaptive_avg_pool2d.out, x, case[1], expected=expected, scale=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_pools_in_three_dimensions_equal_eager(dtype: torch.dtype) -> None:
    x = values((2, 3, 6, 7, 9), dtype)
    check_op(aten.max_pool3d_with_indices.out, x, [2, 3, 3], [1, 2, 2], [1, 1, 1], [1, 1, 2], True)
    check_op(aten.max_pool3d_with_indices.out, x[0], [2, 2, 2])
    check_op(aten.avg_pool3d.out, x, [2, 3, 3], [2, 2, 1], [1, 1, 0], True, False)
    check_op(aten.avg_pool3d.out, x[0], [3, 2, 2], [], [1, 1, 1], False, True, 5)
    check_op(aten._adaptive_avg_pool3d.out, x, [2, 3, 4], scale=2)


BAD: list[tuple[str, list[Any]]] = [
    ("kernel_size.0.: expected at least 1, got 0", [[0, 1], [], [0, 0], [1, 1]]),
    ("stride.1.: expected at least 1, got -1", [[2, 2], [1, -1], [0, 0], [1, 1]]),
    ("padding.0.: expected at least 0, got -1", [[2, 2], [1, 1], [-1, 0], [1, 1]]),
    ("dilation.0.: expected at least 1, got 0", [[2, 2], [1, 1], [0, 0], [0, 1]]),
    ("padding 2 is more than half of the window 3", [[3, 3], [1, 1], [2, 2], [1, 1]]),
    ("too small for window 9", [[9, 9], [1, 1], [0, 0], [1, 1]]),
    ("expected 1 or 2 entries, got 3", [[2, 2, 2], [1, 1], [0, 0], [1, 1]]),
]


@pytest.mark.parametrize(("words", "args"), BAD)
def test_wrong_arguments_are_refused_with_words(words: str, args: list[Any]) -> None:
    outs = [Out(torch.float32, (1, 2, 5, 5)), Out(torch.int64, (1, 2, 5, 5))]
    with pytest.raises(OpError, match=words):
        run_op("aten::max_pool2d_with_indices.out", torch.rand(1, 2, 5, 5), *args, False, out=outs)


def test_a_divisor_of_zero_is_refused() -> None:
    with pytest.raises(OpError, match="divisor_override: expected other than 0, got 0"):
        run_op(
            "aten::avg_pool2d.out",
            torch.rand(1, 2, 4, 4),
            [2, 2],
            [],
            [0, 0],
            False,
            True,
            0,
            out=[Out(torch.float32, (1, 2, 2, 2))],
        )


@pytest.mark.parametrize("stride", [1, 5, 9])
def test_the_mean_of_a_single_window_does_not_depend_on_the_stride(stride: int) -> None:
    for x in (torch.randn(2, 3, 6, 5), torch.randn(2, 6, 3, 5).permute(0, 2, 1, 3)):
        check_op(aten.avg_pool2d.out, x, [6, 5], [stride, stride], [0, 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_ties_and_nans_in_overlapping_windows_go_by_their_place(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    for shape, kernel, stride, padding in (
        ((1, 2, 9, 700), [3, 3], [2, 2], [1, 1]), ((1, 2, 7, 300), [3, 3], [1, 1], [1, 1]),
        ((1, 1, 4, 530), [2, 5], [1, 3], [0, 2]), ((1, 2, 9, 40), [3, 120], [1, 1], [1, 60]),
    ):  # fmt: skip
        x = torch.randint(-2, 3, shape, generator=generator).to(dtype)
        x[torch.rand(shape, generator=generator) < 0.02] = float("nan")
        for given in (x, x.nan_to_num(-torch.inf), torch.full_like(x, -torch.inf)):
            check_op(aten.max_pool2d_with_indices.out, given, kernel, stride, padding)
