"""aten::convolution against eager torch.

1-d to 3-d, grouped, depthwise, dilated, transposed; every dtype and layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from op_driver import Const, OpError, Out, check_op, isa_limit, isas, run_op

convolution = torch.ops.aten.convolution.out
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@dataclass
class Case:
    """x and w are shapes; w is torch's weight shape."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    transposed: bool = False
    output_padding: int | tuple[int, ...] = 0
    bias: bool = True

    def arguments(self) -> list[Any]:
        n = len(self.x) - 2

        def listed(v: int | tuple[int, ...]) -> list[int]:
            return [v] * n if isinstance(v, int) else list(v)

        return [
            listed(self.stride),
            listed(self.padding),
            listed(self.dilation),
            self.transposed,
            listed(self.output_padding),
            self.groups,
        ]

    def tensors(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        out_channels = self.w[1] * self.groups if self.transposed else self.w[0]
        if dtype.is_floating_point:
            x, w, b = ((torch.rand(s) - 0.5).to(dtype) for s in (self.x, self.w, (out_channels,)))
        else:
            low = 0 if dtype == torch.uint8 else -9
            x, w, b = (
                torch.randint(low, 9, s).to(dtype) for s in (self.x, self.w, (out_channels,))
            )
        return x, w, b if self.bias else None


CASES = {
    "pointwise": Case((2, 20, 9, 8), (33, 20, 1, 1)),
    "pointwise wide": Case((1, 24, 20, 20), (100, 24, 1, 1), bias=False),
    "pointwise few pixels": Case((2, 40, 3, 5), (48, 40, 1, 1)),
    "pointwise one pixel": Case((3, 17, 1, 1), (35, 17, 1, 1)),
    "pointwise strided": Case((1, 6, 9, 9), (8, 6, 1, 1), stride=2),
    "pointwise padded": Case((1, 6, 5, 5), (8, 6, 1, 1), padding=1),
    "3x3": Case((2, 5, 11, 13), (18, 5, 3, 3), padding=1),
    "3x3 strided": Case((1, 3, 33, 31), (32, 3, 3, 3), stride=2, padding=1, bias=False),
    "3x3 few pixels": Case((1, 70, 7, 7), (64, 70, 3, 3), padding=1),
    "3x3 long k": Case((1, 130, 10, 10), (20, 130, 3, 3), padding=1),
    "7x7 strided": Case((1, 3, 30, 30), (16, 3, 7, 7), stride=2, padding=3),
    "few channels wide": Case((1, 3, 6, 90), (20, 3, 3, 5), stride=(2, 1), padding=(1, 2)),
    "few channels dilated wide": Case((2, 2, 9, 70), (9, 2, 3, 3), padding=2, dilation=2),
    "few channels grouped wide": Case((1, 6, 8, 81), (8, 3, 2, 3), stride=2, padding=1, groups=2),
    "few channels long k": Case((1, 3, 14, 60), (17, 3, 11, 11), padding=5),
    "uneven": Case((1, 4, 12, 17), (6, 4, 2, 5), stride=(3, 2), padding=(1, 2), dilation=(2, 1)),
    "dilated": Case((1, 4, 20, 20), (6, 4, 3, 3), padding=4, dilation=4),
    "padding beyond input": Case((1, 2, 3, 3), (4, 2, 3, 3), padding=5),
    "kernel is input": Case((2, 3, 5, 6), (7, 3, 5, 6)),
    "grouped": Case((2, 12, 9, 9), (24, 4, 3, 3), padding=1, groups=3),
    "grouped pointwise": Case((1, 32, 6, 6), (32, 8, 1, 1), groups=4),
    "small groups": Case((2, 12, 11, 30), (15, 4, 3, 3), stride=(2, 3), padding=1, groups=3),
    "small groups, wide": Case((1, 12, 9, 90), (12, 6, 5, 3), padding=1, dilation=(1, 2), groups=2),
    "small groups in bands": Case((1, 16, 120, 70), (10, 8, 3, 3), padding=1, groups=2, bias=False),
    "small groups in depth": Case((1, 12, 5, 9, 8), (14, 6, 3, 3, 3), padding=1, groups=2),
    "transposed small groups": Case(
        (1, 12, 9, 10), (12, 5, 4, 3), stride=2, padding=1, groups=3, transposed=True
    ),
    "depthwise 3x3": Case((2, 19, 14, 14), (19, 1, 3, 3), padding=1, groups=19),
    "depthwise 3x3 strided": Case(
        (1, 8, 113, 71), (8, 1, 3, 3), stride=2, padding=1, groups=8, bias=False
    ),
    "depthwise 5x5": Case((1, 33, 9, 100), (33, 1, 5, 5), padding=2, groups=33),
    "depthwise 5x5 strided": Case((1, 8, 15, 16), (8, 1, 5, 5), stride=(2, 3), padding=2, groups=8),
    "depthwise dilated": Case(
        (1, 4, 20, 18), (4, 1, 3, 3), padding=2, dilation=2, groups=4, stride=2
    ),
    "depthwise multiplied": Case((2, 6, 8, 9), (18, 1, 3, 3), padding=1, groups=6),
    "depthwise in bands": Case((1, 2, 400, 300), (2, 1, 3, 3), padding=1, groups=2),
    "depthwise 1d": Case((2, 6, 40), (6, 1, 4), padding=3, groups=6),
    "depthwise large kernel": Case((1, 3, 20, 20), (3, 1, 13, 11), padding=6, groups=3),
    "1d": Case((2, 7, 50), (9, 7, 5), padding=2),
    "1d strided": Case((1, 4, 51), (40, 4, 8), stride=4, dilation=2, padding=3),
    "3d": Case((1, 3, 6, 7, 8), (5, 3, 3, 3, 3), padding=1),
    "3d strided": Case(
        (2, 4, 7, 7, 9), (6, 2, 3, 1, 2), stride=(2, 1, 3), padding=(1, 0, 1), groups=2
    ),
    "3d depthwise": Case((1, 4, 5, 6, 7), (4, 1, 3, 3, 3), padding=1, groups=4),
    "3d depthwise strided": Case(
        (2, 5, 9, 20, 21), (5, 1, 3, 3, 3), stride=(1, 8, 8), padding=1, groups=5
    ),
    "3d depthwise multiplied, dilated": Case(
        (1, 3, 11, 9, 8), (6, 1, 3, 2, 3), stride=(2, 1, 2), padding=2, dilation=(3, 2, 1), groups=3
    ),
    "3d depthwise of planes": Case(
        (1, 4, 5, 12, 19), (4, 1, 1, 3, 3), stride=(2, 1, 1), padding=(0, 1, 1), groups=4
    ),
    "3d depthwise in depth": Case(
        (1, 20, 9, 4, 70), (20, 1, 5, 1, 1), padding=(2, 0, 0), groups=20, bias=False
    ),
    "3d depthwise in bands": Case((1, 2, 5, 90, 90), (2, 1, 5, 3, 3), padding=2, groups=2),
    "transposed 3d depthwise": Case(
        (1, 5, 4, 5, 6), (5, 1, 3, 4, 3), stride=(2, 2, 1), padding=1, groups=5, transposed=True
    ),
    "transposed": Case((2, 5, 6, 7), (5, 8, 3, 3), transposed=True),
    "transposed strided": Case(
        (1, 6, 5, 6), (6, 4, 3, 3), stride=2, padding=1, output_padding=1, transposed=True
    ),
    "transposed grouped": Case(
        (1, 6, 5, 6), (6, 4, 2, 2), stride=2, groups=3, transposed=True, bias=False
    ),
    "transposed dilated": Case(
        (1, 3, 5, 5), (3, 4, 3, 3), stride=3, dilation=2, padding=2, transposed=True
    ),
    "transposed depthwise": Case(
        (1, 6, 9, 9), (6, 1, 4, 4), stride=2, padding=1, groups=6, transposed=True
    ),
    "transposed 1d": Case(
        (1, 4, 9), (4, 6, 5), stride=3, padding=1, output_padding=2, transposed=True
    ),
    "transposed 3d": Case((1, 2, 3, 4, 5), (2, 3, 3, 3, 3), stride=2, padding=1, transposed=True),
    "transposed stride beyond kernel": Case(
        (2, 5, 4, 6), (5, 7, 2, 1), stride=(5, 3), output_padding=(4, 2), transposed=True
    ),
    "transposed one channel, stride beyond kernel": Case(
        (1, 1, 9), (1, 6, 2), stride=3, padding=1, output_padding=2, transposed=True
    ),
    "transposed padded away": Case(
        (1, 3, 4, 4), (3, 2, 3, 3), stride=4, padding=6, transposed=True
    ),
    "transposed dilation and stride share a factor": Case(
        (1, 4, 7, 5), (4, 3, 5, 4), stride=(4, 6), dilation=(6, 4), padding=3, transposed=True
    ),
    "transposed wide": Case((1, 40, 19, 67), (40, 33, 4, 4), stride=2, padding=1, transposed=True),
    "transposed depthwise wide": Case(
        (2, 5, 9, 83), (5, 1, 5, 3), stride=(2, 1), padding=(2, 1), groups=5, transposed=True
    ),
    "transposed depthwise multiplied": Case(
        (1, 6, 9, 9), (6, 2, 3, 3), stride=3, groups=6, transposed=True, output_padding=2
    ),
    "transposed few pixels": Case((1, 33, 1, 1), (33, 20, 4, 4), transposed=True, bias=False),
    "no images": Case((0, 3, 8, 8), (4, 3, 3, 3)),
}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def check(case: Case, x: torch.Tensor, w: Any, b: torch.Tensor | None, order: Any = None) -> None:
    plain_w = w.tensor if isinstance(w, Const) else w
    args = case.arguments()
    # Eager's integer convolution overflows in another way for narrow types: ask f64, then wrap.
    if x.dtype.is_floating_point:
        expected = torch.ops.aten.convolution(x, plain_w, b, *args)
    else:
        exact = torch.ops.aten.convolution(
            x.double(), plain_w.double(), b if b is None else b.double(), *args
        )
        expected = exact.to(torch.int64).to(x.dtype)
    check_op(convolution, x, w, b, *args, expected=expected.contiguous(), out_order=order, scale=4)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_convolution_equals_eager(name: str, dtype: torch.dtype) -> None:
    x, w, b = CASES[name].tensors(dtype)
    check(CASES[name], x, Const(w), b)


@pytest.mark.parametrize(
    "name", ["3x3", "grouped", "depthwise 3x3", "transposed strided", "1d", "3d"]
)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_every_dtype_is_supported(name: str, dtype: torch.dtype) -> None:
    x, w, b = CASES[name].tensors(dtype)
    check(CASES[name], x, Const(w), b)


@pytest.mark.parametrize("name", ["3x3", "pointwise", "depthwise 5x5", "transposed grouped"])
def test_weights_may_change_between_runs(name: str) -> None:
    x, w, b = CASES[name].tensors(torch.float32)
    check(CASES[name], x, w, b)


LAST = (0, 2, 3, 1)
LAST_ORDERS: dict[int, tuple[tuple[int, ...] | None, torch.memory_format]] = {
    3: (None, torch.contiguous_format),
    4: (LAST, torch.channels_last),
    5: ((0, 2, 3, 4, 1), torch.channels_last_3d),
}
WITH_CHANNELS_LAST = [n for n, c in CASES.items() if len(c.x) > 3]


@pytest.mark.parametrize("name", WITH_CHANNELS_LAST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_channels_last_equals_eager(name: str, dtype: torch.dtype) -> None:
    x, w, b = CASES[name].tensors(dtype)
    order, layout = LAST_ORDERS[x.dim()]
    last = x.contiguous(memory_format=layout)
    check(CASES[name], last, Const(w), b, order)
    if "depthwise" in name:
        check(CASES[name], last, Const(w), b)


@pytest.mark.parametrize(
    "name", ["3x3", "pointwise", "depthwise 3x3", "transposed strided", "grouped"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_layouts_of_input_weight_and_output_are_free(name: str, dtype: torch.dtype) -> None:
    x, w, b = CASES[name].tensors(dtype)
    layouts = [t.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1) for t in (x, w)]
    last = (
        x.contiguous(memory_format=torch.channels_last),
        w.contiguous(memory_format=torch.channels_last),
    )
    check(CASES[name], x, Const(w), b, LAST)
    check(CASES[name], last[0], Const(last[1]), b)
    check(CASES[name], layouts[0], Const(layouts[1]), b, (0, 3, 1, 2))
    check(CASES[name], layouts[0], layouts[1], b, (3, 2, 1, 0))


SAME_BITS = [
    "3x3 long k",
    "pointwise few pixels",
    "3x3 few pixels",
    "3d",
    "grouped",
    "transposed strided",
]


@pytest.mark.parametrize("name", SAME_BITS + [n for n in CASES if "depthwise" in n or "small" in n])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_packing_layout_and_threads_do_not_change_a_bit(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    x, w, b = case.tensors(dtype)
    last, layout = LAST_ORDERS[x.dim()]
    shape = torch.ops.aten.convolution(x, w, b, *case.arguments()).shape
    results = []
    for order in (None, last):
        given = x if order is None else x.contiguous(memory_format=layout)
        for weight, prepared, threads in (
            (w, False, 1),
            (Const(w), True, 1),
            (Const(w), True, 3),
            (w, True, 2),
        ):
            out = Out(dtype, shape, order)
            results += run_op(
                "aten::convolution.out",
                given,
                weight,
                b,
                *case.arguments(),
                out=[out],
                prepared=prepared,
                threads=threads,
            )
    assert all(torch.equal(r, results[0]) for r in results)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if 0 not in c.x])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_instruction_set_gives_the_same_bits(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    x, w, b = case.tensors(dtype)
    expected = torch.ops.aten.convolution(x, w, b, *case.arguments())
    results = []
    for isa in isas():
        with isa_limit(isa):
            for weight, prepared in ((w, False), (Const(w), True)):
                results += run_op(
                    "aten::convolution.out",
                    x,
                    weight,
                    b,
                    *case.arguments(),
                    out=[Out(dtype, expected.shape)],
                    prepared=prepared,
                )
    assert all(torch.equal(r, results[0]) for r in results)


BAD: dict[str, dict[str, Any]] = {
    "stride.0. is 0": {"stride": 0},
    "stride.1. is -1": {"stride": (1, -1)},
    "padding.0. is -2": {"padding": -2},
    "dilation.0. is 0": {"dilation": 0},
    "output_padding.0. is -1": {"output_padding": -1},
    "groups is 0": {"groups": 0},
    "groups is -3": {"groups": -3},
    "input has 4 channels; weight of 6 x 4 channels and groups 2 need 8": {"groups": 2},
    "no valid output size": {"dilation": 9},
}


@pytest.mark.parametrize("words", BAD)
def test_wrong_arguments_are_refused_with_words(words: str) -> None:
    case = Case((1, 4, 5, 5), (6, 4, 3, 3), **BAD[words])
    x, w, b = Case((1, 4, 5, 5), (6, 4, 3, 3)).tensors(torch.float32)
    with pytest.raises(OpError, match=words):
        run_op(
            "aten::convolution.out",
            x,
            w,
            b,
            *case.arguments(),
            out=[Out(torch.float32, (1, 6, 9, 9))],
        )


def test_huge_arguments_are_refused_or_computed_without_overflow() -> None:
    x, w = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2)
    big = 2**31 - 1
    out = [Out(torch.float32, (1, 1, 1, 1))]
    for args in (
        [[1, 1], [big, big], [1, 1], False],
        [[1, 1], [0, 0], [big, big], False],
        [[big, big], [0, 0], [big, big], True],
    ):
        with pytest.raises(OpError):
            run_op("aten::convolution.out", x, w, None, *args, [0, 0], 1, out=out)
    (y,) = run_op(
        "aten::convolution.out", x, w, None, [big, big], [0, 0], [1, 1], False, [0, 0], 1, out=out
    )
    assert y.item() == 4
