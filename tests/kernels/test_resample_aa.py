"""Antialiased resizing of images against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.element_samples import laid_out
from support.op_driver import OpError, Out, check_op, run_op

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


# input size, output size, align_corners, factors
RESIZES: list[tuple[tuple[int, int], list[int], bool, tuple[float | None, float | None]]] = [
    ((17, 13), [5, 7], False, (None, None)),
    ((17, 13), [5, 7], True, (None, None)),
    ((8, 8), [16, 3], False, (None, None)),
    ((6, 5), [6, 5], False, (None, None)),
    ((40, 3), [1, 1], False, (None, None)),
    ((40, 3), [1, 1], True, (None, None)),
    ((12, 12), [6, 4], False, (0.5, 0.3)),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", RESIZES, ids=str)
def test_antialiased_resizing_equals_eager(case: Any, dtype: torch.dtype) -> None:
    size, to, align, factors = case
    x = torch.randn(2, 3, *size).to(dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    expected = aten._upsample_bilinear2d_aa(x.to(wide), to, align, *factors).to(dtype)
    check_op(aten._upsample_bilinear2d_aa.out, x, to, align, *factors, expected=expected, scale=4)
    check_op(
        aten._upsample_bilinear2d_aa.out,
        laid_out(x, (0, 2, 3, 1)),
        to,
        align,
        *factors,
        expected=expected,
        scale=4,
        out_order=(3, 2, 1, 0),
    )


@pytest.mark.parametrize("size", [(3, 9001), (9001, 3)], ids=str)
def test_bytes_may_shrink_by_any_factor(size: tuple[int, int]) -> None:
    x = torch.randint(0, 256, (1, 2, *size), dtype=torch.uint8)
    for to in ([1, 1], [2, 2]):
        check_op(aten._upsample_bilinear2d_aa.out, x, to, False, None, None)
    check_op(aten._upsample_bilinear2d_aa.out, laid_out(x, (0, 2, 3, 1)), [2, 1], True, None, None)


def test_wrong_arguments_are_refused_with_words() -> None:
    x, out = torch.ones(1, 2, 3, 3), [Out(torch.float32, (1, 2, 2, 2))]
    rows: list[tuple[str, list[Any]]] = [
        (
            "expected 2 entries of 1 or more, got 2, entry 1 of 0",
            [x, [2, 0], False, None, None],
        ),
        (
            "expected 2 entries of 1 or more, got 1",
            [x, [2], False, None, None],
        ),
        (
            "got input f64, out f32",
            [x.double(), [2, 2], False, None, None],
        ),
    ]
    for words, args in rows:
        with pytest.raises(OpError, match=words):
            run_op("aten::_upsample_bilinear2d_aa.out", *args, out=out)
