"""Two preparations for views that share memory: one operator for reshapes, and one base for each.

CanonicalizeReshapes rewrites every operator that keeps all bytes in order (unsqueeze, squeeze,
clone of the same layout, permutations of unit dimensions …) to `view_copy`.
NormalizeViewCopyBasePass lets a `view_copy` of a `view_copy` read the first base. Neither removes a
copy; ReplaceViewCopyWithViewPass does.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.graph import is_written
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import RESHAPES, SOMETIMES_RESHAPES, op_key
from executorch_py.exir.ir.tensor_spec import TensorSpec
from executorch_py.exir.passes.base import Contract, Fact, GraphPass, facts


class CanonicalizeReshapes(GraphPass):
    """Rewrite operators that only change the shape to `view_copy`."""

    contract = Contract(requires=facts(Fact.SPECS))

    def rewrite(self, gm: fx.GraphModule) -> bool:
        changed = False
        for node in gm.graph.nodes:
            key = op_key(node.target)
            if key == "aten::copy" and _replaces_all(node):
                node.target = torch.ops.aten.clone.default
                node.args, node.kwargs = (node.args[1],), {}
                key = "aten::clone"
                changed = True
            if key == "aten::view_copy" or key not in RESHAPES | SOMETIMES_RESHAPES:
                continue
            if is_written(node):  # an in-place operator updates the copy
                continue
            size = _view_size(node, key)
            if size is not None:
                node.target = torch.ops.aten.view_copy.default
                node.args, node.kwargs = (node.args[0], size), {}
                changed = True
        return changed


class NormalizeViewCopyBasePass(GraphPass):
    """Let a `view_copy` of a `view_copy` read the first tensor that is no view."""

    contract = Contract()

    def rewrite(self, gm: fx.GraphModule) -> bool:
        changed = False
        for node in gm.graph.nodes:
            if not is_call(node, "aten::view_copy"):
                continue
            base = argument(node, "self")
            while is_call(base, "aten::view_copy") and not is_written(base):
                base = argument(base, "self")
            if base is not node.args[0]:
                node.args = (base, argument(node, "size"))
                node.kwargs = {}
                changed = True
        return changed


def _replaces_all(node: fx.Node) -> bool:
    """Whether functional `copy(self, source)` returns the source as it is."""
    source = node.args[1].meta.get("spec")
    result = node.meta.get("spec")
    return (
        isinstance(source, TensorSpec)
        and isinstance(result, TensorSpec)
        and source.dtype is result.dtype
        and source.dim_order == result.dim_order
        and _same(source.shape, result.shape)
    )


def _view_size(node: fx.Node, key: str) -> list[int] | None:
    """The size argument of an equal `view_copy`, or None."""
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node):
        return None
    before, after = source.meta.get("spec"), node.meta.get("spec")
    if not isinstance(before, TensorSpec) or not isinstance(after, TensorSpec):
        return None
    if before.dtype is not after.dtype or not _is_row_major(before) or not _is_row_major(after):
        return None
    if key in SOMETIMES_RESHAPES and not _keeps_order(before.shape, after.shape, node, key):
        return None
    dynamic = [i for i, size in enumerate(after.shape) if not isinstance(size, int)]
    fixed = [size for size in after.shape if isinstance(size, int)]
    if len(dynamic) > 1 or (dynamic and 0 in fixed):
        return None
    return [-1 if i in dynamic else size for i, size in enumerate(after.shape)]


def _is_row_major(spec: TensorSpec) -> bool:
    return spec.dim_order == tuple(range(len(spec.shape)))


def _keeps_order(before: list[Any], after: list[Any], node: fx.Node, key: str) -> bool:
    if key in ("aten::expand_copy",):
        extra = len(after) - len(before)
        return all(map(_is_one, after[:extra])) and _same(before, after[extra:])
    if key == "aten::as_strided_copy":
        return _is_everything(before, node)
    if key == "aten::permute_copy":
        rank = len(before)
        dims = [dim % rank for dim in argument(node, "dims")]
    elif key == "aten::transpose_copy.int":
        rank = max(len(before), 1)
        dims = list(range(len(before)))
        a, b = argument(node, "dim0") % rank, argument(node, "dim1") % rank
        if dims:
            dims[a], dims[b] = dims[b], dims[a]
    elif key == "aten::t_copy":
        dims = list(range(len(before)))[::-1]
    else:
        return _same(before, after)
    moved = [dim for dim in dims if not _is_one(before[dim])]
    return moved == sorted(moved)


def _is_everything(before: list[Any], node: fx.Node) -> bool:
    """Whether an `as_strided_copy` reads all elements of a row-major tensor in order."""
    sizes, strides = argument(node, "size"), argument(node, "stride")
    if argument(node, "storage_offset") not in (None, 0):
        return False
    if not all(isinstance(n, int) for n in (*before, *sizes, *strides)):
        return False
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return bool(step == math.prod(before))


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _same(before: list[Any], after: list[Any]) -> bool:
    return len(before) == len(after) and all(
        _expr(a) == _expr(b) for a, b in zip(before, after, strict=True)
    )


def _expr(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr
