"""Special cases of elementwise operators: pairs of special values, half precision with other types,
complex numbers, integers that wrap, and refusals. The operator table runs the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.op_driver import OpError, Out, check_op, run_op

A = torch.ops.aten
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, torch.float64]
REAL = INTS + HALVES + FLOATS
ALL = [*REAL, torch.bool]
INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1, -1, INF, -INF, NAN, 3e38, -3e38, 2, -2, 3, -3, 0.5, -0.5, 1.5, -2.5]


def sample(
    shape: tuple[int, ...], dtype: torch.dtype, low: float = -20, high: float = 20
) -> torch.Tensor:
    """Random elements in [low, high); unsigned types start at 0 or above."""
    generator = torch.Generator().manual_seed(hash((shape, str(dtype), low, high)) % 2**31)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        low = max(low, 0) if dtype == torch.uint8 else low
        return torch.randint(math.ceil(low), math.ceil(high), shape, generator=generator).to(dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(
        dtype
    )


def nonzero(t: torch.Tensor) -> torch.Tensor:
    return torch.where(t == 0, torch.ones_like(t), t)


@pytest.mark.parametrize(
    "op",
    [
        A.add.out,
        A.mul.out,
        A.div.out,
        A.maximum.out,
        A.minimum.out,
        A.pow.Tensor_Tensor_out,
        A.atan2.out,
        A.remainder.Tensor_out,
        A.fmod.Tensor_out,
        A.floor_divide.out,
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_pair_of_special_values_equals_eager(op: Any, dtype: torch.dtype) -> None:
    x = torch.tensor(SPECIAL, dtype=dtype)
    # Remainders are exact in f64, while eager's f32 ones are not when the quotient is large.
    exact = op.overloadpacket(x.double()[:, None], x.double()[None, :]).to(dtype)
    remainders = op in (A.remainder.Tensor_out, A.fmod.Tensor_out)
    check_op(op, x[:, None], x[None, :], expected=exact if remainders else None)


@pytest.mark.parametrize("dtype", HALVES)
def test_operands_of_halves_become_halves_first(dtype: torch.dtype) -> None:
    x, third = sample((30, 5), dtype), 1 / 3  # a number that a product and a quotient take whole
    for op in (A.add.Scalar_out, A.sub.Scalar_out, A.mul.Scalar_out, A.div.Scalar_out,
               A.fmod.Scalar_out, A.remainder.Scalar_out, A.lt.Scalar_out):  # fmt: skip
        check_op(op, x, third)
    for op in (A.add.out, A.sub.out, A.mul.out, A.div.out, A.fmod.Tensor_out, A.eq.Tensor_out):
        check_op(op, x, torch.tensor(third))
        check_op(op, torch.tensor(third), nonzero(x))
        check_op(op, x, torch.tensor([2049, 4097, 513, 3, 65535], dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_arithmetic_equals_eager(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(3, 4, dtype=dtype, generator=generator)
    b = torch.randn(4, dtype=dtype, generator=generator)
    for op in (A.add.out, A.sub.out, A.mul.out, A.div.out):
        check_op(op, a, b)
        check_op(op, a, torch.randn(4, generator=generator))
    check_op(A.sub.out, a, b, alpha=2)
    check_op(A.mul.Scalar_out, a, 2.5)
    check_op(A.abs.out, a)
    zeros_below = torch.tensor([1 + 2j, -1, 0, complex("nan+1j"), complex("inf")], dtype=dtype)
    check_op(A.div.out, zeros_below, torch.zeros(5, dtype=dtype))
    infinite = [complex("inf"), complex("-inf+1j"), complex("2+infj"), complex("nan")]
    check_op(A.div.out, a, torch.tensor(infinite, dtype=dtype))


def test_integers_wrap() -> None:
    limits = torch.tensor([-(2**63), 2**63 - 1, -1, 0, 1, 7])
    for op in (A.add.out, A.sub.out, A.mul.out):
        check_op(op, limits[:, None], limits[None, :])
    check_op(A.neg.out, limits)
    check_op(A.abs.out, limits)


I32, F32 = torch.int32, torch.float32
REFUSED: list[tuple[str, tuple[Any, ...], Out, str]] = [
    (
        "aten::div.out_mode",
        (torch.ones(2, dtype=I32), torch.tensor([1, 0], dtype=I32), "floor"),
        Out(I32, (2,)),
        "integer division by zero",
    ),
    (
        "aten::remainder.Scalar_out",
        (torch.ones(2, dtype=I32), 0),
        Out(I32, (2,)),
        "integer division by zero",
    ),
    (
        "aten::div.out_mode",
        (torch.ones(2), torch.ones(2), "up"),
        Out(F32, (2,)),
        'rounding_mode: expected "floor", "trunc" or None, got "up"',
    ),
    (
        "aten::add.out",
        (torch.ones(2, 3), torch.ones(2, 4), 1),
        Out(F32, (2, 3)),
        r"\[2, 3\] and \[2, 4\] do not broadcast",
    ),
    (
        "aten::add.out",
        (torch.ones(2), torch.ones(2), 1),
        Out(I32, (2,)),
        "i32 cannot receive results of dtype f32",
    ),
    (
        "aten::add.out",
        (torch.ones(2), None, 1),
        Out(F32, (2,)),
        "argument 1: expected a number, got None",
    ),
    (
        "aten::add.out",
        (torch.ones(2).int(), torch.ones(2).int(), 1.5),
        Out(I32, (2,)),
        "alpha: expected an integer for integer operands, got 1.5",
    ),
    (
        "aten::add.out",
        (torch.ones(3), torch.ones(3), 1),
        Out(F32, (2,), dynamic=False),
        "dimension 0: expected 2, got 3",
    ),
    (
        "aten::add.out",
        (torch.ones(3), torch.ones(3), 1),
        Out(F32, (2,)),
        "at most the 2 elements",
    ),
    (
        "aten::sub.out",
        (torch.ones(2).bool(), torch.ones(2).bool(), 1),
        Out(F32, (2,)),
        "not defined for dtype b8",
    ),
    (
        "aten::pow.Tensor_Scalar_out",
        (torch.ones(2).int(), -1),
        Out(I32, (2,)),
        "negative integer powers",
    ),
    (
        "aten::gelu.out",
        (torch.ones(2), "exact"),
        Out(F32, (2,)),
        'approximate: expected "none" or "tanh", got "exact"',
    ),
    (
        "aten::glu.out",
        (torch.ones(3), 0),
        Out(F32, (1,)),
        r"self: expected an even size of dimension 0, got f32\[3\]",
    ),
    (
        "aten::glu.out",
        (torch.tensor(1.0), 0),
        Out(F32, ()),
        r"self: expected an even size of dimension 0, got f32\[\]",
    ),
    (
        "aten::where.self_out",
        (torch.ones(2), torch.ones(2), torch.ones(2)),
        Out(F32, (2,)),
        "condition: expected b8, got f32",
    ),
]


@pytest.mark.parametrize(("name", "args", "out", "words"), REFUSED)
@pytest.mark.parametrize("prepared", [False, True])
def test_wrong_calls_are_refused_with_words(
    name: str, args: tuple[Any, ...], out: Out, words: str, prepared: bool
) -> None:
    with pytest.raises(OpError, match=words):
        run_op(name, *args, out=[out], prepared=prepared)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_complex_number_with_an_infinite_part_is_infinitely_large(dtype: torch.dtype) -> None:
    parts = [0.0, -3.0, math.inf, -math.inf, math.nan]
    x = torch.tensor([complex(re, im) for re in parts for im in parts] * 12, dtype=dtype)
    check_op(torch.ops.aten.abs.out, x)
