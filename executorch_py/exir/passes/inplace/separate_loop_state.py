"""SeparateLoopState: a loop body returns a copy of a carried input that changes its position.

Carried tensors are updated one after another at the end of each round; exchanging two of them needs
a copy of the first. Only bodies of `scan` and `while_loop` are rewritten.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.graph import (
    body_modules,
    flat_outputs,
    output_node,
    placeholders,
)
from executorch_py.exir.ir.op_traits import (
    RESHAPES,
    SOMETIMES_RESHAPES,
    higher_order_name,
    op_key,
)
from executorch_py.exir.passes.base import Contract, GraphPass


class SeparateLoopState(GraphPass):
    """Clone body outputs that are carried inputs of another position."""

    contract = Contract()

    def rewrite(self, gm: fx.GraphModule) -> bool:
        changed = False
        for node in gm.graph.nodes:
            kind = higher_order_name(node.target) if node.op == "call_function" else ""
            if kind not in ("scan", "while_loop"):
                continue
            carried = node.args[1] if kind == "scan" else node.args[2]
            body = body_modules(gm, node)[-1]
            changed |= _separate(body, len(carried))
        return changed


def _separate(body: fx.GraphModule, n_carried: int) -> bool:
    inputs = placeholders(body.graph)[:n_carried]
    leaves = flat_outputs(body.graph)
    renamed: dict[int, fx.Node] = {}
    output = output_node(body.graph)
    with body.graph.inserting_before(output):
        for i, leaf in enumerate(leaves[:n_carried]):
            root = _root(leaf)
            if root in inputs and root is not inputs[i] and _is_tensor(leaf):
                clone = body.graph.call_function(torch.ops.aten.clone.default, (leaf,))
                clone.meta["val"] = leaf.meta["val"]
                renamed[i] = clone
    if not renamed:
        return False
    position = iter(range(len(leaves)))

    def replaced(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(replaced(item) for item in value)
        return renamed.get(next(position), value)

    output.args = (replaced(output.args[0]),)
    return True


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, fx.Node) and isinstance(leaf.meta.get("val"), torch.Tensor)


def _root(leaf: Any) -> Any:
    while isinstance(leaf, fx.Node) and op_key(leaf.target) in RESHAPES | SOMETIMES_RESHAPES:
        leaf = leaf.args[0]
    return leaf
