"""Passes that compute with another dtype inside a graph; inputs and results keep theirs.

Names and arguments are upstream's.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.passes.infra.pass_base import PassResult

from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge_ops import ops
from executorch_py.exir.passes.user.export_pass import ExportPass

__all__ = ["ConvertDtypePass", "I64toI32"]

# Dim-order operators must exist before the pass names one.
assert DimOrderOpsMap


class ConvertDtypePass(ExportPass):
    """Values of `src_dtype` become values of `dst_dtype`."""

    def __init__(
        self, src_dtype: torch.dtype, dst_dtype: torch.dtype, _skip_dim_order: bool = False
    ) -> None:
        super().__init__()
        plain, ordered = ops.edge.aten._to_copy, ops.edge.dim_order_ops._to_dim_order_copy
        self.copy_op = plain.default if _skip_dim_order else ordered.default
        self.src_dtype, self.dst_dtype = src_dtype, dst_dtype

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        modified = False
        for node in list(graph_module.graph.nodes):
            if node.op == "placeholder" and self._is_source(node.meta["val"]):
                self._convert_input(graph_module.graph, node)
                modified = True
            elif node.op == "call_function" and node.target is not operator.getitem:
                modified |= self._convert_call(node)
            elif node.op == "output":
                modified |= self._convert_results(graph_module.graph, node)
        return PassResult(graph_module, modified)

    def _is_source(self, value: Any) -> bool:
        return isinstance(value, FakeTensor) and value.dtype == self.src_dtype

    def _convert_input(self, graph: fx.Graph, node: fx.Node) -> None:
        with graph.inserting_after(node):
            copy = graph.call_function(self.copy_op, (node,), {"dtype": self.dst_dtype})
        copy.meta["val"] = node.meta["val"].to(self.dst_dtype)
        node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)

    def _convert_call(self, node: fx.Node) -> bool:
        if not self._is_source(node.meta["val"]):
            return False
        node.meta["val"] = node.meta["val"].to(self.dst_dtype)
        if any(a.name == "dtype" for a in node.target._schema.arguments):
            node.update_kwarg("dtype", self.dst_dtype)
        return True

    def _convert_results(self, graph: fx.Graph, output: fx.Node) -> bool:
        results: Any = list(output.args[0])
        for i, value in enumerate(output.meta["val"]):
            if self._is_source(value):
                with graph.inserting_before(output):
                    dtype = {"dtype": self.src_dtype}
                    results[i] = graph.call_function(self.copy_op, (results[i],), dtype)
                results[i].meta["val"] = value
        changed = any(map(self._is_source, output.meta["val"]))
        output.args = (tuple(results),)
        return changed


class I64toI32(ConvertDtypePass):
    """int64 values become int32 values."""

    def __init__(self, _skip_dim_order: bool = False) -> None:
        super().__init__(torch.int64, torch.int32, _skip_dim_order)
