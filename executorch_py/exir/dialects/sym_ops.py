"""Operators on sizes and other scalars: which of them stay torch operators in the edge dialect.

Scalar operators take and return numbers instead of tensors (or check them), so dtype rules and out
variants do not apply and OpReplacePass leaves them alone. Python functions on sizes:
ir/prim_ops.py.
"""

from __future__ import annotations

from typing import Any

import torch

_aten = torch.ops.aten

# Torch overload packets that export may leave in a graph, and the overload meant by them.
SYM_PACKETS: dict[Any, torch._ops.OpOverload] = {
    _aten.sym_size: _aten.sym_size.int,
    _aten.sym_stride: _aten.sym_stride.int,
    _aten.sym_numel: _aten.sym_numel.default,
    _aten.sym_storage_offset: _aten.sym_storage_offset.default,
}

SYM_OVERLOADS: frozenset[Any] = frozenset(
    {
        _aten.sym_size.int,
        _aten.sym_stride.int,
        _aten.sym_numel.default,
        _aten.sym_storage_offset.default,
        _aten._local_scalar_dense.default,
        _aten.sym_constrain_range.default,
        _aten.sym_constrain_range_for_size.default,
    }
)

# Assertions, and the bridge from a number to a tensor.
OTHER_TORCH_OPS: frozenset[Any] = frozenset(
    {
        _aten._assert_scalar.default,
        _aten._assert_async.msg,
        _aten.scalar_tensor.default,
    }
)

# Everything that is a torch operator on both sides of the conversion.
KEPT_AS_TORCH_OPS: frozenset[Any] = SYM_OVERLOADS | OTHER_TORCH_OPS
