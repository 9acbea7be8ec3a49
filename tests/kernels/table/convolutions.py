"""Rows of convolutions: 1-d to 3-d, grouped, depthwise, dilated, transposed; dtypes and layouts.

Weights are constant in some rows, so that the prepare step packs them, and not in others. The names
of cases are for tests/kernels/test_conv.py, which tests special properties of convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from kernels.table.row import FLOATS, HALVES, INTS, WIDE, Row, growing, small

F32, F16 = torch.float32, torch.float16


@dataclass(frozen=True)
class Convolution:
    """x and w are shapes; w is torch's weight shape."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    transposed: bool = False
    output_padding: int | tuple[int, ...] = 0

    @property
    def out_channels(self) -> int:
        return self.w[1] * self.groups if self.transposed else self.w[0]

    def arguments(self) -> tuple[Any, ...]:
        n = len(self.x) - 2

        def listed(v: int | tuple[int, ...]) -> list[int]:
            return [v] * n if isinstance(v, int) else list(v)

        return (
            listed(self.stride), listed(self.padding), listed(self.dilation), self.transposed,
            listed(self.output_padding), self.groups,
        )  # fmt: skip


CASES: dict[str, Convolution] = {
    "pointwise": Convolution((2, 20, 9, 8), (33, 20, 1, 1)),
    "pointwise wide": Convolution((1, 24, 20, 20), (100, 24, 1, 1)),
    "pointwise few pixels": Convolution((2, 40, 3, 5), (48, 40, 1, 1)),
    "pointwise one pixel": Convolution((3, 17, 1, 1), (35, 17, 1, 1)),
    "pointwise strided": Convolution((1, 6, 9, 9), (8, 6, 1, 1), stride=2),
    "pointwise padded": Convolution((1, 6, 5, 5), (8, 6, 1, 1), padding=1),
    "3x3": Convolution((2, 5, 11, 13), (18, 5, 3, 3), padding=1),
    "3x3 strided": Convolution((1, 3, 33, 31), (32, 3, 3, 3), stride=2, padding=1),
    "3x3 few pixels": Convolution((1, 70, 7, 7), (64, 70, 3, 3), padding=1),
    "3x3 long k": Convolution((1, 130, 10, 10), (20, 130, 3, 3), padding=1),
    "7x7 strided": Convolution((1, 3, 30, 30), (16, 3, 7, 7), stride=2, padding=3),
    "few channels wide": Convolution((1, 3, 6, 90), (20, 3, 3, 5), stride=(2, 1), padding=(1, 2)),
    "few channels dilated wide": Convolution((2, 2, 9, 70), (9, 2, 3, 3), padding=2, dilation=2),
    "few channels grouped wide": Convolution(
        (1, 6, 8, 81), (8, 3, 2, 3), stride=2, padding=1, groups=2
    ),
    "few channels long k": Convolution((1, 3, 14, 60), (17, 3, 11, 11), padding=5),
    "uneven": Convolution(
        (1, 4, 12, 17), (6, 4, 2, 5), stride=(3, 2), padding=(1, 2), dilation=(2, 1)
    ),
    "dilated": Convolution((1, 4, 20, 20), (6, 4, 3, 3), padding=4, dilation=4),
    "padding beyond input": Convolution((1, 2, 3, 3), (4, 2, 3, 3), padding=5),
    "dilated beyond the image": Convolution((2, 40, 4, 3), (24, 40, 3, 3), padding=12, dilation=12),
    "dilated to the edges": Convolution((2, 33, 9, 11), (40, 33, 3, 3), padding=6, dilation=6),
    "dilated to the edges, grouped": Convolution(
        (1, 96, 11, 9), (64, 48, 3, 3), padding=(8, 5), dilation=(8, 5), groups=2
    ),
    "dilated to the edges, strided": Convolution(
        (1, 64, 18, 17), (48, 64, 3, 4), stride=(1, 2), padding=(12, 9), dilation=(12, 6)
    ),
    "one pixel padded": Convolution((3, 70, 1, 1), (33, 70, 3, 3), padding=1),
    "one pixel padded, long k": Convolution((1, 300, 1, 1), (20, 300, 3, 3), padding=1),
    "one pixel padded, whole chunks": Convolution((1, 320, 1, 1), (18, 320, 3, 3), padding=1),
    "strided to one pixel": Convolution((2, 90, 2, 2), (40, 90, 3, 3), stride=2, padding=1),
    "only padding": Convolution((1, 16, 1, 1), (24, 16, 1, 1), stride=2, padding=1),
    "1d dilated to the edges": Convolution((2, 64, 40), (64, 64, 5), padding=64, dilation=32),
    "3d dilated to the edges": Convolution(
        (1, 16, 3, 6, 6), (24, 16, 3, 3, 3), padding=(1, 4, 4), dilation=(1, 4, 4)
    ),
    "kernel is input": Convolution((2, 3, 5, 6), (7, 3, 5, 6)),
    "grouped": Convolution((2, 12, 9, 9), (24, 4, 3, 3), padding=1, groups=3),
    "grouped pointwise": Convolution((1, 32, 6, 6), (32, 8, 1, 1), groups=4),
    "small groups": Convolution((2, 12, 11, 30), (15, 4, 3, 3), stride=(2, 3), padding=1, groups=3),
    "small groups, wide": Convolution(
        (1, 12, 9, 90), (12, 6, 5, 3), padding=1, dilation=(1, 2), groups=2
    ),
    "small groups in bands": Convolution((1, 16, 120, 70), (10, 8, 3, 3), padding=1, groups=2),
    "small groups in depth": Convolution((1, 12, 5, 9, 8), (14, 6, 3, 3, 3), padding=1, groups=2),
    "transposed small groups": Convolution(
        (1, 12, 9, 10), (12, 5, 4, 3), stride=2, padding=1, groups=3, transposed=True
    ),
    "depthwise 3x3": Convolution((2, 19, 14, 14), (19, 1, 3, 3), padding=1, groups=19),
    "depthwise 3x3 strided": Convolution(
        (1, 8, 113, 71), (8, 1, 3, 3), stride=2, padding=1, groups=8
    ),
    "depthwise 5x5": Convolution((1, 33, 9, 100), (33, 1, 5, 5), padding=2, groups=33),
    "depthwise 5x5 strided": Convolution(
        (1, 8, 15, 16), (8, 1, 5, 5), stride=(2, 3), padding=2, groups=8
    ),
    "depthwise dilated": Convolution(
        (1, 4, 20, 18), (4, 1, 3, 3), padding=2, dilation=2, groups=4, stride=2
    ),
    "depthwise multiplied": Convolution((2, 6, 8, 9), (18, 1, 3, 3), padding=1, groups=6),
    "depthwise in bands": Convolution((1, 2, 400, 300), (2, 1, 3, 3), padding=1, groups=2),
    "depthwise 1d": Convolution((2, 6, 40), (6, 1, 4), padding=3, groups=6),
    "depthwise large kernel": Convolution((1, 3, 20, 20), (3, 1, 13, 11), padding=6, groups=3),
    "depthwise few pixels": Convolution((2, 37, 2, 3), (37, 1, 5, 5), padding=2, groups=37),
    "depthwise few pixels, strided": Convolution(
        (1, 40, 7, 7), (40, 1, 3, 3), stride=3, padding=1, groups=40
    ),
    "depthwise one pixel": Convolution((2, 33, 1, 1), (33, 1, 7, 7), padding=3, groups=33),
    "1d": Convolution((2, 7, 50), (9, 7, 5), padding=2),
    "1d strided": Convolution((1, 4, 51), (40, 4, 8), stride=4, dilation=2, padding=3),
    "3d": Convolution((1, 3, 6, 7, 8), (5, 3, 3, 3, 3), padding=1),
    "3d strided": Convolution(
        (2, 4, 7, 7, 9), (6, 2, 3, 1, 2), stride=(2, 1, 3), padding=(1, 0, 1), groups=2
    ),
    "3d depthwise": Convolution((1, 4, 5, 6, 7), (4, 1, 3, 3, 3), padding=1, groups=4),
    "3d depthwise strided": Convolution(
        (2, 5, 9, 20, 21), (5, 1, 3, 3, 3), stride=(1, 8, 8), padding=1, groups=5
    ),
    "3d depthwise multiplied, dilated": Convolution(
        (1, 3, 11, 9, 8), (6, 1, 3, 2, 3), stride=(2, 1, 2), padding=2, dilation=(3, 2, 1), groups=3
    ),
    "3d depthwise of planes": Convolution(
        (1, 4, 5, 12, 19), (4, 1, 1, 3, 3), stride=(2, 1, 1), padding=(0, 1, 1), groups=4
    ),
    "3d depthwise in depth": Convolution(
        (1, 20, 9, 4, 70), (20, 1, 5, 1, 1), padding=(2, 0, 0), groups=20
    ),
    "3d depthwise in bands": Convolution((1, 2, 5, 90, 90), (2, 1, 5, 3, 3), padding=2, groups=2),
    "transposed 3d depthwise": Convolution(
        (1, 5, 4, 5, 6), (5, 1, 3, 4, 3), stride=(2, 2, 1), padding=1, groups=5, transposed=True
    ),
    "transposed": Convolution((2, 5, 6, 7), (5, 8, 3, 3), transposed=True),
    "transposed strided": Convolution(
        (1, 6, 5, 6), (6, 4, 3, 3), stride=2, padding=1, output_padding=1, transposed=True
    ),
    "transposed grouped": Convolution(
        (1, 6, 5, 6), (6, 4, 2, 2), stride=2, groups=3, transposed=True
    ),
    "transposed dilated": Convolution(
        (1, 3, 5, 5), (3, 4, 3, 3), stride=3, dilation=2, padding=2, transposed=True
    ),
    "transposed depthwise": Convolution(
        (1, 6, 9, 9), (6, 1, 4, 4), stride=2, padding=1, groups=6, transposed=True
    ),
    "transposed 1d": Convolution(
        (1, 4, 9), (4, 6, 5), stride=3, padding=1, output_padding=2, transposed=True
    ),
    "transposed 3d": Convolution(
        (1, 2, 3, 4, 5), (2, 3, 3, 3, 3), stride=2, padding=1, transposed=True
    ),
    "transposed stride beyond kernel": Convolution(
        (2, 5, 4, 6), (5, 7, 2, 1), stride=(5, 3), output_padding=(4, 2), transposed=True
    ),
    "transposed one channel, stride beyond kernel": Convolution(
        (1, 1, 9), (1, 6, 2), stride=3, padding=1, output_padding=2, transposed=True
    ),
    "transposed padded away": Convolution(
        (1, 3, 4, 4), (3, 2, 3, 3), stride=4, padding=6, transposed=True
    ),
    "transposed dilation and stride share a factor": Convolution(
        (1, 4, 7, 5), (4, 3, 5, 4), stride=(4, 6), dilation=(6, 4), padding=3, transposed=True
    ),
    "transposed wide": Convolution(
        (1, 40, 19, 67), (40, 33, 4, 4), stride=2, padding=1, transposed=True
    ),
    "transposed depthwise wide": Convolution(
        (2, 5, 9, 83), (5, 1, 5, 3), stride=(2, 1), padding=(2, 1), groups=5, transposed=True
    ),
    "transposed depthwise multiplied": Convolution(
        (1, 6, 9, 9), (6, 2, 3, 3), stride=3, groups=6, transposed=True, output_padding=2
    ),
    "transposed few pixels": Convolution((1, 33, 1, 1), (33, 20, 4, 4), transposed=True),
    "no images": Convolution((0, 3, 8, 8), (4, 3, 3, 3)),
}
OP = "aten::convolution.out"
CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def exact_integers(x: torch.Tensor, w: torch.Tensor, b: Any, *args: Any) -> torch.Tensor:
    """Eager's narrow integers overflow in another way. f64 is exact here; then the result wraps."""
    wide = None if b is None else b.double()
    result: torch.Tensor = torch.ops.aten.convolution(x.double(), w.double(), wide, *args)
    return result.to(torch.int64).to(x.dtype)


