"""Operators of precision bf16 give eager torch's products of operands rounded to bfloat16, with the
same bits in every way of running and with every instruction set.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import (
    Const,
    Doubles,
    OpError,
    Out,
    Tensors,
    amx_bf16,
    assert_same,
    check_op,
    isa_limit,
    isas_and_bf16,
    run_op,
)
from support.tolerance import BF16_DENORMAL_SUMS, F32_LAYERS, assert_near

from executorch_py.exir.dialects import bf16_ops

NHWC = (0, 2, 3, 1)
own = torch.ops.executorch_py
LINEAR = "executorch_py::linear_bf16.out"
NO_STEPS = ("", Doubles(), Tensors([]))


def floats(*shape: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=made)


def check_everywhere(op: Any, *args: Any, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """Compares every way of running with the operator's definition, and instruction sets with each
    other; tiles of AMX have other bits."""
    (found,) = check_op(op, *args, out_order=order, scale=4)
    name = f"{op._schema.name}.out"
    results = []
    for isa in isas_and_bf16():
        with isa_limit(isa):
            out = [Out(found.dtype, tuple(found.shape), order)]
            results += run_op(name, *args, out=out, prepared=True)
        assert_same(results[-1], results[0], f"instruction set {isa}")
    if amx_bf16():
        assert_near(results[0], found, F32_LAYERS)
        with isa_limit(isas_and_bf16()[-1]):
            (found,) = check_op(op, *args, out_order=order, scale=4)
    assert_same(results[0], found, "in other ways of running")
    return found


def matrix(n: int, k: int) -> torch.Tensor:
    return floats(n, k) / math.sqrt(max(k, 1))


def linear_args(weight: torch.Tensor, bias: torch.Tensor | None, *epilogue: Any) -> list[Any]:
    offset = None if bias is None else Const(bf16_ops.packed_bias(bias))
    packed = Const(bf16_ops.packed_weight(weight))
    return [packed, offset, weight.shape[0], *(epilogue or NO_STEPS)]


SHAPES = [(1, 64), (7, 33), (2, 3, 130), (65, 1), (3, 0), (0, 5), (25, 513), (13, 1200), (130, 40)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles_of_amx_add_the_same_products_in_another_order(shape: tuple[int, ...]) -> None:
    x, weight, bias = floats(*shape), matrix(37, shape[-1]), floats(37)
    args = (x, *linear_args(weight, bias))
    wanted = torch.nn.functional.linear(
        x.to(torch.bfloat16).double(), weight.to(torch.bfloat16).double(), bias.double()
    ).float()
    if not amx_bf16():
        pytest.skip("this processor has no products of bf16 on tiles of AMX")
    for isa in amx_bf16():
        out = [Out(torch.float32, tuple(wanted.shape))]
        with isa_limit(isa):
            found = [
                run_op(LINEAR, *args, out=out, prepared=prepared, threads=threads)[0]
                for prepared in (False, True)
                for threads in (1, 3)
            ]
        assert_near(found[0], wanted, F32_LAYERS)
        for other in found[1:]:
            assert_same(other, found[0], "without scratch, or with more threads")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [1, 16, 37, 150])
def test_linear_layers_multiply_rounded_operands(shape: tuple[int, ...], n: int) -> None:
    x, weight, bias = floats(*shape), matrix(n, shape[-1]), floats(n)
    for offset in (bias, None):
        result = check_everywhere(own.linear_bf16.out, x, *linear_args(weight, offset))
        rounded = [t.to(torch.bfloat16).to(torch.float64) for t in (x, weight)]
        wanted = torch.nn.functional.linear(*rounded, None if offset is None else bias.double())
        assert_near(result.double(), wanted, F32_LAYERS)


# Image, output channels, kernel, stride, padding, dilation.
CONVOLUTIONS = {
    "first of a network": ((1, 3, 19, 17), 32, (3, 3), (2, 2), (1, 1), (1, 1)),
    "pointwise": ((1, 24, 9, 9), 40, (1, 1), (1, 1), (0, 0), (1, 1)),
    "pointwise, odd, strided": ((2, 7, 9, 8), 5, (1, 1), (2, 2), (0, 0), (1, 1)),
    "three by three": ((2, 7, 9, 8), 5, (3, 3), (1, 1), (1, 1), (1, 1)),
    "dilated": ((1, 8, 9, 9), 16, (3, 2), (1, 1), (2, 3), (2, 3)),
    "padding beyond the image": ((1, 4, 2, 2), 8, (5, 5), (1, 1), (4, 4), (1, 1)),
    "dilation beyond the image": ((1, 4, 3, 3), 8, (2, 2), (1, 1), (3, 3), (5, 5)),
    "a pixel": ((1, 33, 3, 3), 17, (3, 3), (1, 1), (0, 0), (1, 1)),
    "patches": ((1, 3, 32, 32), 48, (16, 16), (16, 16), (0, 0), (1, 1)),
    "many terms": ((1, 130, 6, 5), 24, (3, 3), (1, 1), (1, 1), (1, 1)),
    "no images": ((0, 4, 5, 5), 8, (3, 3), (1, 1), (1, 1), (1, 1)),
    "an image of one pixel": ((1, 40, 1, 1), 24, (1, 1), (1, 1), (0, 0), (1, 1)),
}


def convolution_args(case: str, *epilogue: Any) -> tuple[list[Any], torch.Tensor, torch.Tensor]:
    """Arguments of a case's call, its weight and its bias."""
    shape, out, kernel, stride, padding, dilation = CONVOLUTIONS[case]
    weight = floats(out, shape[1], *kernel) / math.sqrt(shape[1] * math.prod(kernel))
    packed = linear_args(bf16_ops.matrix_of_kernel(weight), floats(out))[:3]
    x = floats(*shape).contiguous(memory_format=torch.channels_last)
    geometry = [list(g) for g in (kernel, stride, padding, dilation)]
    return [x, *packed, *geometry, *(epilogue or NO_STEPS)], weight, floats(out)


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_multiply_rounded_operands(case: str) -> None:
    args, weight, bias = convolution_args(case)
    result = check_everywhere(own.convolution_bf16.out, *args, order=NHWC)
    x, rounded = (t.to(torch.bfloat16).to(torch.float64) for t in (args[0], weight))
    _, _, _, *geometry = CONVOLUTIONS[case]
    wanted = torch.nn.functional.conv2d(x, rounded, bias.double(), *geometry)
    assert_near(result.double(), wanted, F32_LAYERS)


