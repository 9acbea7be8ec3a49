"""Rounding error of one operator: how far two right results of the same operands may be apart.

Arithmetic of IEEE 754 rounds once, so libraries agree, unless they fuse two such operators. Sums of
products are added in different orders. With partial sums S_j of k products and u = 2⁻²⁴ of a
float32, each order has errors of u·|S_j|, independent of each other, so by Hoeffding's inequality
their sum stays below λ·u·√(Σ S_j²), except with a probability of 2·exp(-λ²/2) (Higham and Mary, "A
New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019). Products of
both signs have partial sums between √(Σ (a·b)²) and |y|, so the limit is

    λ·u·√k·(√(Σ (a·b)²) + |y|)    with λ = 8

Other operators have a few roundings each. Knows neither programs nor graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from executorch_py.exir.ir.op_traits import op_key
from executorch_py.testing.winograd_bound import LAMBDA

# Largest difference of a result of a few roundings, relative to the element and to the largest
# element of the tensor. Narrower types have no difference that tells a rounding from a wrong value.
ROUNDING = {torch.float32: (1e-5, 1e-6), torch.float64: (1e-13, 1e-14)}

# Operators whose results IEEE 754 defines to the last bit, unless an operand is scaled (alpha=).
_ROUNDED_ONCE = frozenset(
    f"aten::{name}"
    for operator in ("add", "sub", "mul", "div")
    for name in (f"{operator}.Tensor", f"{operator}_.Tensor", f"{operator}.Scalar")
) | {"aten::neg", "aten::abs", "aten::relu", "aten::relu_"}

Terms = Callable[[Sequence[Any]], int]


def _of_rows(args: Sequence[Any]) -> int:
    return int(args[1].shape[-1])


def _of_columns(at: int) -> Terms:
    return lambda args: int(args[at].shape[-2] if args[at].dim() > 1 else args[at].shape[0])


def _of_kernel(args: Sequence[Any]) -> int:
    return int(args[1][0].numel())


def _of_transposed_kernel(args: Sequence[Any]) -> int:
    return int(args[1][:, 0].numel())


def _of_convolution(args: Sequence[Any]) -> int:
    is_transposed = args[6]
    return _of_transposed_kernel(args) if is_transposed else _of_kernel(args)


# The number of products in a sum, from the arguments: operands, and a bias before or behind them.
_TERMS: Mapping[str, Terms] = {
    "aten::linear": _of_rows,
    "aten::mm": _of_columns(1),
    "aten::bmm": _of_columns(1),
    "aten::matmul": _of_columns(1),
    "aten::addmm": _of_columns(2),
    "aten::baddbmm": _of_columns(2),
    "aten::conv1d": _of_kernel,
    "aten::conv2d": _of_kernel,
    "aten::conv3d": _of_kernel,
    "aten::conv1d.padding": _of_kernel,
    "aten::conv2d.padding": _of_kernel,
    "aten::conv3d.padding": _of_kernel,
    "aten::conv_transpose1d": _of_transposed_kernel,
    "aten::conv_transpose2d.input": _of_transposed_kernel,
    "aten::conv_transpose3d.input": _of_transposed_kernel,
    "aten::convolution": _of_convolution,
}


def rounding_of(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Limits of the difference of each element of an operator's result.

    The first is that of the operator alone. The second is that of a result which a library fuses
    with the next operator: None of operators that are not fused.
    """
    key = op_key(target)
    if key in _ROUNDED_ONCE and not kwargs and value.dtype in ROUNDING:
        once = torch.finfo(value.dtype).eps * _size(value)
        return once, once
    limit = rounding_limit(value)
    sums = _sum_rounding(key, target, args, value)
    return (limit, None) if sums is None else (limit + sums, limit + sums)


def is_fused_behind_others(target: Any) -> bool:
    """Whether libraries fuse an operator with those before it: none fuses two products."""
    return op_key(target) not in _TERMS


def rounding_limit(value: torch.Tensor) -> torch.Tensor:
    """Limit of each element's difference in an operator of a few roundings."""
    of_element, of_largest = ROUNDING[value.dtype]
    size = _size(value)
    return of_element * size + of_largest * size.max()


def _size(value: torch.Tensor) -> torch.Tensor:
    return value.abs().nan_to_num(nan=0.0, posinf=0.0)


def _sum_rounding(
    key: str, target: Any, args: Sequence[Any], value: torch.Tensor
) -> torch.Tensor | None:
    """Limit of sums of products; None of operators that add none."""
    if key not in _TERMS or value.dtype not in ROUNDING:
        return None
    squared = [a.square() if isinstance(a, torch.Tensor) else a for a in args]
    with torch.no_grad():
        spread = _size(target(*squared).sqrt())
    unit = torch.finfo(value.dtype).eps / 2
    return LAMBDA * unit * math.sqrt(_TERMS[key](args)) * (spread + _size(value))