def convolutions() -> Iterator[Row]:
    for name, case in CASES.items():
        last = CHANNELS_LAST[len(case.x)]
        for dtype in (*FLOATS, *INTS):
            x, w = small(case.x, dtype), small(case.w, dtype, 1)
            bias = small((case.out_channels,), dtype, 2)
            how: dict[str, Any] = {"scale": 4, "exact": dtype in HALVES}
            if dtype in INTS:
                how = {"reference": exact_integers}
            const = replace(w, const=True)
            yield Row(OP, (x, const, bias, *case.arguments()), **how)
            if dtype in INTS:
                continue
            yield Row(OP, (x, w, None, *case.arguments()), **how)
            args = (replace(x, order=last), const, bias, *case.arguments())
            yield Row(OP, args, out_order=last, **how)
            if "depthwise" in name:
                yield Row(OP, args, **how)
        if case.x[0] > 0:
            for sizes in growing(
                lambda n, c=case: (
                    small((n, *c.x[1:]), F32), small(c.w, F32, 1, const=True), None,
                    *c.arguments(),
                ), (1, 2, 4),
            ):  # fmt: skip
                yield Row(OP, scale=4, **sizes)


def is_quick(case: Convolution) -> bool:
    return 0 < math.prod(case.x) * math.prod(case.w[1:]) <= 60_000


