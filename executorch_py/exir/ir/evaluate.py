"""Evaluation of graph nodes at export, for calls whose value never changes.

Eager torch computes; results are laid out as the graph was traced. Which results are worth storing
is for the passes to decide. Values are given by node; knows nothing of programs.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import fx
from torch._prims_common import is_non_overlapping_and_dense_or_false

from executorch_py.exir.error import InternalError
from executorch_py.exir.ir.op_traits import (
    is_random,
    is_scalar_op,
    mutated_positions,
    op_key,
    op_overload,
)

# A transposed weight shares the memory of the weight; emission puts its bytes in order.
TRANSPOSES: dict[str, Any] = {
    "aten::permute_copy": torch.ops.aten.permute.default,
    "aten::t_copy": torch.ops.aten.t.default,
    "aten::transpose_copy.int": torch.ops.aten.transpose.int,
}

# Operators whose results are uninitialized memory. Folded, they would put arbitrary bytes of the
# exporting process into the file.
UNINITIALIZED = ("aten::empty", "aten::new_empty", "dim_order_ops::_empty_dim_order")


def is_plain(value: torch.Tensor) -> bool:
    """Whether a constant is an ordinary tensor, which eager torch can compute with."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == "cpu"


def depends_on_operands_only(node: fx.Node, kept: Container[str] = ()) -> bool:
    """Whether a node is a call whose tensor result depends on its operands and nothing else."""
    op = op_overload(node.target) if node.op == "call_function" else None
    if op is None or is_scalar_op(node.target) or mutated_positions(op) or is_random(op):
        return False
    if op_key(op) in kept or op_key(op).startswith(UNINITIALIZED):
        return False
    example = node.meta.get("val")
    if not isinstance(example, torch.Tensor) or op.namespace == "executorch_prim":
        return False
    return all(isinstance(size, int) for size in example.shape)


def evaluate(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """The value of a node, from `values`, to which the values of its operands are added."""
    stack = [node]
    while stack:
        current = stack[-1]
        missing = [n for n in current.all_input_nodes if n not in values]
        if current not in values:
            if missing:
                stack.extend(missing)
                continue
            op = op_overload(current.target)
            assert op is not None
            op = TRANSPOSES.get(op_key(op), op)
            args = fx.node.map_arg(current.args, lambda n: values[n])
            kwargs = fx.node.map_arg(current.kwargs, lambda n: values[n])
            values[current] = op(*args, **kwargs)
        stack.pop()
    return values[node]


def result_bytes(node: fx.Node) -> int:
    """Bytes of a node's result, of static size."""
    value = node.meta["val"]
    return int(value.numel()) * int(value.element_size())


def dense_example(example: torch.Tensor) -> torch.Tensor:
    """The traced layout, or row-major where the traced one leaves gaps or repeats elements."""
    if example.is_contiguous() or is_non_overlapping_and_dense_or_false(example):
        return example
    return example.contiguous()


def laid_out_like(value: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    """The value in the layout that the rest of the graph was traced with, or a matrix transposed.

    Permutations of more dimensions are copied, because they may look like another layout.
    """
    if value.dtype is not example.dtype or value.shape != example.shape:
        raise InternalError(
            f"folded value: expected {example.dtype} {tuple(example.shape)}, as traced, "
            f"got {value.dtype} {tuple(value.shape)}"
        )
    is_transposed = value.dim() == 2 and value.t().is_contiguous() and example.is_contiguous()
    if value.stride() == example.stride() or is_transposed:
        return value
    laid_out = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype)
    return laid_out.copy_(value)
