"""Decompositions of batched products with one matrix into one product of two matrices.

Torch decomposes `linear` and `matmul` so only if the batched operand is dense in memory, and
otherwise multiplies by one copy of the matrix per batch (`nn.TransformerEncoder` with batch_first
transposes its input first). Copying that operand once is cheaper than copying the matrix for each
batch, and one large product is faster than a batch of small ones. Torch's own rule serves every
other product.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _rows_times(x: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ matrix (+ bias) for x of any rank, with all dimensions but the last joined to rows."""
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
    flat = rows.mm(matrix) if bias is None else torch.addmm(bias, rows, matrix)
    return flat.view(*x.shape[:-1], matrix.shape[1])


def _copies_less_as_rows(matrix: Tensor, x: Tensor) -> bool:
    """Whether transposing x and the result copies less than one matrix per batch does."""
    sizes = (*matrix.shape, x.shape[-1])
    if not all(isinstance(size, int) for size in sizes):
        return False
    rows, inner, columns = sizes
    return bool(rows * inner > (rows + inner) * columns)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    from torch._decomp.decompositions import matmul

    if a.ndim >= 3 and b.ndim == 2:
        return _rows_times(a, b)
    if a.ndim == 2 and b.ndim >= 3 and _copies_less_as_rows(a, b):
        return _rows_times(b.mT, a.t()).mT
    product: Tensor = matmul(a, b)
    return product


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if weight.ndim == 2 and (bias is None or bias.ndim == 1):
        if x.ndim >= 3:
            return _rows_times(x, weight.t(), bias)
        if x.ndim == 2:
            columns = weight.t()
            return x.mm(columns) if bias is None else torch.addmm(bias, x, columns)
    product = _matmul(x, weight.t() if weight.ndim == 2 else weight)
    return product if bias is None else product + bias


def product_decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator → rule."""
    return {_aten.linear.default: _linear, _aten.matmul.default: _matmul}
