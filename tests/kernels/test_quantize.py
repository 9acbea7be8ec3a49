"""Quantization and embeddings of small integers against torch's decomposed operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from support.op_driver import OpError, Out, assert_close, isa_limit, isas, run_op
from support.program_maker import MethodMaker, program_bytes
from support.tolerance import EXACT, assert_near

from executorch_py import errors
from executorch_py.runtime import Runtime

eager = torch.ops.quantized_decomposed
LIMITS = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-32768, 32767),
    torch.int32: (-(2**31), 2**31 - 1),
}
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3


def run(name: str, expected: torch.Tensor, *args: Any) -> None:
    """Runs an operator with one output of the expected type; values agree bit for bit."""
    out = Out(expected.dtype, expected.shape, order=expected.dim_order())
    (found,) = run_op(f"quantized_decomposed::{name}", *args, out=[out])
    assert_near(found, expected, EXACT)


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4), (2, 3, 4, 33)], ids=str)
def test_one_scale_for_a_tensor(
    shape: tuple[int, ...], dtype: torch.dtype, source: torch.dtype
) -> None:
    x, limits = values(*shape).to(source), LIMITS[dtype]
    q = eager.quantize_per_tensor(x, 0.03, 3, *limits, dtype)
    run("quantize_per_tensor.out", q, x, 0.03, 3, *limits, dtype)
    y = eager.dequantize_per_tensor(q, 0.03, 3, *limits, dtype)
    run("dequantize_per_tensor.out", y, q, 0.03, 3, *limits, dtype, None)
    scale, zero = torch.tensor([0.03]), torch.tensor([3])
    q = eager.quantize_per_tensor.tensor(x, scale, zero, *limits, dtype)
    run("quantize_per_tensor.Tensor_out", q, x, scale, zero, *limits, dtype)
    y = eager.dequantize_per_tensor.tensor(q, scale, zero, *limits, dtype)
    run("dequantize_per_tensor.Tensor_out", y, q, scale, zero, *limits, dtype, None)


def test_halves_round_to_even_and_limits_saturate() -> None:
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 127.5, -129.0, 1e30, -1e30])
    for limits in ((-128, 127), (-8, 7)):
        q = eager.quantize_per_tensor(x, 1.0, 0, *limits, torch.int8)
        run("quantize_per_tensor.out", q, x, 1.0, 0, *limits, torch.int8)


@pytest.mark.parametrize("wide", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_one_scale_for_each_channel(
    layout: torch.memory_format, axis: int, wide: torch.dtype
) -> None:
    x = values(2, 3, 4, 5).to(memory_format=layout)
    n, limits = x.shape[axis], LIMITS[torch.int8]
    scales, zeros = (values(n).abs() * 0.1 + 0.01).to(wide), torch.arange(n) - 2
    q = eager.quantize_per_channel(x, scales, zeros, axis, *limits, torch.int8)
    q = q.to(memory_format=layout)
    run("quantize_per_channel.out", q, x, scales, zeros, axis, *limits, torch.int8)
    for zero in (zeros, None):
        args = (q, scales, zero, axis, *limits, torch.int8)
        y = eager.dequantize_per_channel(*args).to(memory_format=layout)
        run("dequantize_per_channel.out", y, *args, None)


@pytest.mark.parametrize("shape", [(4, 7), (2, 3, 16), (1, 1)], ids=str)
def test_scales_chosen_for_each_token(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    scales, zeros = eager.choose_qparams_per_token_asymmetric(x, torch.int8)
    found = run_op(
        "quantized_decomposed::choose_qparams_per_token_asymmetric.out",
        x,
        torch.int8,
        out=[Out(torch.float64, scales.shape), Out(torch.int64, zeros.shape)],
    )
    assert_near(list(found), [scales, zeros], EXACT)
    limits = (-128, 127, torch.int8)
    q = eager.quantize_per_token(x, scales, zeros, *limits)
    run("quantize_per_token.out", q, x, scales, zeros, *limits)
    y = eager.dequantize_per_token(q, scales, zeros, *limits, torch.float32)
    run("dequantize_per_token.out", y, q, scales, zeros, *limits, torch.float32)


@pytest.mark.parametrize("shift", [-20.0, 0.0, 20.0])
def test_scales_chosen_for_a_tensor(shift: float) -> None:
    x = values(5, 6).t() + shift
    for limits in ((-128, 127), (0, 255)):
        args = (x, *limits, 1e-5, torch.int8)
        scale, zero = eager.choose_qparams.tensor(*args)
        found = run_op(
            "quantized_decomposed::choose_qparams.Tensor_out",
            *args,
            out=[Out(torch.float64, (1,)), Out(torch.int64, (1,))],
        )
        assert_near(list(found), [scale, zero], EXACT)


def test_a_range_of_integers_wider_than_an_integer_gives_a_scale() -> None:
    scale, _ = run_op(
        "quantized_decomposed::choose_qparams.Tensor_out",
        torch.tensor([0.0, 2.0**32]),
        -(2**63),
        2**63 - 1,
        0.0,
        torch.int8,
        out=[Out(torch.float64, (1,)), Out(torch.int64, (1,))],
    )
    assert scale.item() == 2.0**-32


def unpacked(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """The numbers of a packed embedding: 4 bits are stored high half first, 2 bits low end
    first."""
    shifts = {8: [0], 4: [4, 0], 2: [0, 2, 4, 6]}[bits]
    if bits == 8:
        return weight.to(torch.int32)
    parts = [(weight.to(torch.int32) >> s & (2**bits - 1)) - 2 ** (bits - 1) for s in shifts]
    return torch.stack(parts, dim=-1).flatten(1)


@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize(("bits", "name"), [(8, "byte"), (4, "4bit"), (2, "2bit")])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rows_of_a_quantized_table(
    dtype: torch.dtype, bits: int, name: str, with_zeros: bool, groups: int
) -> None:
    generator = torch.Generator().manual_seed(2)
    weight = torch.randint(0, 256, (10, 4), generator=generator).to(torch.uint8)
    if bits == 8:
        weight = weight.view(torch.int8)
    shape = (10, groups) if groups else (10,)
    scales = values(*shape).abs().to(dtype)
    zeros = torch.randint(-3, 3, shape, generator=generator).to(dtype) if with_zeros else None
    numbers = unpacked(weight, bits).unflatten(1, (max(groups, 1), -1)).float()
    shift = torch.zeros(10) if zeros is None else zeros.float()
    wide = (numbers - shift.view(10, -1, 1)) * scales.float().view(10, -1, 1)
    for index in (torch.tensor([[0, 9], [3, 4]]), torch.tensor(7, dtype=torch.int32)):
        expected = wide.flatten(1)[index.long()].to(dtype)
        limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        run(f"embedding_{name}.out", expected, weight, scales, zeros, *limits, index)
        single = wide.flatten(1)[index.long()]
        args = (weight, scales, zeros, *limits, index, torch.float32)
        run(f"embedding_{name}.dtype_out", single, *args)


def test_an_index_outside_of_the_table_is_refused() -> None:
    args = (torch.zeros(10, 4, dtype=torch.int8), torch.ones(10), None, -128, 127)
    with pytest.raises(OpError, match="index 10 at position 1 is outside of a table of 10 rows"):
        run("embedding_byte.out", torch.zeros(2, 4), *args, torch.tensor([0, 10]))


@pytest.mark.parametrize("name", ["scales", "zero_points"])
def test_a_result_in_the_place_of_an_operand_is_refused(name: str) -> None:
    method = MethodMaker()
    operands = {
        "weight": method.tensor((10, 4), "int8"),
        "scales": method.tensor((10,)),
        "zero_points": method.tensor((10,)),
        "indices": method.tensor((2,), "int64"),
    }
    *table, indices = operands.values()
    limits, out = (method.scalar(-128), method.scalar(127)), operands[name]
    op = "quantized_decomposed::embedding_byte.out"
    method.call(op, *table, *limits, indices, out, out)
    method.inputs, method.outputs = list(operands.values()), [out]
    given = [torch.zeros(10, 4, dtype=torch.int8), *torch.ones(2, 10), torch.tensor([0, 1])]
    loaded = Runtime.get().load_program(program_bytes(method)).load_method("forward")
    with pytest.raises(errors.ExecutorchError, match=f"out is also {name}"):
        loaded.execute([tensor.numpy() for tensor in given])


def test_scales_that_do_not_fit_the_channels_are_refused() -> None:
    q = torch.zeros(2, 3, dtype=torch.int8)
    rest = (1, -128, 127, torch.int8, None)
    for words, *numbers in (
        (r"scales: .* one element for each of the 3 channels, got f32\[2\]", torch.ones(2), None),
        (r"zero_points: .* the 3 channels, got f32\[3, 1\]", torch.ones(3), torch.ones(3, 1)),
    ):
        with pytest.raises(OpError, match=words):
            run("dequantize_per_channel.out", torch.zeros(2, 3), q, *numbers, *rest)


def test_tables_and_results_in_another_dim_order_are_refused() -> None:
    table, order = torch.zeros(10, 4, dtype=torch.int8), r"expected the contiguous dim order, got "
    for words, weight, out in (
        (rf"weight: {order}\[1, 0\]", torch.zeros(4, 10, dtype=torch.int8).T, torch.zeros(2, 4)),
        (rf"out: {order}\[1, 0\]", table, torch.zeros(4, 2).T),
    ):
        with pytest.raises(OpError, match=words):
            args = (weight, torch.ones(10), None, -128, 127, torch.tensor([0, 1]))
            run("embedding_byte.out", out, *args)
    shape = (2, 3, 1)
    for name, k in (("scale_out", 0), ("zero_point_out", 1)):
        outs = [Out(torch.float64, shape), Out(torch.int64, shape)]
        outs[k] = Out(outs[k].dtype, shape, (1, 0, 2))
        with pytest.raises(OpError, match=rf"asymmetric: {name}: {order}\[1, 0, 2\]"):
            op = "quantized_decomposed::choose_qparams_per_token_asymmetric.out"
            run_op(op, torch.ones(2, 3, 4), torch.int8, out=outs)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("shape", [(3, 70), (2, 40, 5, 7), (300, 9), (5, 300)], ids=str)
def test_fast_rows_give_the_bits_of_the_general_way(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Every instruction set, one scale or one a channel, in rows, columns and planes."""
    x, limits = values(*shape) * 20, LIMITS[dtype]
    x.view(-1)[5], x.view(-1)[9] = torch.inf, -1e30
    for isa in isas():
        with isa_limit(isa):
            q = eager.quantize_per_tensor(x, 0.25, 3, *limits, dtype)
            run("quantize_per_tensor.out", q, x, 0.25, 3, *limits, dtype)
            y = eager.dequantize_per_tensor(q, 0.3, 3, *limits, dtype)
            run("dequantize_per_tensor.out", y, q, 0.3, 3, *limits, dtype, None)
            for axis, n in enumerate(shape):
                scales, zeros = values(n).abs() * 0.1 + 0.01, torch.arange(n) % 7 - 2
                q = eager.quantize_per_channel(x, scales, zeros, axis, *limits, dtype)
                run("quantize_per_channel.out", q, x, scales, zeros, axis, *limits, dtype)
                y = eager.dequantize_per_channel(q, scales, zeros, axis, *limits, dtype)
                args = (q, scales, zeros, axis, *limits, dtype)
                run("dequantize_per_channel.out", y, *args, None)


