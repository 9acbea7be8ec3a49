"""Elementary functions of complex numbers, in real arithmetic on their parts.

No digits cancel near zeros and branch cuts. Infinities, NaN and signed zeros give the results of
eager torch and of C (ISO 9899, annex G); where annex G leaves a sign open it is eager's or plus.
complex.py has the other functions, which are sums and products. Knows no program and no operator
beyond those that it calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
_Pair = tuple[Tensor, Tensor]
_OfParts = Callable[[Tensor, Tensor], _Pair]


def parts(z: Tensor) -> _Pair:
    pairs = torch.view_as_real(z)
    return pairs.select(-1, 0), pairs.select(-1, 1)


def join(real: Tensor, imaginary: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack([real, imaginary], -1))


def _on_parts(function: _OfParts) -> Callable[[Tensor], Tensor]:
    """A function of complex numbers from a function of their two parts."""
    return lambda z: join(*function(*parts(z)))


def _rotated(function: _OfParts) -> _OfParts:
    """z ↦ -i·f(iz) for an odd f with real coefficients: sin from sinh, and so on."""

    def rule(a: Tensor, b: Tensor) -> _Pair:
        imaginary, real = function(b, a)
        return real, imaginary

    return rule


def _signbit(x: Tensor) -> Tensor:
    """Whether x is negative, -0.0 included, which is on the other side of a branch cut."""
    return torch.atan2(x, torch.full_like(x, -1)) < 0


def _with_sign(size: float | Tensor, x: Tensor) -> Tensor:
    """A magnitude with the sign of x."""
    size = size if isinstance(size, Tensor) else torch.full_like(x, size)
    return torch.where(_signbit(x), -size, size)


def _is_infinite(x: Tensor) -> Tensor:
    return x.abs() == math.inf


def _is_bounded(x: Tensor) -> Tensor:
    return x.abs() < math.inf


def _product_zero_first(x: Tensor, y: Tensor) -> Tensor:
    """x·y, but x where x is 0 and y is infinite or NaN."""
    product = x * y
    return torch.where((x == 0) & (product != product), x, product)


# ---- exponentials. The sine of an infinite angle is NaN; an infinite or zero magnitude prevails
# over it.


def _exp(a: Tensor, b: Tensor) -> _Pair:
    """exp(a) as a square: the root may be finite where the whole overflows."""
    root = torch.exp(a * 0.5)
    unbounded = _is_bounded(b).logical_not()
    cosine = torch.where(unbounded & _is_infinite(a), 1.0, torch.cos(b))
    sine = torch.where(unbounded & (a == -math.inf), _with_sign(0.0, b), torch.sin(b))
    return root * cosine * root, torch.where(b == 0, b, root * sine * root)


def _expm1(a: Tensor, b: Tensor) -> _Pair:
    half = torch.sin(b * 0.5)
    return torch.expm1(a) * torch.cos(b) - 2 * half * half, torch.exp(a) * torch.sin(b)


def _sinh(a: Tensor, b: Tensor) -> _Pair:
    unbounded = _is_bounded(b).logical_not() & _is_infinite(a)
    cosine = torch.where(unbounded, torch.sign(a), torch.cos(b))
    return _product_zero_first(torch.sinh(a), cosine), _product_zero_first(
        torch.sin(b), torch.cosh(a)
    )


def _cosh(a: Tensor, b: Tensor) -> _Pair:
    unbounded = _is_bounded(b).logical_not() & _is_infinite(a)
    cosine, sine = torch.where(unbounded, 1.0, torch.cos(b)), torch.sin(b)
    imaginary = torch.sinh(a) * sine
    zero_part = torch.where(b == 0, torch.where(a < 0, -sine, sine), 0.0)
    wins = ((a == 0) | (b == 0)) & (imaginary != imaginary)
    return torch.cosh(a) * cosine, torch.where(wins, zero_part, imaginary)


def _cos(a: Tensor, b: Tensor) -> _Pair:
    return _cosh(-b, a)


def _tanh(a: Tensor, b: Tensor) -> _Pair:
    s, c, t = torch.tanh(a), torch.cosh(a), torch.tan(b)
    t = torch.where(_is_infinite(a) & (t != t), _with_sign(0.0, b), t)
    below = 1 + s * s * t * t
    real = torch.where(a == 0, a, s * (1 + t * t) / below)
    return real, torch.where(b == 0, b, t / (c * c * below))


# ---- roots and logarithms


def _sqrt(z: Tensor) -> Tensor:
    # The larger part first, so that no digits cancel; the other follows from 2·re·im = b.
    a, b = parts(z)
    infinite = _is_infinite(b)
    large = torch.sqrt((z.abs() + a.abs()) * 0.5)
    small = torch.where(large == 0, 0.0, b.abs() / (large * 2))
    large, small = (torch.where(infinite, math.inf, x) for x in (large, small))
    upper = torch.where(_signbit(b), -1.0, 1.0).to(b.dtype)
    right = a >= 0
    return join(torch.where(right, large, small), torch.where(right, small, large) * upper)


def _log(z: Tensor) -> Tensor:
    a, b = parts(z)
    return join(torch.log(z.abs()), torch.atan2(b, a))


def _log_to(base: float) -> Callable[[Tensor], Tensor]:
    """A logarithm scaled by parts: a complex factor would mix an infinite part into the other."""
    return lambda z: torch.view_as_complex(torch.view_as_real(_log(z)) * (1 / math.log(base)))


def _log1p(a: Tensor, b: Tensor) -> _Pair:
    """Near 0 from z·(2 + z), which log would round away; elsewhere that would overflow."""
    size = torch.log(join(1 + a, b).abs())
    near = 0.5 * torch.log1p(a * (2 + a) + b * b)
    return torch.where(torch.abs(size) < 0.25, near, size), torch.atan2(b, 1 + a)


# ---- inverse functions, by Kahan's formulas, in which no digits cancel near the branch cuts. For
# infinite numbers only the angle matters.


def _around_one(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The parts of the roots of 1 - z and of 1 + z, computed by parts to keep signs of zeros."""
    return (*parts(torch.sqrt(join(1 - a, -b))), *parts(torch.sqrt(join(1 + a, b))))


