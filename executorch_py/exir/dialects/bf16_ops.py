"""Operators of the library `executorch_py` of precision bf16, and the packing of their weights
(csrc/kernels/micro/bgemm/bgemm.h).

Both operands of a product are rounded to bfloat16 and multiplied in f32; input and result are f32.
An epilogue follows, as in own_ops.py; its text may be empty. Only this project's runtime has these
operators. Importing this module defines them in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library, register_fake

from executorch_py.exir.dialects.own_ops import CHAIN, LIBRARY, chained

# Columns of a panel of weights.
PANEL = 16
# Terms of a column that are side by side.
PAIR = 2


def packed_weight(weight: torch.Tensor) -> torch.Tensor:
    """A matrix [columns, terms] as panels of bfloat16: [panel, term / 2, column, 2]."""
    n, k = weight.shape
    panels, pairs = -(-n // PANEL), -(-k // PAIR)
    padded = torch.zeros(panels * PANEL, pairs * PAIR, dtype=torch.bfloat16)
    padded[:n, :k] = weight.to(torch.bfloat16)
    return padded.reshape(panels, PANEL, pairs, PAIR).transpose(1, 2).contiguous()


def unpacked_weight(packed: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """Inverse of packed_weight."""
    panels, pairs = packed.shape[:2]
    return packed.transpose(1, 2).reshape(panels * PANEL, pairs * PAIR)[:n, :k]


def matrix_of_kernel(weight: torch.Tensor) -> torch.Tensor:
    """A convolution's weight [out, in, height, width] as a matrix: terms are taps, then inputs."""
    return weight.permute(0, 2, 3, 1).reshape(weight.shape[0], -1)


def packed_bias(bias: torch.Tensor) -> torch.Tensor:
    """A vector with one number for each column, padded to whole panels."""
    n = bias.shape[0]
    padded = torch.zeros(-(-n // PANEL) * PANEL, dtype=torch.float32)
    padded[:n] = bias
    return padded


def rounded(operand: torch.Tensor) -> torch.Tensor:
    """The nearest numbers of bfloat16, in f32."""
    return operand.to(torch.bfloat16).to(torch.float32)


def _linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, channels: int
) -> torch.Tensor:
    matrix = unpacked_weight(weight, channels, input.shape[-1]).to(torch.float32)
    offset = None if bias is None else bias[:channels]
    return torch.nn.functional.linear(rounded(input), matrix, offset)


def _convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    channels: int,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> torch.Tensor:
    c_in = input.shape[1]
    matrix = unpacked_weight(weight, channels, c_in * kernel[0] * kernel[1]).to(torch.float32)
    whole = matrix.reshape(channels, *kernel, c_in).permute(0, 3, 1, 2)
    offset = None if bias is None else bias[:channels]
    result = torch.nn.functional.conv2d(rounded(input), whole, offset, stride, padding, dilation)
    return result.contiguous(memory_format=torch.channels_last)


def _shape_of_linear(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, channels: int, *_: Any
) -> torch.Tensor:
    return input.new_empty((*input.shape[:-1], channels))


def _shape_of_convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: Any,
    channels: int,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    *_: Any,
) -> torch.Tensor:
    sizes = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(input.shape[2:], kernel, stride, padding, dilation, strict=True)
    ]
    shape = (input.shape[0], channels, *sizes)
    return torch.empty(shape, dtype=input.dtype, memory_format=torch.channels_last)


def _shape_of_out(*_: Any, out: torch.Tensor) -> torch.Tensor:
    return out


_OPERANDS = "Tensor input, Tensor weight, Tensor? bias, int channels"
# name, arguments, implementation, shape of the result
_DEFINITIONS: tuple[
    tuple[str, str, Callable[..., torch.Tensor], Callable[..., torch.Tensor]], ...
] = (
    ("linear_bf16", _OPERANDS, _linear, _shape_of_linear),
    (
        "convolution_bf16",
        f"{_OPERANDS}, int[] kernel, int[] stride, int[] padding, int[] dilation",
        _convolution,
        _shape_of_convolution,
    ),
)


def _define() -> Library:
    library = Library(LIBRARY, "FRAGMENT")
    for name, arguments, function, shape in _DEFINITIONS:
        library.define(f"{name}({arguments}, {CHAIN}) -> Tensor")
        library.define(f"{name}.out({arguments}, {CHAIN}, *, Tensor(a!) out) -> Tensor(a!)")
        implementation: Any = chained(function)
        for overload, fake in ((name, shape), (f"{name}.out", _shape_of_out)):
            library.impl(overload, implementation, "CPU")
            register_fake(f"{LIBRARY}::{overload}", fake, lib=library)
    return library


_LIBRARY = _define()