def test_zero_points_that_are_large_or_not_whole_take_the_general_way() -> None:
    x, limits = values(4, 40), LIMITS[torch.int8]
    q = eager.quantize_per_tensor(x, 0.05, 70000, *limits, torch.int8)
    run("quantize_per_tensor.out", q, x, 0.05, 70000, *limits, torch.int8)
    q = torch.randint(-128, 128, (4, 40)).to(torch.int8)
    args = (q, torch.rand(4), torch.tensor([0.5, -0.25, 1, 2]), 0, *limits, torch.int8)
    run("dequantize_per_channel.out", eager.dequantize_per_channel(*args), *args, None)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
@pytest.mark.parametrize("shapes", [((3, 5), (3, 5)), ((2, 1, 40), (3, 1)), ((), (0,))], ids=str)
def test_sums_of_quantized_tensors_equal_requantized_sums(shapes: Any, dtype: torch.dtype) -> None:
    limits = LIMITS[dtype]
    a, b = (torch.randint(limits[0], limits[1] + 1, shape).to(dtype) for shape in shapes)
    args = (a, 0.05, 13, *limits, b, 0.11, 12, *limits, 0.07, 18, *limits)
    wide = [
        eager.dequantize_per_tensor(q, s, z, *limits, dtype)
        for q, s, z in ((a, 0.05, 13), (b, 0.11, 12))
    ]
    expected = eager.quantize_per_tensor(wide[0] + wide[1], 0.07, 18, *limits, dtype)
    run("add.out", expected, *args)