def layouts() -> Iterator[Row]:
    """Input, weight and output each have a different layout."""
    for case in filter(is_quick, CASES.values()):
        last, plain = CHANNELS_LAST[len(case.x)], tuple(range(len(case.x)))
        back = plain[::-1]
        for dtype in (F32, F16):
            x, w = small(case.x, dtype), small(case.w, dtype, 1)
            for of_x, of_w, const, out in (
                (None, None, True, last),
                (last, last, True, plain),
                (None, last, False, back),
                (back, None, True, plain),
                (back, back, False, last),
            ):
                args = (replace(x, order=of_x), replace(w, order=of_w, const=const), None)
                rest = case.arguments()
                yield Row(OP, (*args, *rest), scale=4, exact=dtype in HALVES, out_order=out)


def gradients() -> Iterator[Row]:
    for case in filter(is_quick, CASES.values()):
        x, w = torch.empty(case.x), torch.empty(case.w)
        shape = tuple(torch.ops.aten.convolution(x, w, None, *case.arguments()).shape)
        for dtype in WIDE:
            given = (small(shape, dtype, 3), small(case.x, dtype), small(case.w, dtype, 1))
            args = (*given, [case.out_channels], *case.arguments(), [True, True, True])
            yield Row("aten::convolution_backward.out", args, scale=16)


def rows() -> Iterator[Row]:
    yield from convolutions()
    yield from layouts()
    yield from gradients()
