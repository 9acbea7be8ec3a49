"""Cases of bench_operators that compute element by element: functions of one tensor and of two,
casts, selections, activations. Data only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from operator_data import DTYPES, SIDE, Case, data, each, square, words

UNARY = words(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log "
    "log10 log1p log2 logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt "
    "tan tanh trunc"
)
SPECIAL = words("digamma erfc erfinv lgamma i0 signbit special_i1 special_ndtri special_erfcx")
BINARY = words(
    "add.out sub.out mul.out div.out maximum.out minimum.out atan2.out floor_divide.out "
    "fmod.Tensor_out remainder.Tensor_out pow.Tensor_Tensor_out eq.Tensor_out ge.Tensor_out "
    "lt.Tensor_out ne.Tensor_out logical_and.out logical_or.out logical_xor.out hypot.out "
    "copysign.out nextafter.out"
)
COMMON = words("add.out mul.out div.out lt.Tensor_out maximum.out eq.Tensor_out")
SCALAR = words(
    "add.Scalar_out mul.Scalar_out div.Scalar_out fmod.Scalar_out remainder.Scalar_out "
    "eq.Scalar_out gt.Scalar_out pow.Tensor_Scalar_out"
)
BITWISE = words(
    "bitwise_and.Tensor_out bitwise_or.Tensor_out bitwise_xor.Tensor_out "
    "bitwise_left_shift.Tensor_out bitwise_right_shift.Tensor_out"
)
DIVISIONS = words("floor_divide.out remainder.Tensor_out fmod.Tensor_out")


def functions() -> Iterator[Case]:
    x = square()
    for name in UNARY:
        yield f"{name} f32", f"{name}.out", (x + 1 if name == "acosh" else x,)
        wide = square("f64")
        yield f"{name} f64", f"{name}.out", (wide + 1 if name == "acosh" else wide,)
    halves = words(
        "exp sigmoid tanh abs neg relu sin cos tan log sqrt rsqrt erf gelu sign floor round "
        "reciprocal expm1 log1p isnan logical_not"
    )
    for name, dtype in each(halves, "f16 bf16"):
        yield f"{name} {dtype}", f"{name}.out", (square(dtype),)
    for name, dtype in each(words("abs neg sign relu bitwise_not logical_not"), "i64 i32 u8"):
        yield f"{name} {dtype}", f"{name}.out", (square(dtype),)
    for name in words("exp sqrt sigmoid"):
        yield f"{name} i64", f"{name}.out", (square("i64"),)
    for name in SPECIAL:
        yield f"{name} f32", f"{name}.out", (x,)
    for name, dtype in each(words("abs mul.out add.out div.out"), "c64 c128"):
        pair = (square(dtype), square(dtype))
        dot = "." in name
        yield f"{name} {dtype}", name if dot else f"{name}.out", pair if dot else pair[:1]
    yield "polygamma", "polygamma.out", (1, x)
    yield "sin of 0 … 100", "sin.out", (x * 100,)
    yield "tanh of -5 … 5", "tanh.out", (x * 10 - 5,)
    yield "erf of -5 … 5", "erf.out", (x * 10 - 5,)
    yield "exp of -50 … 50", "exp.out", (x * 100 - 50,)


def pairs() -> Iterator[Case]:
    x = square()
    for name in BINARY:
        yield f"{name} f32", name, (x, square() * 0.5 + 0.3)
        yield f"{name} f32, row", name, (x, data(SIDE))
    for name in COMMON:
        yield f"{name} f32, column", name, (x, data(SIDE, 1))
        yield f"{name} f32 + i64", name, (x, square("i64"))
        for dtype in words("f64 f16 bf16 i64 i32 i16 i8 u8"):
            yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    for name in SCALAR:
        yield f"{name} f32", name, (x, 2.5)
        yield f"{name} f16", name, (square("f16"), 2.5)
        yield f"{name} i64", name, (square("i64"), 3)
        yield f"{name} i32", name, (square("i32"), 3)
    for exponent in (2, 3, 0.5, -1, -0.5, 1.7):
        for dtype in words("f32 f64 bf16"):
            yield f"pow {exponent} {dtype}", "pow.Tensor_Scalar_out", (square(dtype), exponent)
    yield "pow of 2 f32", "pow.Scalar_out", (2, x)
    for name, dtype in each(BITWISE, "i64 i32 u8"):
        yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    for name, dtype in each(DIVISIONS, "i64 i32 i16 u8 f64 f16 bf16"):
        yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    for name, dtype in each(words("atan2.out pow.Tensor_Tensor_out"), "f64 f16 bf16"):
        yield f"{name} {dtype}", name, (square(dtype), square(dtype))
    yield "pow.Tensor_Tensor_out i64", "pow.Tensor_Tensor_out", (square("i64"), square("i64"))
    for mode in ("trunc", "floor"):
        for dtype in ("f32", "f64", "i64", "i32"):
            args = (square(dtype), square(dtype), {"rounding_mode": mode})
            yield f"div {mode} {dtype}", "div.out_mode", args
    for name in words("gcd lcm"):
        yield f"{name} i64", f"{name}.out", (square("i64"), square("i64"))
    wide = data(64, 128, 128)
    for name in words("add.out mul.out"):
        yield f"{name} f32, middle", name, (wide, data(64, 1, 128))
        yield f"{name} f32, outer", name, (wide, data(64, 1, 1))
        yield f"{name} f32, both", name, (data(SIDE, 1), data(SIDE))
        yield f"{name} f32, channels", name, (data(4, 64, 64, 64), data(64, 1, 1))
        lasts = data(4, 64, 64, 64).to(memory_format=torch.channels_last)
        yield f"{name} f32, channels last", name, (lasts, data(1, 64, 1, 1))
        yield f"{name} f32, alpha or i32", name, (square("i32"), data(SIDE))
    yield "sub.out f32, alpha", "sub.out", (x, x, {"alpha": 2})
    yield "rsub", "rsub.Scalar_out", (x, 2.0)


def choices() -> Iterator[Case]:
    x, mask = square(), square("bool")
    for dtype in words("f32 f16 i64 u8"):
        y = square(dtype)
        yield f"where.self {dtype}", "where.self_out", (mask, y, y)
        yield f"masked_fill {dtype}", "masked_fill.Scalar_out", (y, mask, 1)
        yield f"clamp {dtype}", "clamp.out", (y, 0, 7)
    yield "where.self, scalar", "where.self_out", (mask, x, torch.tensor(0.5))
    yield "where.self, row mask", "where.self_out", (data(SIDE, dtype="bool"), x, x)
    yield "where.self, column mask", "where.self_out", (data(SIDE, 1, dtype="bool"), x, x)
    yield "where.self, row values", "where.self_out", (mask, x, data(SIDE))
    yield "where.self f32 + i64", "where.self_out", (mask, x, square("i64"))
    yield "masked_fill, row mask", "masked_fill.Scalar_out", (x, data(SIDE, dtype="bool"), 1.5)
    yield "masked_fill.Tensor", "masked_fill.Tensor_out", (x, mask, torch.tensor(1.5))
    yield "clamp", "clamp.out", (x, 0.2, 0.7)
    yield "clamp min", "clamp.out", (x, 0.2)
    yield "clamp.Tensor", "clamp.Tensor_out", (x, square() * 0.2, square() * 0.7)
    yield "clamp.Tensor row", "clamp.Tensor_out", (x, data(SIDE) * 0.2, data(SIDE) * 0.7)
    for dtype in ("f32", "f64", "f16", "bf16"):
        y = square(dtype)
        yield f"gelu {dtype} about 0", "gelu.out", (y * 8 - 4,)
        yield f"gelu tanh {dtype}", "gelu.out", (y, {"approximate": "tanh"})
        yield f"elu {dtype}", "elu.out", (y,)
        yield f"elu {dtype} about 0", "elu.out", (y * 2 - 1,)
        yield f"leaky_relu {dtype}", "leaky_relu.out", (y,)
        yield f"hardtanh {dtype}", "hardtanh.out", (y,)
        yield f"logit {dtype}", "logit.out", (y, 1e-6)
        yield f"glu {dtype}", "glu.out", (y,)
    yield "glu dim 0", "glu.out", (x, 0)
    yield "dropout in evaluation", "native_dropout.out", (x, 0.5, False)
    yield "frexp", "frexp.Tensor_out", (x,)


def casts() -> Iterator[Case]:
    kinds = words("f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool")
    for source in kinds:
        for target in kinds:
            if source != target:
                args = (square(source), DTYPES[target])
                yield f"to {source} -> {target}", "_to_copy.out", args
