"""Half-precision decompositions: functions of several tensors, rounded where eager rounds.

Torch's own rules compute in f32 from unrounded operands. Eager first rounds every operand to the
dtype of the result (a 0-d f32 tensor beside f16 becomes f16), and some functions round between
their steps. Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
_OPERANDS_ROUNDED = (
    _aten.addcdiv.default,
    _aten.addcmul.default,
    _aten.logaddexp.default,
    _aten.logaddexp2.default,
)


def _result_type(tensors: list[Tensor]) -> torch.dtype:
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
    result: torch.dtype = elementwise_dtypes(*tensors, type_promotion_kind=kind)[1]
    return result


def _of_rounded(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule on operands that are rounded to the half-precision dtype that they promote to."""

    def rounded(*args: Any, **kwargs: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if len({t.dtype for t in tensors}) > 1:
            half = _result_type(tensors)
            if half in _HALVES:
                args = tuple(a.to(half) if isinstance(a, Tensor) else a for a in args)
        return rule(*args, **kwargs)

    return rounded


def _as_half(a: Tensor | float, half: torch.dtype) -> Tensor:
    return a.to(half) if isinstance(a, Tensor) else torch.full((), a, dtype=half)


def _in_steps(rule: Callable[..., Any], steps: Callable[..., Any]) -> Callable[..., Any]:
    """The rule, replaced in half precision by `steps`, each of which rounds."""

    def rounded(x: Any, y: Any, *args: Any) -> Any:
        half = _result_type([a for a in (x, y) if isinstance(a, Tensor)])
        if half not in _HALVES:
            return rule(x, y, *args)
        return steps(*(_as_half(a, half) for a in (x, y)), *args)

    return rounded


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    return losses if reduction == 0 else losses.mean() if reduction == 1 else losses.sum()


def _mse_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    difference = x - target
    return _reduced(difference * difference, reduction)


def _loss_in_steps(
    rule: Callable[..., Any], steps: Callable[[Tensor, Tensor], Tensor], half: torch.dtype
) -> Callable[..., Any]:
    """The rule, replaced for the dtype `half` by steps on distances and the rounded bound.

    Eager computes the loss in f32 for the other half-precision dtype.
    """

    def loss(x: Tensor, target: Tensor, reduction: int = 1, bound: float = 1.0) -> Any:
        if x.dtype != half or target.dtype != half or bound == 0.0:
            return rule(x, target, reduction, bound)
        return _reduced(steps((x - target).abs(), x.new_full((), bound)), reduction)

    return loss


def _huber(z: Tensor, delta: Tensor) -> Tensor:
    return torch.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))


def _smooth_l1(z: Tensor, beta: Tensor) -> Tensor:
    return torch.where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)


def _logit(x: Tensor, eps: float | None = None) -> Any:
    """Logit in half precision is decomposed; f32 and f64 have an operator, which rounds once."""
    if x.dtype not in _HALVES:
        return NotImplemented
    chance = x if eps is None else x.clamp(eps, 1.0 - eps)
    return torch.log(chance / (1.0 - chance))


def _product_with(log: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def steps(x: Tensor, y: Tensor) -> Tensor:
        product = torch.where(x == 0, torch.zeros((), dtype=x.dtype), x * log(y))
        return torch.where(torch.isnan(y), y, product)

    return steps


def half_ldexp(rule: Callable[..., Any]) -> Callable[[Tensor, Tensor], Any]:
    """ldexp in f32: a power of two may overflow half precision where the product does not."""

    def ldexp(x: Tensor, other: Tensor) -> Any:
        half = _result_type([x, other])
        if x.dtype != half or half not in _HALVES:
            return rule(x, other)
        whole = not other.dtype.is_floating_point
        if other.dim() > 0 and not whole:
            return x * torch.pow(2.0, other.to(half))
        power = torch.pow(2.0, other.float() if whole else other)
        return (x.float() * power.float()).to(half)

    return ldexp


_STEPS: dict[Any, Callable[..., Any]] = {
    _aten.mse_loss.default: _mse_loss,
    **dict.fromkeys(
        (
            _aten.special_xlog1py.default,
            _aten.special_xlog1py.other_scalar,
            _aten.special_xlog1py.self_scalar,
        ),
        _product_with(torch.log1p),
    ),
    **dict.fromkeys(
        (_aten.xlogy.Tensor, _aten.xlogy.Scalar_Other, _aten.xlogy.Scalar_Self),
        _product_with(torch.log),
    ),
}


def half_decompositions(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Operator → rule, for operators of the table that eager rounds otherwise."""
    rounded = {op: _of_rounded(table[op]) for op in _OPERANDS_ROUNDED if op in table}
    stepped = {op: _in_steps(table[op], steps) for op, steps in _STEPS.items() if op in table}
    single = {
        _aten.huber_loss.default: _loss_in_steps(
            table[_aten.huber_loss.default], _huber, torch.bfloat16
        ),
        _aten.smooth_l1_loss.default: _loss_in_steps(
            table[_aten.smooth_l1_loss.default], _smooth_l1, torch.float16
        ),
        _aten.logit.default: _logit,
    }
    return {**rounded, **stepped, **single}
