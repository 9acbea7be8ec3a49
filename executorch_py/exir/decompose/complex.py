"""Decompositions of complex operators into those with complex kernels and real arithmetic.

The runtimes move complex tensors, add, subtract, multiply and divide them, take their absolute
value and conjugate, and convert them to pairs of real numbers. All other operators are decomposed
into these; `view_as_complex` joins the pairs again. A rule leaves real tensors alone, and is used
only for programs with a complex tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from executorch_py.exir.decompose.complex_functions import COMPLEX_FUNCTIONS, join, parts
from executorch_py.exir.ir.graph_modules import graph_modules

_aten = torch.ops.aten
_Rule = Callable[..., Any]


def _polar(size: Tensor, angle: Tensor) -> Tensor:
    return join(size * torch.cos(angle), size * torch.sin(angle))


def _complex(real: Tensor, imaginary: Tensor) -> Tensor:
    real, imaginary = torch.broadcast_tensors(real, imaginary)
    return join(real, imaginary)


def _one_over(z: Tensor) -> Tensor:
    return torch.ones_like(z) / z


def _power(z: Tensor, exponent: Any) -> Tensor:
    """Integer powers by repeated squaring, others by the logarithm."""
    if exponent == 0:
        return torch.ones_like(z)
    if exponent == 0.5:
        return torch.sqrt(z)
    if isinstance(exponent, complex) or exponent != int(exponent) or abs(exponent) > 64:
        return _power_tensor(z, torch.full_like(z, exponent))
    n, square, result = abs(int(exponent)), z, None
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        square = square * square if n else square
    assert result is not None
    return torch.reciprocal(result) if exponent < 0 else result


def _power_tensor(base: Tensor, exponent: Tensor) -> Tensor:
    dtype = torch.result_type(base, exponent)
    base, exponent = torch.broadcast_tensors(base.to(dtype), exponent.to(dtype))
    power = torch.exp(torch.log(base) * exponent)
    # Eager computes powers of 0 as exp of infinities: 0 ** 0 is NaN.
    growth = exponent.real
    real = torch.where(growth > 0, 0.0, torch.where(growth < 0, math.inf, math.nan))
    of_zero = join(real, torch.where(growth > 0, 0.0, math.nan).to(real.dtype))
    return torch.where(base == 0, of_zero.to(dtype), power)


def _power_of_number(base: Any, exponent: Tensor) -> Tensor:
    if base == 1:
        return torch.ones_like(exponent)
    return _power_tensor(torch.full_like(exponent, base), exponent)


def _dims(z: Tensor, dim: Any) -> list[int]:
    """The dimensions to reduce, all non-negative: pairs have one more dimension at the end."""
    wanted = [dim] if isinstance(dim, int) else list(dim or range(z.dim()))
    return [d % max(z.dim(), 1) for d in wanted] if z.dim() else []


def _sum(
    z: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    z = z if dtype is None else z.to(dtype)
    if not z.is_complex():
        return torch.sum(z, dim, keepdim)
    dims = _dims(z, dim)
    return torch.view_as_complex(torch.view_as_real(z).sum(dims, keepdim)) if dims else z.clone()


def _mean(
    z: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    z = z if dtype is None else z.to(dtype)
    dims = _dims(z, dim)
    return torch.view_as_complex(torch.view_as_real(z).mean(dims, keepdim)) if dims else z.clone()


def _cumsum(z: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    z = z if dtype is None else z.to(dtype)
    if z.dim() == 0 or not z.is_complex():
        return z.clone() if z.is_complex() else torch.cumsum(z, dim)
    return torch.view_as_complex(torch.view_as_real(z).cumsum(dim % z.dim()))


def _variance(
    z: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Tensor:
    pairs = torch.view_as_real(z)
    parts = torch.var(pairs, _dims(z, dim), correction=correction, keepdim=keepdim)
    return parts.sum(-1)


def _variance_and_mean(
    z: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    variance = _variance(z, dim, correction=correction, keepdim=keepdim)
    return variance, _mean(z, dim, keepdim)


def _equal(a: Tensor, b: Any) -> Tensor:
    return _same(a, b).all(-1)


def _different(a: Tensor, b: Any) -> Tensor:
    return _same(a, b).logical_not().any(-1)


def _same(a: Tensor, b: Any) -> Tensor:
    """Equality of real and imaginary parts; a number is compared in the tensor's dtype."""
    dtype = torch.result_type(a, b)
    other = b if isinstance(b, Tensor) else torch.full([], b, dtype=dtype)
    return torch.view_as_real(a.to(dtype)) == torch.view_as_real(other.to(dtype))


def _of_any_part(test: Callable[[Tensor], Tensor]) -> _Rule:
    return lambda z: test(torch.view_as_real(z)).any(-1)


