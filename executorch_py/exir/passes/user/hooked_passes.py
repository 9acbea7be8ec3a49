"""Passes of the exporter as bases for users' passes, with the hook `call_operator`.

The classes themselves rewrite the graph in place, as the exporter's pass of the same name does. A
subclass re-traces the graph, and `super().call_operator` does the work.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import fx
from torch.fx.passes.infra.pass_base import PassResult
from torch.utils._python_dispatch import _disable_current_modes

from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.ir.tensor_spec import dim_order_from_stride
from executorch_py.exir.passes.base import GraphPass
from executorch_py.exir.passes.lower import legalize_portable_dim_order
from executorch_py.exir.passes.to_edge import memory_format_ops, scalar_to_tensor, sym_to_tensor
from executorch_py.exir.passes.user.export_pass import ExportPass
from executorch_py.exir.passes.user.pass_values import ArgSchema, NodeMetadata, ProxyValue, map_args

__all__ = [
    "LegalizePortableDimOrderPass",
    "MemoryFormatOpsPass",
    "ScalarToTensorPass",
    "SymToTensorPass",
]


class _HookedPass(ExportPass):
    """An exporter's pass that a subclass may change call by call."""

    in_place: ClassVar[type[GraphPass]]

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        if "in_place" in vars(type(self)):  # no subclass
            return self.in_place().call(graph_module)
        return super().call(graph_module)


class ScalarToTensorPass(_HookedPass):
    """Python numbers in Tensor slots become constants."""

    in_place = scalar_to_tensor.ScalarToTensorPass

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        args, kwargs = map_args(op, _constant, args, kwargs)
        return super().call_operator(op, args, kwargs, meta)


def _constant(value: Any, schema: ArgSchema) -> Any:
    if not isinstance(value, (float, int, bool)) or not isinstance(schema.type, torch.TensorType):
        return value
    with _disable_current_modes():
        return torch.tensor(value)


class SymToTensorPass(_HookedPass):
    """Symbolic numbers in Tensor slots become tensors through `aten.scalar_tensor`."""

    in_place = sym_to_tensor.SymToTensorPass

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        def tensor_of(value: Any, schema: ArgSchema) -> Any:
            dtype = sym_to_tensor.DTYPE_OF_SYMBOL.get(type(getattr(value, "data", None)))
            if dtype is None or not isinstance(schema.type, torch.TensorType):
                return value
            make = torch.ops.aten.scalar_tensor.default
            return self.call_operator(make, (value,), {"dtype": dtype}, meta)

        args, kwargs = map_args(op, tensor_of, args, kwargs)
        return super().call_operator(op, args, kwargs, meta)


class MemoryFormatOpsPass(_HookedPass):
    """Operators with a memory format become those with a dim order."""

    in_place = memory_format_ops.MemoryFormatOpsPass

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        if op not in DimOrderOpsMap:
            return super().call_operator(op, args, kwargs, meta)
        rest = dict(kwargs)
        order = memory_format_ops.dim_order_of(_data(args[0]), rest.pop("memory_format", None))
        target = DimOrderOpsMap[op]
        return super().call_operator(target, args, {**rest, "dim_order": order}, meta)


class LegalizePortableDimOrderPass(_HookedPass):
    """Copies to row-major layout come before kernels that need it."""

    in_place = legalize_portable_dim_order.LegalizePortableDimOrderPass

    def call_operator(
        self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: NodeMetadata
    ) -> Any:
        value = _data(args[0]) if args else None
        needs = op_key(op) in legalize_portable_dim_order.DEFAULT_LAYOUT_ONLY
        if needs and isinstance(value, torch.Tensor):
            row_major = list(range(value.dim()))
            if list(dim_order_from_stride(value.stride(), value.shape)) != row_major:
                copy = ops.edge.dim_order_ops._to_dim_order_copy.default
                source = super().call_operator(copy, args[:1], {"dim_order": row_major}, meta)
                args = (source, *args[1:])
        return super().call_operator(op, args, kwargs, meta)


def _data(value: Any) -> Any:
    return value.data if isinstance(value, ProxyValue) else value
