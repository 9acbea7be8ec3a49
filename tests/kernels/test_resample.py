"""Upsampling against eager torch: sizes and factors, up and down, layouts, dtypes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.element_samples import laid_out
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# input shape, output_size, scale_factors
CASES: list[tuple[tuple[int, ...], Any, Any]] = [
    ((2, 3, 5, 7), [10, 14], None),
    ((1, 2, 9, 8), [4, 13], None),
    ((2, 3, 5, 7), None, [2.0, 2.0]),
    ((1, 4, 6, 5), None, [1.7, 0.6]),
    ((1, 1, 3, 200), [3, 700], None),
    ((1, 2, 1, 1), [4, 1], None),
    ((0, 2, 3, 3), [6, 6], None),
]


def image(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    return (torch.rand(shape) * 100).to(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nearest_equals_eager(case: Any, dtype: torch.dtype) -> None:
    check_op(aten.upsample_nearest2d.vec_out, image(case[0], dtype), *case[1:])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_bilinear_equals_eager(case: Any, align_corners: bool, dtype: torch.dtype) -> None:
    shape, size, factors = case
    check_op(
        aten.upsample_bilinear2d.vec_out, image(shape, dtype), size, align_corners, factors, scale=8
    )


def test_resampling_takes_any_layout() -> None:
    x = image((2, 3, 5, 7), torch.float32).contiguous(memory_format=torch.channels_last)
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
        check_op(aten.upsample_nearest2d.vec_out, x, [10, 9], None, out_order=order)
        check_op(
            aten.upsample_bilinear2d.vec_out, x, [10, 9], False, None, out_order=order, scale=8
        )


@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8], ids=str)
def test_channels_last_rows_of_any_length_equal_eager(dtype: torch.dtype) -> None:
    for shape, size in (
        ((1, 3, 2, 300), [3, 517]), ((1, 301, 2, 3), [3, 5]), ((1, 1100, 2, 3), [3, 2]),
    ):  # fmt: skip
        x = image(shape, dtype).contiguous(memory_format=torch.channels_last)
        check_op(aten.upsample_nearest2d.vec_out, x, size, None, out_order=(0, 2, 3, 1))
        for order in (
            (0, 2, 3, 1),
            (2, 3, 0, 1),
        ):  # side by side, and not
            y = laid_out(x, order)
            if dtype != torch.uint8:  # of which eager rounds its weights
                check_op(
                    aten.upsample_bilinear2d.vec_out, y, size, False, None,
                    out_order=order, scale=8,
                )  # fmt: skip


@pytest.mark.parametrize(
    ("size", "factors", "words"),
    [
        (None, None, "expected either output_size or scale_factors, got neither"),
        ([4, 4], [2.0, 2.0], "expected either output_size or scale_factors, got both"),
        ([0, 4], None, "dimension 2: expected an output size of 1 or more, got 0"),
        (None, [-1.0, 2.0], "dimension 2: expected an output size of 1 or more, got -2"),
        ([4], None, "output_size: expected 2 entries, got 1"),
        (None, [2.0], "scale_factors: expected 2 entries, got 1"),
    ],
)
def test_wrong_arguments_are_refused_with_words(size: Any, factors: Any, words: str) -> None:
    with pytest.raises(OpError, match=words):
        run_op(
            "aten::upsample_nearest2d.vec_out",
            torch.rand(1, 1, 2, 2),
            size,
            factors,
            out=[Out(torch.float32, (1, 1, 4, 4))],
        )
