"""Decompositions of random operators into the two that have kernels: uniform and normal numbers.

Torch's own decompositions are used if they end in those two. Each rule is the definition of the
distribution; the numbers come from the runtime's generator, not from torch's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _bernoulli_p(x: Tensor, p: float = 0.5, *, generator: Any = None) -> Tensor:
    drawn = _aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    return (drawn < p).to(x.dtype)


def _bernoulli_tensor(x: Tensor, p: Tensor, *, generator: Any = None) -> Tensor:
    drawn = _aten.rand.default(x.shape, dtype=torch.float32, device=x.device)
    return (drawn < p).to(x.dtype)


def _normal_of(mean: Any, std: Any, like: Tensor, shape: Any) -> Tensor:
    drawn = _aten.randn.default(shape, dtype=like.dtype, device=like.device)
    return drawn * std + mean


def _normal_tensor_tensor(mean: Tensor, std: Tensor, *, generator: Any = None) -> Tensor:
    return _normal_of(mean, std, mean, torch.broadcast_shapes(mean.shape, std.shape))


def _normal_tensor_float(mean: Tensor, std: float = 1.0, *, generator: Any = None) -> Tensor:
    return _normal_of(mean, std, mean, mean.shape)


def _normal_float_tensor(mean: float, std: Tensor, *, generator: Any = None) -> Tensor:
    return _normal_of(mean, std, std, std.shape)


def _normal_float_float(
    mean: float,
    std: float,
    size: Any,
    *,
    generator: Any = None,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Tensor:
    return _aten.randn.default(size, dtype=dtype, device=device) * std + mean


def _normal_functional(
    x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Tensor:
    return _normal_of(mean, std, x, x.shape)


def _uniform(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Tensor:
    drawn = _aten.rand.default(x.shape, dtype=x.dtype, device=x.device)
    return drawn * (high - low) + low


def _rrelu_with_noise(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    generator: Any = None,
) -> tuple[Tensor, Tensor]:
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise
    slope = torch.where(x > 0, 1.0, _uniform(x, lower, upper)).to(x.dtype)
    return x * slope, slope


@lru_cache(maxsize=1)
def random_decompositions() -> dict[Any, Any]:
    """Operator → rule."""
    from torch._decomp import get_decompositions

    by_torch = [
        _aten.exponential.default,
        _aten.cauchy.default,
        _aten.geometric.default,
        _aten.log_normal.default,
    ]
    return {
        **get_decompositions(by_torch),
        _aten.bernoulli.p: _bernoulli_p,
        _aten.bernoulli.Tensor: _bernoulli_tensor,
        _aten.normal.Tensor_Tensor: _normal_tensor_tensor,
        _aten.normal.Tensor_float: _normal_tensor_float,
        _aten.normal.float_Tensor: _normal_float_tensor,
        _aten.normal.float_float: _normal_float_float,
        _aten.normal_functional.default: _normal_functional,
        _aten.uniform.default: _uniform,
        _aten.rrelu_with_noise_functional.default: _rrelu_with_noise,
    }
