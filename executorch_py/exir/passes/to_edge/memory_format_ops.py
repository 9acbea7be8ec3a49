"""Copies, clones and empty tensors: a memory format becomes a dim order, and back.

The edge dialect names a layout by dimension order, as the file format does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from executorch_py.exir.dialects.dim_order import (
    DimOrderOpsMap,
    MemoryFormatOpsMap,
    contiguous_dim_order,
    dim_order_of_format,
    format_of_dim_order,
)
from executorch_py.exir.ir.fake_values import (
    contiguous_like,
    has_row_major_strides,
    is_contiguous,
    refresh_users,
)
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


def _value(arg: Any) -> Any:
    return arg.meta["val"] if isinstance(arg, Node) else arg


def _rank(arg: Any) -> int:
    value = _value(arg)
    return value.dim() if isinstance(value, torch.Tensor) else len(value)


def _input_dim_order(value: torch.Tensor) -> list[int]:
    """The dim order that a copy keeps of its input: channels_last if that is it, else contiguous.

    Upstream: any other order fails while re-tracing; no runtime copies into one.
    """
    if is_contiguous(value):
        return contiguous_dim_order(value.dim())
    order = [int(d) for d in value.dim_order()]
    try:
        format_of_dim_order(order)
    except ValueError:
        return contiguous_dim_order(value.dim())
    return order


def dim_order_of(source: Any, memory_format: torch.memory_format | None) -> list[int]:
    """The dim order of a result in a memory format; None keeps that of the tensor `source`."""
    is_tensor = isinstance(source, torch.Tensor)
    order = dim_order_of_format(memory_format, source.dim() if is_tensor else len(source))
    if order is not None:
        return order
    return _input_dim_order(source) if is_tensor else contiguous_dim_order(len(source))


class MemoryFormatOpsPass(GraphPass):
    """`_to_copy`, `clone` and `empty` become their dim-order forms."""

    contract = Contract(requires=facts(Fact.EDGE), ensures=facts(Fact.DIM_ORDER))

    def rewrite(self, gm: GraphModule) -> bool:
        moved: list[Node] = []
        modified = False
        for node in gm.graph.nodes:
            if node.op != "call_function" or node.target not in DimOrderOpsMap:
                continue
            kwargs = dict(node.kwargs)
            order = dim_order_of(_value(node.args[0]), kwargs.pop("memory_format", None))
            node.target = DimOrderOpsMap[node.target]
            node.kwargs = {**kwargs, "dim_order": order}
            node._rename(gm.graph._target_to_str(node.target))
            modified = True
            if _lay_out(node, order):
                moved.append(node)
        refresh_users(gm, moved)
        return modified


def _lay_out(node: Node, order: Sequence[int]) -> bool:
    value = node.meta["val"]
    if list(order) != contiguous_dim_order(len(order)) or has_row_major_strides(value):
        return False
    node.meta["val"] = contiguous_like(value)
    return True


class DimOrderOpsRevertPass(GraphPass):
    """Dim-order forms become operators with a `memory_format` again."""

    contract = Contract(requires=facts(Fact.EDGE), ends=facts(Fact.DIM_ORDER))

    def rewrite(self, gm: GraphModule) -> bool:
        modified = False
        for node in gm.graph.nodes:
            if node.op != "call_function" or node.target not in MemoryFormatOpsMap:
                continue
            kwargs = dict(node.kwargs)
            order = kwargs.pop("dim_order", contiguous_dim_order(_rank(node.args[0])))
            node.target = MemoryFormatOpsMap[node.target]
            node.kwargs = {**kwargs, "memory_format": format_of_dim_order(order)}
            node._rename(gm.graph._target_to_str(node.target))
            modified = True
        return modified
