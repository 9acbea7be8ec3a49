"""Symbolic numbers in Tensor slots become tensors through `aten.scalar_tensor`.

Eager converts them silently; a runtime that follows operator schemas cannot.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation, fake_mode_of
from executorch_py.exir.passes.base import (
    Contract,
    Fact,
    GraphPass,
    facts,
    inherit_meta,
    map_tensor_arguments,
    operator_calls,
)

DTYPE_OF_SYMBOL: dict[type, torch.dtype] = {
    torch.SymInt: torch.int32,
    torch.SymFloat: torch.float32,
    torch.SymBool: torch.bool,
}


class SymToTensorPass(GraphPass):
    """`mul(x, sym)` becomes `mul(x, scalar_tensor(sym))`; ScalarToTensorPass converts Python
    numbers.
    """

    contract = Contract(ensures=facts(Fact.TENSOR_OPERANDS))

    def rewrite(self, gm: GraphModule) -> bool:
        return any([map_tensor_arguments(n, partial(_wrap, gm, n)) for n in operator_calls(gm)])


def _wrap(gm: GraphModule, node: Node, value: Any) -> Node | None:
    dtype = DTYPE_OF_SYMBOL.get(type(value.meta.get("val"))) if isinstance(value, Node) else None
    if dtype is None:
        return None
    with gm.graph.inserting_before(node):
        tensor = gm.graph.call_function(
            torch.ops.aten.scalar_tensor.default, (value,), {"dtype": dtype}
        )
    inherit_meta(tensor, node)
    mode = fake_mode_of(gm)
    if mode is not None:
        with fake_evaluation(mode):
            tensor.meta["val"] = evaluate(tensor)
    return tensor
