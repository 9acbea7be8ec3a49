"""Tolerances of the tests, each written once with its reason, and the comparison that uses them.

A tolerance is never widened so that a test passes: a greater difference is an error to be found, or
an entry of its own. `test_tolerances.py` lists the other files that may name bounds. A bound that a
test computes, such as a quantization step of its model, is `steps(…)` there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Tolerance(NamedTuple):
    """The bound rtol * |expected| + atol, in the order of torch.allclose and NumPy's."""

    rtol: float
    atol: float

    def times(self, scale: float) -> Tolerance:
        return Tolerance(self.rtol * scale, self.atol * scale)


def steps(size: float) -> Tolerance:
    """A bound in quantization steps, whose size does not depend on the value."""
    return Tolerance(0.0, size)


def assert_near(found: Any, expected: Any, tolerance: Tolerance, **options: Any) -> None:
    """Checks values, shapes and types of tensors or sequences of tensors."""
    torch.testing.assert_close(found, expected, rtol=tolerance.rtol, atol=tolerance.atol, **options)


# The same bits, or the same value where zeros may differ in their sign.
EXACT = Tolerance(0.0, 0.0)

# ---- float32, float64

# A few roundings, each half a unit in the last place.
F32_ROUNDING = Tolerance(1e-6, 0.0)
# Softmax, which sets denormal numbers to zero.
F32_SOFTMAX = Tolerance(1e-6, torch.finfo(torch.float32).tiny)
# One product, or functions in a row: sums in another order.
F32 = Tolerance(1e-5, 1e-6)
# Several layers in a row, whose results may cancel.
F32_LAYERS = Tolerance(1e-5, 1e-5)
# Logits of a small model whose rows of activations become int8: an element between two codes may
# get either.
CODE_OF_A_ROW = Tolerance(0.0, 1e-2)
# Whole models.
F32_MODEL = Tolerance(1e-4, 1e-5)
# Sums of thousands of elements around zero, which cancel, and of squares, which do not.
F32_SUM = Tolerance(1e-5, 1e-4)
F32_SUM_OF_SQUARES = Tolerance(1e-5, 0.0)
# Products with groups of 4-bit weights against float64: a sum in float32 for each group.
F32_GROUPWISE = Tolerance(1e-5, 3e-5)
# Layer norm of values near 10,000, whose differences have 10 bits.
F32_SHIFTED_NORM = Tolerance(0.0, 2e-3)
# Sums of a few values near 1.
F32_NEAR_ONE = Tolerance(0.0, 1e-6)
# float64 against float32: near, but not the same digits.
F64_OVER_F32 = Tolerance(1e-3, 1e-4)
# A few roundings of float64 near 1.
F64_ROUNDING = Tolerance(0.0, 1e-14)
# Hurwitz zeta of arguments far below zero: sums to both sides cancel.
F64_ZETA = Tolerance(1e-12, 1e-9)

# ---- Half precision

# A row of element-wise functions, each rounded to float16.
F16_FUNCTIONS = Tolerance(2e-2, 1e-2)
# Layers that round their operands to bfloat16, a few of them the other way.
BF16_OPERANDS = Tolerance(1e-3, 1e-3)
# Sums of products of bfloat16 in float32, where denormal numbers are set to zero.
BF16_DENORMAL_SUMS = Tolerance(1e-5, 2e-37)
# Layers whose values are rounded to bfloat16 in other places.
BF16_LAYERS = Tolerance(0.02, 0.02)

# ---- Single operators, by element type: those of torch.testing, with a smaller one for float64.
# Other types are exact.
OPERATOR = {
    torch.float16: Tolerance(1e-3, 1e-5),
    torch.bfloat16: Tolerance(1.6e-2, 1e-5),
    torch.float32: Tolerance(1.3e-6, 1e-5),
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.complex64: Tolerance(1.3e-6, 1e-5),
    torch.complex128: Tolerance(1e-7, 1e-7),
}
# One operator in both exporters' programs; half types are rounded between upstream's kernels.
INTEROP_OPERATOR = {
    torch.float16: Tolerance(1e-2, 1e-2),
    torch.bfloat16: Tolerance(4e-2, 4e-2),
}

# ---- Delegates of XNNPACK, by element type; other types are exact

DELEGATED = {
    torch.float16: Tolerance(2e-3, 2e-3),
    torch.float32: Tolerance(2e-5, 2e-5),
}
# Quantized modules on values below 1: steps are near 0.01, and dynamic ones differ from eager's in
# the last bits.
DELEGATED_QUANTIZED = Tolerance(0.02, 0.02)
# Payloads of single nodes in float16 against float32.
PAYLOAD = {
    torch.float16: Tolerance(1e-2, 1e-2),
    torch.float32: Tolerance(2e-5, 2e-5),
}
# Upstream's kernels are another revision's; half types are compared in their own precision.
UPSTREAM_PAYLOAD = {
    torch.float32: Tolerance(1e-5, 1e-5),
    torch.float16: Tolerance(4e-3, 4e-3),
    torch.bfloat16: Tolerance(4e-2, 4e-2),
}
# Values that are quantized at run time are rounded by the delegate, not by the exported model.
UPSTREAM_QUANTIZED = {
    "tensor": steps(0.05),
    "channel": steps(0.05),
    "dynamic": steps(0.02),
    "int4 group": steps(0.02),
    "int4 channel": steps(0.02),
}

# Linear layers that were decomposed, by their quantization. Scales that are found at run time
# differ in the rounding of the input.
DECOMPOSED_LINEAR = {
    "": Tolerance(0.0, 2e-6),
    "per_tensor": Tolerance(0.0, 2e-6),
    "per_channel": Tolerance(0.0, 2e-6),
    "dynamic": steps(0.03),
    "8da4w": steps(0.03),
    "8da8w": steps(0.03),
}

# ---- Quantized models: a step of the last scale or two, because sums differ in the last bit and
# round to the other side

SMALL_LAYER_STEPS = steps(0.02)
DYNAMIC_LAYER_STEPS = steps(0.03)
LAYERS_STEPS = steps(0.05)
SMALL_CNN_STEP = steps(3e-3)
MOBILENET_STEPS = steps(4e-3)

# ---- Statistics

# Running variance of a layer with fake-quantized inputs and weights, after one batch.
RUNNING_VARIANCE = Tolerance(0.05, 1e-8)
# Shares of thousands of samples against their weights.
SAMPLED_SHARES = Tolerance(1e-5, 0.04)
# Probabilities of a sampler: sums of f32 weights, over some thousand words and over 128,256.
CANDIDATES = Tolerance(2e-6, 1e-30)
CANDIDATES_OF_128K = Tolerance(1e-4, 1e-30)
# Natural logarithms of probabilities in f32.
LOG_PROBABILITIES = Tolerance(0.0, 2e-6)