def _if_infinite(a: Tensor, b: Tensor, far: _Pair, near: _Pair) -> _Pair:
    infinite = _is_infinite(a) | _is_infinite(b)
    return torch.where(infinite, far[0], near[0]), torch.where(infinite, far[1], near[1])


def _asin(a: Tensor, b: Tensor) -> _Pair:
    below, below_i, above, above_i = _around_one(a, b)
    real = torch.where(a == 0, a, torch.atan2(a, below * above - below_i * above_i))
    near = real, torch.asinh(below * above_i - below_i * above)
    return _if_infinite(a, b, (torch.atan2(a, b.abs()), _with_sign(math.inf, b)), near)


def _acos(a: Tensor, b: Tensor) -> _Pair:
    below, below_i, above, above_i = _around_one(a, b)
    real = torch.where(a == 0, math.pi / 2, 2 * torch.atan2(below, above))
    near = real, torch.asinh(above * below_i - above_i * below)
    return _if_infinite(a, b, (torch.atan2(b.abs(), a), -_with_sign(math.inf, b)), near)


def _acosh(a: Tensor, b: Tensor) -> _Pair:
    less, less_i = parts(torch.sqrt(join(a - 1, b)))
    more, more_i = parts(torch.sqrt(join(a + 1, b)))
    angle = 2 * torch.atan2(less_i, more)
    angle = torch.where((a == 0) & (b != b), math.pi / 2, angle)
    near = torch.asinh(less * more + less_i * more_i), angle
    return _if_infinite(a, b, (torch.full_like(a, math.inf), torch.atan2(b, a)), near)


def _atanh(a: Tensor, b: Tensor) -> _Pair:
    size = a.abs()
    away = (1 - size) * (1 - size) + b * b
    real = _with_sign(0.25 * torch.log1p(4 * size / away), a)
    angle = 0.5 * torch.atan2(2 * b, (1 - a) * (1 + a) - b * b)
    near = torch.where(a == 0, a, real), angle
    quarter = torch.where(b != b, b, _with_sign(math.pi / 2, b))
    return _if_infinite(a, b, (_with_sign(0.0, a), quarter), near)


COMPLEX_FUNCTIONS: dict[Any, Callable[[Tensor], Tensor]] = {
    _aten.exp.default: _on_parts(_exp),
    _aten.expm1.default: _on_parts(_expm1),
    _aten.log.default: _log,
    _aten.log1p.default: _on_parts(_log1p),
    _aten.log2.default: _log_to(2),
    _aten.log10.default: _log_to(10),
    _aten.sqrt.default: _sqrt,
    _aten.sin.default: _on_parts(_rotated(_sinh)),
    _aten.cos.default: _on_parts(_cos),
    _aten.tan.default: _on_parts(_rotated(_tanh)),
    _aten.sinh.default: _on_parts(_sinh),
    _aten.cosh.default: _on_parts(_cosh),
    _aten.tanh.default: _on_parts(_tanh),
    _aten.asin.default: _on_parts(_asin),
    _aten.acos.default: _on_parts(_acos),
    _aten.atan.default: _on_parts(_rotated(_atanh)),
    _aten.asinh.default: _on_parts(_rotated(_asin)),
    _aten.acosh.default: _on_parts(_acosh),
    _aten.atanh.default: _on_parts(_atanh),
}
