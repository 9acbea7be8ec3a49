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
from torch.library import Library

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


# name, arguments, implementation
_DEFINITIONS: tuple[tuple[str, str, Callable[..., torch.Tensor]], ...] = (
    ("linear_bf16", "Tensor input, Tensor weight, Tensor? bias, int channels", _linear),
)


def _define() -> Library:
    library = Library(LIBRARY, "FRAGMENT")
    for name, arguments, function in _DEFINITIONS:
        library.define(f"{name}({arguments}, {CHAIN}) -> Tensor")
        library.define(f"{name}.out({arguments}, {CHAIN}, *, Tensor(a!) out) -> Tensor(a!)")
        implementation: Any = chained(function)
        for overload in (name, f"{name}.out"):
            library.impl(overload, implementation, "CompositeExplicitAutograd")
    return library


_LIBRARY = _define()
