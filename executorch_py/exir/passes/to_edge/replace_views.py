"""Views become copies: every operator that aliases its input is replaced by its `_copy` form.

A planned program has no aliasing until the memory planner introduces it. A copy is contiguous where
the view had strides, so nodes after a changed layout are evaluated again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.ir.fake_values import contiguous_like, has_row_major_strides, refresh_users
from executorch_py.exir.passes.base import (
    Contract,
    Fact,
    GraphPass,
    facts,
    operator_calls,
)


def is_view(op: torch._ops.OpOverload) -> bool:
    """Whether an operator returns a view of its first operand."""
    arguments = op._schema.arguments
    alias = arguments[0].alias_info if arguments else None
    return op.is_view or (
        op.namespace == "aten"
        and alias is not None
        and not alias.is_write
        and bool(op._schema.returns)
    )


def _copy_form(node: Node) -> torch._ops.OpOverload:
    op: Any = node.target
    name = op._schema.name.split("::")[1]
    packet = getattr(getattr(torch.ops, op.namespace), f"{name}_copy", None)
    copy = getattr(packet, op._overloadname, None)
    if copy is None:
        raise ExportError(
            ExportErrorType.NOT_SUPPORTED,
            f"node '{node.name}': expected an operator {op.namespace}::{name}_copy to be used "
            f"instead of a view of its input, got only {op}.\n{node.stack_trace or ''}\n"
            "Define that operator, or a decomposition of this one.",
        )
    found: torch._ops.OpOverload = copy
    return found


class ReplaceViewsWithCopiesPass(GraphPass):
    """Retarget view operators to their copying forms."""

    contract = Contract(ensures=facts(Fact.NO_VIEWS))

    def rewrite(self, gm: GraphModule) -> bool:
        moved: list[Node] = []
        modified = False
        for node in operator_calls(gm):
            if node.target is torch.ops.aten._unsafe_view.default:
                node.target = torch.ops.aten.view_copy.default
                modified = True
            elif node.target is torch.ops.aten.nonzero.default:
                # Upstream: eager's column-major layout is recorded while kernels write rows; here
                # the recorded layout is rows, too.
                pass
            elif is_view(node.target):
                node.target = _copy_form(node)
                modified = True
            else:
                continue
            if _make_contiguous(node):
                moved.append(node)
        refresh_users(gm, moved)
        return modified or bool(moved)


def _make_contiguous(node: Node) -> bool:
    changed = False

    def fix(value: Any) -> Any:
        nonlocal changed
        if not isinstance(value, torch.Tensor) or has_row_major_strides(value):
            return value
        changed = True
        return contiguous_like(value)

    node.meta["val"] = pytree.tree_map(fix, node.meta["val"])
    return changed