def _is_nonzero(z: Tensor) -> Tensor:
    return (torch.view_as_real(z) != 0).any(-1)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """A complex matrix product as a real one of twice the size: rows of pairs times [B, iB]."""
    *batch, n_rows, n_inner = a.shape
    n_columns = b.shape[-1]
    real, imaginary = parts(b)
    times_i = torch.stack([-imaginary, real], -1)
    pairs = torch.stack([torch.view_as_real(b), times_i], -3)  # [..., inner, 2, columns, 2]
    right = pairs.reshape(*batch, n_inner * 2, n_columns * 2)
    left = torch.view_as_real(a).reshape(*batch, n_rows, n_inner * 2)
    return torch.view_as_complex((left @ right).reshape(*batch, n_rows, n_columns, 2))


def _add_product(c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = _product(a, b)
    product = product if alpha == 1 else product * alpha
    return product + (c if beta == 1 else c * beta)


def _full(size: Sequence[Any], value: Any, **options: Any) -> Any:
    dtype = options.pop("dtype", None)
    if not isinstance(value, complex):
        return NotImplemented
    part = (dtype or torch.get_default_dtype().to_complex()).to_real()
    return join(*(torch.full(size, x, dtype=part) for x in (value.real, value.imag)))


def _full_like(x: Tensor, value: Any, **options: Any) -> Any:
    return _full(list(x.shape), value, dtype=options.get("dtype") or x.dtype)


def _number(value: Any, **options: Any) -> Any:
    return _full([], value, **options)


def _times_number(x: Tensor, factor: Any) -> Any:
    # Files have no complex numbers: the factor becomes a tensor.
    return x * factor if isinstance(factor, complex) else NotImplemented


# Rules for complex tensors; on real tensors these operators are decomposed by the core table.
_OF_COMPLEX: dict[Any, _Rule] = {
    **COMPLEX_FUNCTIONS,
    _aten._conj.default: _aten._conj_physical.default,
    _aten.neg.default: lambda z: torch.view_as_complex(-torch.view_as_real(z)),
    _aten.reciprocal.default: _one_over,
    _aten.rsqrt.default: lambda z: torch.reciprocal(torch.sqrt(z)),
    _aten.sigmoid.default: lambda z: torch.reciprocal(1 + torch.exp(-z)),
    _aten.pow.Tensor_Scalar: _power,
    _aten.pow.Tensor_Tensor: _power_tensor,
    _aten.sum.dim_IntList: _sum,
    _aten.mean.default: _mean,
    _aten.mean.dim: _mean,
    _aten.cumsum.default: _cumsum,
    _aten.var.correction: _variance,
    _aten.var_mean.correction: _variance_and_mean,
    _aten.any.default: lambda z: _is_nonzero(z).any(),
    _aten.any.dim: lambda z, dim, keepdim=False: _is_nonzero(z).any(dim, keepdim),
    _aten.logical_not.default: lambda z: _is_nonzero(z).logical_not(),
    _aten.eq.Scalar: _equal,
    _aten.ne.Scalar: _different,
    _aten.isnan.default: _of_any_part(torch.isnan),
    _aten.isinf.default: _of_any_part(torch.isinf),
    _aten.mm.default: _product,
    _aten.bmm.default: _product,
    _aten.addmm.default: _add_product,
}
# Rules for real tensors as well, because the result or a number is complex.
_ALWAYS: dict[Any, _Rule] = {
    _aten.resolve_conj.default: lambda x: x.clone(),
    _aten.resolve_neg.default: lambda x: x.clone(),
    _aten._neg_view.default: lambda x: -x,
    _aten.mul.Scalar: _times_number,
    _aten.polar.default: _polar,
    _aten.complex.default: _complex,
    _aten.full.default: _full,
    _aten.full_like.default: _full_like,
    _aten.scalar_tensor.default: _number,
}


def _for_complex(rule: _Rule) -> _Rule:
    def decomposition(x: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [v for v in (x, *args) if isinstance(v, Tensor)]
        if not any(v.is_complex() for v in tensors):
            return NotImplemented
        return rule(x, *args, **kwargs)

    return decomposition


@cache
def complex_decompositions() -> dict[Any, _Rule]:
    """Operator → rule; a rule that returns NotImplemented leaves the call as it is."""
    both = {
        **_OF_COMPLEX,
        _aten.eq.Tensor: _equal,
        _aten.ne.Tensor: _different,
        _aten.pow.Scalar: _power_of_number,
    }
    return {**{op: _for_complex(rule) for op, rule in both.items()}, **_ALWAYS}


def holds_complex(program: ExportedProgram) -> bool:
    """Whether any value of the program is a complex tensor."""
    return any(
        isinstance(value, Tensor) and value.is_complex()
        for gm in graph_modules(program.graph_module)
        for node in gm.graph.nodes
        for value in pytree.tree_leaves(node.meta.get("val"))
    )
