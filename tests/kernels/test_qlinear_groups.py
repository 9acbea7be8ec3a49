"""Products of int8 rows and weights of 4 or 8 bits in groups: they have the bits of the definition,
in every way of running and with every instruction set, and equal the product of dequantized
operands up to rounding.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from support.op_driver import Const, OpError, Out, check_op, isa_limit, isas_and_dots, run_op
from support.tolerance import F32_GROUPWISE, assert_near

from executorch_py.exir.dialects import integer_ops
from executorch_py.exir.dialects.quantized_ops import register_quantized_ops

register_quantized_ops()
own = torch.ops.executorch_py
NAME = "executorch_py::qlinear_groups.out"


def made(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Product:
    """Random operands: packed for kernels, and dequantized."""

    def __init__(
        self,
        shape: tuple[int, ...],
        n: int,
        group: int,
        *,
        scales: torch.dtype = torch.bfloat16,
        zeros: bool = False,
        minimums: bool = False,
        bits: int = 4,
        bias: bool = True,
        one_scale: bool = False,
    ) -> None:
        g, rows, groups = made(sum(shape) + n), math.prod(shape[:-1]), shape[-1] // group
        self.one_scale = one_scale
        self.residual: torch.Tensor | None = None
        self.x = torch.randint(-128, 128, shape, generator=g, dtype=torch.int8)
        self.scale = torch.rand(1 if one_scale else rows, generator=g, dtype=torch.float64) + 0.1
        self.zero = torch.randint(-128, 128, (len(self.scale),), generator=g)
        limit = 2 ** (bits - 1)
        self.weight = torch.randint(
            -limit, limit, (n, groups, group), generator=g, dtype=torch.int8
        )
        self.scales = (torch.rand(n, groups, generator=g) + 0.5) / (
            5 * limit * math.sqrt(shape[-1] + 1)
        )
        self.scales = self.scales.to(scales)
        self.zeros = torch.zeros(n, groups, dtype=torch.int8)
        if zeros:
            self.zeros = torch.randint(-limit, limit, (n, groups), generator=g, dtype=torch.int8)
        self.bias = torch.randn(n, generator=g) if bias else torch.zeros(n)
        self.minimums = (-8 * self.scales * torch.rand(n, groups, generator=g)).to(scales)
        offset = 8 if minimums and bits == 4 else 0
        codes = self.weight.int() + offset - self.zeros.unsqueeze(-1)
        wide = codes.double() * self.scales.double().unsqueeze(-1)
        if minimums:
            wide = wide + self.minimums.double().unsqueeze(-1)
        self.matrix = wide.reshape(n, -1)
        sums = self.matrix.sum(-1).to(torch.float32)
        self.args: list[Any] = [
            self.x,
            self.scale,
            self.zero,
            Const(integer_ops.packed_groups(self.weight, bits)),
            Const(integer_ops.packed_numbers(self.scales)),
            Const(integer_ops.packed_numbers(self.zeros)) if zeros else None,
            Const(integer_ops.packed_numbers(self.minimums)) if minimums else None,
            *(Const(integer_ops.packed_columns(t, 1)) for t in (sums, self.bias)),
            group,
            n,
            None,  # residual
            None,  # weight of a norm
            None,  # its eps
        ]

    def expected(self) -> torch.Tensor:
        """Dequantized rows times dequantized weights, in f64."""
        rows = (1,) if self.one_scale else (*self.x.shape[:-1], 1)
        x = (self.x - self.zero.reshape(rows)) * self.scale.reshape(rows)
        residual = 0 if self.residual is None else self.residual
        return (x @ self.matrix.t() + self.bias + residual).to(torch.float32)

    def quantize_inside(self) -> None:
        """Rows of f32, without scales, and a residual."""
        x = torch.randn(self.x.shape, generator=made(self.x.numel()))
        self.residual = torch.randn((*x.shape[:-1], self.args[10]), generator=made(x.numel()))
        self.args[:3] = [x, None, None]
        self.args[11] = self.residual
        library = torch.ops.quantized_decomposed
        if x.shape[-1] == 0:
            return
        self.scale, self.zero = library.choose_qparams_per_token_asymmetric(x, torch.int8)
        self.x = library.quantize_per_token(x, self.scale, self.zero, -128, 127, torch.int8)

    def check(self) -> None:
        given = [a.tensor if isinstance(a, Const) else a for a in self.args]
        wanted = own.qlinear_groups(*given)
        (got,) = check_op(own.qlinear_groups.out, *self.args)
        assert torch.equal(got, wanted)
        for isa in isas_and_dots():
            for prepared in (False, True):
                with isa_limit(isa):
                    out = [Out(wanted.dtype, tuple(wanted.shape))]
                    (again,) = run_op(NAME, *self.args, out=out, prepared=prepared)
                assert torch.equal(wanted, again), (isa, prepared)
        assert_near(got, self.expected(), F32_GROUPWISE)


SHAPES = [(0, 64), (1, 32), (1, 256), (7, 128), (2, 3, 96), (64, 64), (65, 32), (131, 64), (3, 0)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [1, 16, 37])
def test_sums_of_groups_are_exact_and_then_scaled(shape: tuple[int, ...], n: int) -> None:
    Product(shape, n, 32).check()


# Terms of a row and of a group: sizes that quantizers use, and sizes with incomplete steps and
# parts.
SCALES = (torch.bfloat16, torch.float16, torch.float32)
GROUPS = [(256, 64), (256, 128), (256, 256), (1024, 256), (67, 67), (60, 12), (15, 5), (80, 40)]
GROUPS += [(24, 8), (8, 1), (300, 100), (34, 17), (2048, 32)]


@pytest.mark.parametrize("offset", ["symmetric", "zeros", "minimums"])
@pytest.mark.parametrize(("terms", "group"), GROUPS)
def test_groups_may_have_any_size(terms: int, group: int, offset: str) -> None:
    given: dict[str, Any] = {"zeros": offset == "zeros", "minimums": offset == "minimums"}
    for bits in (4, 8):
        Product((6, terms), 19, group, scales=SCALES[terms % 3], bits=bits, **given).check()


@pytest.mark.parametrize("dtype", SCALES, ids=str)
def test_groups_may_have_minimums(dtype: torch.dtype) -> None:
    for m in range(1, 9):
        Product((m, 96), (m * 16 + 5) % 51, 32, minimums=True, scales=dtype).check()


@pytest.mark.parametrize("dtype", SCALES, ids=str)
def test_weights_may_have_8_bits(dtype: torch.dtype) -> None:
    for m in range(1, 15):
        Product((m, 96), (m * 16 + 5) % 51, 32, bits=8, scales=dtype).check()


# Numbers of rows and columns around the tiles of all variants: of 4 or 6 rows and of one or two
# panels of 16 columns. Groups of 5 terms are shorter than a step.
@pytest.mark.parametrize(("terms", "group"), [(64, 32), (15, 5), (40, 40)])
def test_tiles_may_be_incomplete(terms: int, group: int) -> None:
    for m in range(1, 14):
        zeros = m % 2 == 0
        Product((m, terms), (m * 16 + 5) % 51, group, zeros=zeros, scales=SCALES[m % 3]).check()
    for n in (1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 50):
        zeros = n % 2 == 0
        Product((1 + n % 7, terms), n, group, zeros=zeros, scales=SCALES[n % 3]).check()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [1, 16, 37])
def test_rows_of_f32_are_quantized_inside(shape: tuple[int, ...], n: int) -> None:
    for bits in (4, 8):
        case = Product(shape, n, 32, bits=bits)
        case.quantize_inside()
        case.check()


def test_quantizing_inside_has_the_bits_of_the_operators_for_it() -> None:
    case = Product((5, 96), 37, 32)
    case.quantize_inside()
    x, residual = case.args[0], case.args[11]
    x[0], x[1], x[2] = 0, x[1].abs(), -x[2].abs()
    library = torch.ops.quantized_decomposed
    scale, zero = library.choose_qparams_per_token_asymmetric(x, torch.int8)
    rows = library.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
    given = [a.tensor if isinstance(a, Const) else a for a in case.args]
    outside = own.qlinear_groups(rows, scale, zero, *given[3:11])
    (got,) = check_op(own.qlinear_groups.out, *case.args)
    assert torch.equal(got, residual + outside)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rows_that_are_not_finite_give_no_finite_result_and_change_no_other_row(
    value: float,
) -> None:
    case = Product((3, 64), 20, 32)
    case.quantize_inside()
    out = [Out(torch.float32, (3, 20))]
    (whole,) = run_op(NAME, *case.args, out=out, prepared=True)
    case.args[0][1, 5] = value
    for isa in isas_and_dots():
        with isa_limit(isa):
            (got,) = run_op(NAME, *case.args, out=out, prepared=True)
        assert not got[1].isfinite().any(), isa
        assert torch.equal(got[::2], whole[::2]), isa


def test_rows_may_be_more_than_a_block() -> None:
    Product((301, 64), 33, 32).check()
    Product((40, 8192), 17, 128, zeros=True).check()


def test_sums_of_large_groups_are_exact() -> None:
    terms = 1 << 21  # 8 times the sum of so many terms of -128 is too much for 32 bits
    case = Product((1, terms), 1, terms, zeros=True)
    case.x.fill_(-128)
    weights = torch.full((1, 1, terms), 3, dtype=torch.int8)
    case.args[3] = Const(integer_ops.packed_groups(weights))
    case.args[4] = Const(torch.ones(16))
    case.args[5] = Const(torch.full((16,), 2, dtype=torch.int8))
    case.args[7] = case.args[8] = Const(torch.zeros(16))
    for isa in isas_and_dots():
        with isa_limit(isa):
            (got,) = run_op(NAME, *case.args, out=[Out(torch.float32, (1, 1))], prepared=True)
        assert got.item() == torch.tensor(-128.0 * terms) * case.scale.float().item(), isa


def test_subnormal_scales_of_f16_are_exact() -> None:
    case = Product((5, 64), 17, 32, scales=torch.float16, bias=False)
    case.scales = torch.arange(34, dtype=torch.int16).view(torch.float16).reshape(17, 2)
    case.args[4] = Const(integer_ops.packed_numbers(case.scales))
    case.args[7] = Const(torch.zeros(32))
    sums = case.x.reshape(5, 1, 2, 32).long() * case.weight.long()
    wanted = (sums.sum(-1) * case.scales.double()).sum(-1).float() * case.scale.float().reshape(
        -1, 1
    )
    for isa in isas_and_dots():
        with isa_limit(isa):
            (got,) = run_op(NAME, *case.args, out=[Out(torch.float32, (5, 17))])
        assert torch.equal(got, wanted), isa


def test_all_rows_may_share_a_scale() -> None:
    Product((2, 5, 64), 20, 32, one_scale=True, zeros=True).check()


def test_the_largest_sums_do_not_wrap() -> None:
    for value, code in itertools.product((-128, 127), (-8, 7, -128, 127)):
        bits = 4 if abs(code) <= 8 else 8
        case = Product((5, 128), 17, 64, bias=False, bits=bits)
        case.x.fill_(value)
        case.weight.fill_(code)
        case.args[3] = Const(integer_ops.packed_groups(case.weight, bits))
        case.args[7] = Const(torch.zeros(32))
        for isa in isas_and_dots():
            with isa_limit(isa):
                (got,) = run_op(NAME, *case.args, out=[Out(torch.float32, (5, 17))])
            total = case.scales.float().sum(-1) * (64 * value * code)
            torch.testing.assert_close(got, total * case.scale.float().unsqueeze(-1))


def test_packing_can_be_undone() -> None:
    for n, groups, k in ((1, 1, 1), (37, 3, 12), (16, 2, 32)):
        weight = torch.randint(-8, 8, (n, groups, k), generator=made(n), dtype=torch.int8)
        packed = integer_ops.packed_groups(weight)
        assert packed.dtype is torch.uint8 and len(packed) == -(-n // 16) * groups * -(-k // 8) * 64
        assert torch.equal(integer_ops.unpacked_groups(packed, n, groups, k), weight)
        wide = torch.randint(-128, 128, (n, groups, k), generator=made(n), dtype=torch.int8)
        packed = integer_ops.packed_groups(wide, 8)
        assert packed.dtype is torch.int8 and len(packed) == -(-n // 16) * groups * -(-k // 8) * 128
        assert torch.equal(integer_ops.unpacked_groups(packed, n, groups, k), wide)
        numbers = weight[..., 0]
        packed = integer_ops.packed_numbers(numbers)
        assert torch.equal(integer_ops.unpacked_numbers(packed, n, groups), numbers)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, torch.zeros(4, 64).long(), "input: expected contiguous rows of i8 or f32, got i64 of"),
        (0, torch.zeros(4, 64), "scale: expected none for rows of f32, which are quantized here"),
        (
            1,
            torch.ones(3),
            "scale: expected 1 element or one for each of the 4 rows, f32 or f64, got 3 of",
        ),
        (
            3,
            torch.zeros(64, dtype=torch.uint8),
            "weight: expected 1024 contiguous elements of u8 or i8, got 64 of u8",
        ),
        (
            3,
            torch.zeros(1024, dtype=torch.int8),
            "weight: expected 2048 contiguous elements of u8 or i8, got 1024 of i8",
        ),
        (
            4,
            torch.zeros(64, dtype=torch.float64),
            "scales: expected 64 contiguous elements of f32, bf16 or f16, got 64 of f64",
        ),
        (
            5,
            torch.zeros(32, dtype=torch.int8),
            "zero_points: expected 64 contiguous elements of i8, got 32 of i8",
        ),
        (
            6,
            torch.zeros(63, dtype=torch.bfloat16),
            "minimums: expected 64 contiguous elements of f32, bf16 or f16, got 63 of bf16",
        ),
        (6, torch.zeros(64), "minimums: expected the scales' type bf16, got f32"),
        (8, torch.zeros(20), "addends: expected 32 contiguous elements of f32, got 20 of f32"),
        (9, 48, "group: expected a divisor of the rows' 64 terms, got "),
        (9, 0, "group: expected a divisor of the rows' 64 terms, got "),
        (11, torch.zeros(4, 19), "residual: expected contiguous f32 of the result's sizes, got"),
        (10, -1, "channels: expected 0 … 2147483647, got -1"),
    ],
)
def test_what_does_not_fit_together_is_refused(at: int, value: Any, words: str) -> None:
    args = Product((4, 64), 20, 32).args
    args[at] = value
    with pytest.raises(OpError, match=words):
        run_op(NAME, *args, out=[Out(torch.float32, (4, 20))])


def test_zero_points_and_minimums_exclude_each_other() -> None:
    args = Product((4, 64), 20, 32, zeros=True).args
    args[6] = args[4]
    with pytest.raises(OpError, match="expected zero_points or minimums of groups, got both"):
        run_op(NAME, *args, out=[Out(torch.float32, (4, 20))])
