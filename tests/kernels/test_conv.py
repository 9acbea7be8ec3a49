"""aten::convolution beyond its results, which the operator table compares with eager torch.

Packing, layouts, threads and instruction sets change no bit; wrong arguments are refused.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernels.table.convolutions import CASES, CHANNELS_LAST, Convolution
from support.element_samples import laid_out
from support.op_driver import (
    Const,
    OpError,
    Out,
    assert_close,
    check_op,
    isa_limit,
    isas,
    n_shared_jobs,
    run_op,
)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def tensors(case: Convolution, dtype: torch.dtype) -> list[torch.Tensor]:
    """Input, weight and bias."""
    return [(torch.rand(s) - 0.5).to(dtype) for s in (case.x, case.w, (case.out_channels,))]


SAME_BITS = [
    "3x3 long k",
    "pointwise few pixels",
    "3x3 few pixels",
    "dilated beyond the image",
    "dilated to the edges",
    "dilated to the edges, grouped",
    "dilated to the edges, strided",
    "one pixel padded",
    "one pixel padded, long k",
    "one pixel padded, whole chunks",
    "strided to one pixel",
    "only padding",
    "1d dilated to the edges",
    "3d dilated to the edges",
    "3d",
    "grouped",
    "transposed strided",
]


@pytest.mark.parametrize("order", (None, CHANNELS_LAST[4]), ids=("channels first", "last"))
@pytest.mark.parametrize(
    ("channels", "size", "groups", "is_shared"),
    [
        (48, 8, 48, False),
        (24, 16, 24, False),
        (192, 56, 192, True),
        (24, 8, 1, False),
        (48, 8, 1, False),
        (64, 28, 1, True),
    ],
)
def test_threads_share_a_convolution_if_its_work_is_worth_it(
    channels: int, size: int, groups: int, is_shared: bool, order: tuple[int, ...] | None
) -> None:
    kernel = 1 if groups == 1 else 3
    x, w = (
        torch.randn(1, channels, size, size),
        torch.randn(channels, channels // groups, kernel, kernel),
    )
    rest = ([1, 1], [kernel // 2] * 2, [1, 1], False, [0, 0], groups)
    given = x if order is None else laid_out(x, order)
    out = Out(torch.float32, x.shape, order)
    n = n_shared_jobs("aten::convolution.out", given, Const(w), None, *rest, out=[out])
    assert (n > 0) == is_shared


@pytest.mark.parametrize("name", SAME_BITS + [n for n in CASES if "depthwise" in n or "small" in n])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_packing_layout_and_threads_do_not_change_a_bit(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    x, w, b = tensors(case, dtype)
    last = None if x.dim() == 3 else CHANNELS_LAST[x.dim()]
    shape = torch.ops.aten.convolution(x, w, b, *case.arguments()).shape
    results = []
    for order in (None, last):
        given = x if order is None else laid_out(x, order)
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
    x, w, b = tensors(case, dtype)
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


def test_a_bias_of_another_size_is_refused() -> None:
    case = Convolution((1, 4, 5, 5), (6, 4, 3, 3))
    x, w, _ = tensors(case, torch.float32)
    out = [Out(torch.float32, (1, 6, 3, 3))]
    words = r"bias: expected one entry for each of 6 output channels, got f32\[2, 3\]"
    with pytest.raises(OpError, match=words):
        run_op("aten::convolution.out", x, w, torch.ones(2, 3), *case.arguments(), out=out)


def test_more_output_channels_than_a_size_holds_are_refused() -> None:
    x, w, big = torch.ones(1, 0, 5, 5), torch.ones(0, 2, 3, 3), 2**31 - 1
    rest = ([1, 1], [0, 0], [1, 1], True, [0, 0], big)
    with pytest.raises(OpError, match=f"at most {big} output channels, got {2 * big}"):
        run_op("aten::convolution.out", x, w, None, *rest, out=[Out(torch.float32, (1, 0, 7, 7))])


BAD: dict[str, dict[str, Any]] = {
    r"convolution: stride\[0\]: expected at least 1, got 0": {"stride": 0},
    r"convolution: stride\[1\]: expected at least 1, got -1": {"stride": (1, -1)},
    r"convolution: padding\[0\]: expected at least 0, got -2": {"padding": -2},
    r"convolution: dilation\[0\]: expected at least 1, got 0": {"dilation": 0},
    r"convolution: output_padding\[0\]: expected at least 0, got -1": {"output_padding": -1},
    "convolution: groups: expected 1 or more, got 0": {"groups": 0},
    "convolution: groups: expected 1 or more, got -3": {"groups": -3},
    "convolution: expected input of 8 channels for a weight of 6 x 4 channels and": {"groups": 2},
    "no valid output size": {"dilation": 9},
}


@pytest.mark.parametrize("words", BAD)
def test_wrong_arguments_are_refused_with_words(words: str) -> None:
    case = Convolution((1, 4, 5, 5), (6, 4, 3, 3), **BAD[words])
    x, w, b = tensors(case, torch.float32)
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


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_no_channels_or_images_make_none(spatial: int) -> None:
    size, kernel = (5,) * spatial, (3,) * spatial
    rest = ([1] * spatial, [0] * spatial, [1] * spatial, False, [0] * spatial, 1)
    for images, channels in ((2, 0), (0, 3)):
        x, w = torch.randn(images, channels, *size), torch.randn(4, channels, *kernel)
        check_op(torch.ops.aten.convolution.out, x, w, torch.randn(4), *rest)
        check_op(torch.ops.aten.convolution.out, x, w, None, *rest)


WILD = {
    "1d": ((1, 4, 8), (4, 1, 3), ([1], [2], [2], True, [0], 4)),
    "2d": ((2, 4, 7, 8), (4, 3, 3, 2), ([1, 1], [0, 1], [2, 1], True, [0, 0], 1)),
    "grouped": ((1, 8, 5, 6), (8, 2, 3, 2), ([1, 2], [1, 1], [1, 1], True, [0, 1], 4)),
    "3d": ((1, 2, 3, 4, 3), (2, 3, 2, 3, 2), ([2, 1, 1], [0, 1, 0], [1, 1, 2], True, [0] * 3, 1)),
}


@pytest.mark.parametrize("name", WILD)
@pytest.mark.parametrize("wild", [float("nan"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_a_transposed_one_multiplies_no_padding(name: str, wild: float, dtype: torch.dtype) -> None:
    shape, kernel, arguments = WILD[name]
    x, w, b = (torch.rand(s).to(dtype) + 0.5 for s in (shape, kernel, (1,)))
    b = b.expand(kernel[1] * arguments[-1]).contiguous()
    w.view(-1)[w.numel() // 2] = wild
    eager = torch.ops.aten.convolution(x, w, b, *arguments)
    # On a processor without half-precision products, eager's error is more than a rounding: 1.2e-3
    # from float64; that of float32 is 4.7e-4.
    wide = torch.promote_types(dtype, torch.float32)
    operands = (t.to(wide) for t in (x, w, b))
    wanted = torch.ops.aten.convolution(*operands, *arguments).to(dtype)
    assert wanted.isfinite().any() and not wanted.isfinite().all()
    assert torch.equal(eager.isfinite(), wanted.isfinite())
    check_op(torch.ops.aten.convolution.out, x, w, b, *arguments, expected=wanted)
    out = [Out(dtype, wanted.shape)]
    for threads in (1, 3):
        (found,) = run_op(
            "aten::convolution.out",
            x,
            Const(w),
            b,
            *arguments,
            out=out,
            prepared=True,
            threads=threads,
        )
        assert_close(found, wanted)


def test_padding_times_infinity_is_nan_in_a_plain_one() -> None:
    # Eager's implementations differ here: with MKL-DNN it often omits the products.
    x, w = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)
    w[0, 0, 0, 0] = float("inf")
    arguments = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    with torch.backends.mkldnn.flags(enabled=False):
        wanted = torch.ops.aten.convolution(x, w, None, *arguments)
    check_op(torch.ops.aten.convolution.out, x, w, None, *arguments, expected=wanted)
    assert wanted[0, 0, 0].isnan().all()


@pytest.mark.parametrize("wild", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["dilated beyond the image", "dilated to the edges"])
def test_padding_times_packed_weights_that_are_not_finite_is_nan(name: str, wild: float) -> None:
    x, w, b = tensors(CASES[name], torch.float32)
    w[0, 0, 0, 0] = wild
    with torch.backends.mkldnn.flags(enabled=False):
        wanted = torch.ops.aten.convolution(x, w, b, *CASES[name].arguments())
    assert wanted[:, 0, 1].isnan().all() and wanted[:, 1:].isfinite().all()
    for threads in (1, 3):
        (found,) = run_op(
            "aten::convolution.out",
            x,
            Const(w),
            b,
            *CASES[name].arguments(),
            out=[Out(torch.float32, wanted.shape)],
            prepared=True,
            threads=threads,
        )
        assert_close(found, wanted)
