"""Quantized values in a graph: operands of quantize and dequantize nodes, and their parameters.

Knows the operators of `quantized_decomposed` for int8 with one scale; relies on `meta["val"]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.match import argument, is_call

QUANTIZE = "quantized_decomposed::quantize_per_tensor"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor"
DEQUANTIZE_BY_TENSORS = "quantized_decomposed::dequantize_per_tensor.tensor"
DEQUANTIZE_PER_CHANNEL = "quantized_decomposed::dequantize_per_channel"
DEQUANTIZE_PER_TOKEN = "quantized_decomposed::dequantize_per_token"


@dataclass(frozen=True)
class Affine:
    """Parameters of int8 values q, which represent (q - zero_point) · scale."""

    scale: float
    zero_point: int
    quant_min: int
    quant_max: int

    def quantized(self, value: float) -> int:
        """The integer of a number, without clamping; halves round to even."""
        return round(value / self.scale) + self.zero_point

    def every_value(self) -> torch.Tensor:
        """The f32 values that the integers -128 … 127 represent."""
        return (torch.arange(-128, 128, dtype=torch.float32) - self.zero_point) * self.scale

    def quantize(self, values: torch.Tensor) -> torch.Tensor:
        """Integers of numbers, as the operator computes them."""
        q = torch.round(values * (1.0 / self.scale)) + self.zero_point
        return q.clamp(self.quant_min, self.quant_max).to(torch.int8)


def affine_of(node: Any) -> Affine | None:
    """Parameters with which a node quantizes or dequantizes int8; None if it does neither."""
    if not is_call(node, QUANTIZE, DEQUANTIZE) or argument(node, "dtype") != torch.int8:
        return None
    scale, *rest = (argument(node, k) for k in ("scale", "zero_point", "quant_min", "quant_max"))
    numbers = [scale, *rest]
    if not all(isinstance(n, (int, float)) for n in numbers) or not scale > 0:
        return None
    zero_point, quant_min, quant_max = (int(n) for n in rest)
    in_range = -128 <= quant_min <= quant_max <= 127 and -128 <= zero_point <= 127
    return Affine(float(scale), zero_point, quant_min, quant_max) if in_range else None


def dequantized(node: Any) -> tuple[fx.Node, Affine] | None:
    """The int8 tensor that a node dequantizes with one scale to f32, and its parameters."""
    if not is_call(node, DEQUANTIZE) or node.meta["val"].dtype != torch.float32:
        return None
    affine, source = affine_of(node), node.args[0]
    if affine is None or not isinstance(source, fx.Node):
        return None
    return (source, affine) if source.meta["val"].dtype == torch.int8 else None


def is_quantize(node: Any) -> bool:
    """Whether a node quantizes f32 values to int8 with one scale."""
    return (
        is_call(node, QUANTIZE)
        and affine_of(node) is not None
        and node.args[0].meta["val"].dtype == torch.float32
    )