@pytest.mark.parametrize("dtype", [torch.float64, *FLOATS], ids=str)
@pytest.mark.parametrize("shape", [(3, 8, 5), (1, 300, 70), (40, 6, 1), (0, 4, 2)], ids=str)
@pytest.mark.parametrize("with_zeros", [False, True])
def test_products_with_a_matrix_of_bytes(
    with_zeros: bool, shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    m, k, n = shape
    x, q = (values(m, k) / 6).to(dtype), torch.randint(-128, 128, (n, k)).to(torch.int8)
    wide_type = torch.float64  # the values are such that sums differ little in f32
    for groups in (None, 1, 2):
        scales = (values(n, groups or 1).abs() * 0.001 + 0.001).to(dtype)
        zeros = torch.randint(-5, 5, scales.shape).to(dtype) if with_zeros else None
        numbers = q.to(wide_type).unflatten(1, (scales.shape[1], -1))
        shift = 0 if zeros is None else zeros.to(wide_type).unsqueeze(-1)
        wide = ((numbers - shift) * scales.to(wide_type).unsqueeze(-1)).flatten(1)
        expected = (x.to(wide_type) @ wide.t()).to(dtype)
        if groups is None:
            scales, zeros = scales[:, 0], None if zeros is None else zeros[:, 0]
        out = [Out(dtype, expected.shape)]
        name = "quantized_decomposed::mixed_linear.out"
        assert_close(run_op(name, x, q, scales, zeros, None, out=out)[0], expected, 4)
    scales = (values(k).abs() * 0.001 + 0.001).to(dtype)
    zeros = torch.randint(-5, 5, (k,)).to(dtype) if with_zeros else None
    numbers = q.t().contiguous()
    shift = 0 if zeros is None else zeros.to(wide_type).unsqueeze(-1)
    wide = (numbers.to(wide_type) - shift) * scales.to(wide_type).unsqueeze(-1)
    expected = (x.to(wide_type) @ wide).to(dtype)
    args = (x, numbers, scales, zeros)
    assert_close(run_op("quantized_decomposed::mixed_mm.out", *args, out=out)[0], expected, 4)


def test_scales_that_do_not_fit_a_matrix_are_refused() -> None:
    x, q = torch.ones(2, 6), torch.ones(3, 6, dtype=torch.int8)
    for words, *numbers in (
        ("equal groups of a row", torch.ones(3, 4), None),
        (r"zero points: .* shape \[3\], as scales, got f32\[2\]", torch.ones(3), torch.ones(2)),
        (r"scales: .* contiguous dim order, got \[1, 0\]", torch.ones(2, 3).T, None),
        (r"zero points: .* order, got \[1, 0\]", torch.ones(3, 2), torch.ones(2, 3).T),
    ):
        with pytest.raises(OpError, match=words):
            out = [Out(torch.float32, (2, 3))]
            run_op("quantized_decomposed::mixed_linear.out", x, q, *numbers, None, out=out)