def test_epilogues_follow_a_convolution() -> None:
    other = floats(2, 5, 9, 8).contiguous(memory_format=torch.channels_last)
    steps = ("add:_0 relu", Doubles([]), Tensors([other]))
    args, _, _ = convolution_args("three by three", *steps)
    check_everywhere(own.convolution_bf16.out, *args, order=NHWC)


def test_images_in_planes_are_refused() -> None:
    args, _, _ = convolution_args("three by three")
    out = [Out(torch.float32, (2, 5, 9, 8), NHWC)]
    with pytest.raises(OpError, match="input: expected channels-last images of f32, got f32"):
        run_op("executorch_py::convolution_bf16.out", args[0].contiguous(), *args[1:], out=out)


@pytest.mark.parametrize("text", ["relu", "add:_0 gelu", "sigmoid mul:x_", "add:_s clamp mul:x_"])
def test_epilogues_follow_a_linear_layer(text: str) -> None:
    x, weight, bias = floats(29, 67), matrix(35, 67), floats(35)
    numbers = Doubles([3.0, 0.0, 6.0] if "clamp" in text else [])
    steps = (text, numbers, Tensors([floats(29, 35)] if "0" in text else []))
    check_everywhere(own.linear_bf16.out, x, *linear_args(weight, bias, *steps))


def test_every_order_of_special_numbers_gives_the_same_bits() -> None:
    """Denormals become zeros, NaN and infinities go through as in f32."""
    specials = [0.0, -0.0, 1e-40, -1e-40, 1.5e-38, -1.2e-38, math.inf, -math.inf, math.nan, 1.0]
    specials += [2.0**-63, -(2.0**-63), 2.0**-75, -(2.0**-75), 2.0**-126, 3.3e38, 1 + 2.0**-8]
    made = torch.Generator().manual_seed(0)
    table = torch.tensor(specials)
    for limit in (len(specials), 6, 2):  # with and without infinities and NaN
        pick = [*range(9, 17), *range(6)] if limit == 6 else list(range(limit))
        values = table[pick]
        x, weight = (
            values[torch.randint(len(pick), shape, generator=made)] for shape in ((30, 6), (40, 6))
        )
        results = []
        for isa in isas_and_bf16():
            with isa_limit(isa):
                out = [Out(torch.float32, (30, 40))]
                results += run_op(LINEAR, x, *linear_args(weight, None), out=out, prepared=True)
        for other in results[1:]:
            assert_same(other, results[0], "special numbers")
        rounded = [
            t.to(torch.bfloat16).float() * (t.to(torch.bfloat16).float().abs() >= 2.0**-126)
            for t in (x, weight)
        ]
        wanted = torch.nn.functional.linear(*rounded)
        assert_near(results[0], wanted, BF16_DENORMAL_SUMS, equal_nan=True)


def test_sums_that_would_round_up_to_a_normal_number_are_flushed_everywhere() -> None:
    least = 2.0**-126
    # least · 1 - 2^-75 · 2^-75 has no exponent in f32 before it is rounded.
    x = torch.tensor([[-(2.0**-75), least], [2.0**-75, -least], [-(2.0**-76), least]])
    weight = torch.tensor([[2.0**-75, 1.0]])
    for isa in isas_and_bf16():
        with isa_limit(isa):
            out = [Out(torch.float32, (3, 1))]
            (got,) = run_op(LINEAR, x, *linear_args(weight, None), out=out, prepared=True)
        assert got.flatten().tolist() == [0.0, 0.0, least], isa


def test_rows_are_rounded_to_the_nearest_number_with_an_even_last_bit() -> None:
    ties = torch.tensor([[1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -1 - 2.0**-8]]).t()
    weight = torch.ones(1, 1)
    for isa in isas_and_bf16():
        with isa_limit(isa):
            out = [Out(torch.float32, (4, 1))]
            (got,) = run_op(LINEAR, ties, *linear_args(weight, None), out=out, prepared=True)
        assert torch.equal(got, ties.to(torch.bfloat16).float()), isa


@pytest.mark.parametrize("n, k", [(1, 1), (16, 2), (37, 33)])
def test_packed_weights_are_unpacked_again(n: int, k: int) -> None:
    weight = matrix(n, k)
    packed = bf16_ops.packed_weight(weight)
    assert packed.shape == (-(-n // 16), -(-k // 2), 16, 2)
    assert torch.equal(bf16_ops.unpacked_weight(packed, n, k), weight.to(torch.bfloat16))


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x, weight, bias = floats(2, 8), matrix(20, 8), floats(20)
    good = linear_args(weight, bias)
    cases = [
        ([Const(bf16_ops.packed_weight(matrix(20, 6))), *good[1:]], "weight: expected contiguous"),
        (
            [Const(torch.zeros(2, 4, 16, 2)), *good[1:]],
            r"\[2, 4, 16, 2\] for 20 x 8 weights, got f",
        ),
        ([good[0], Const(floats(20)), *good[2:]], "bias: expected 32 contiguous elements"),
        ([*good[:2], 40, *good[3:]], r"weight: expected contiguous panels of bf16 \[3, 4, 16, 2\]"),
        ([*good[:3], "gulp", *good[4:]], "there is no step 'gulp'"),
    ]
    for args, message in cases:
        with pytest.raises(OpError, match=message):
            run_op(LINEAR, x, *args, out=[Out(torch.float32, (2, 20))], prepared=True)
