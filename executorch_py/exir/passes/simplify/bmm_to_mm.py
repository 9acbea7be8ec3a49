"""BmmToMm: a batch of products with one matrix becomes one product of two matrices.

    bmm(x, expand(w))     from einsum, and from linear on an input that is not row-major

repeats w for every entry of the batch. Instead, the rows of all entries become one matrix, and w is
used without a copy. Each element is the same sum in the same order. Runs before constants are
folded, which would otherwise store the repeated weight. Relies on `meta["val"]`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.fake_values import evaluate, rewrite_calls
from executorch_py.exir.ir.match import is_call
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_VIEWS = ("aten::view_copy", "aten::unsqueeze_copy", "aten::_unsafe_view", "aten::clone")


class BmmToMm(Pass):
    """Replace products of a batch with one repeated matrix by one product of matrices."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        return rewrite_calls(program, _to_mm)


def _matrix(node: fx.Node) -> fx.Node | None:
    """The matrix that every entry of a batch repeats."""
    sizes = node.meta["val"].shape[-2:]
    expanded = False
    while is_call(node, *_VIEWS, "aten::expand_copy"):
        expanded |= is_call(node, "aten::expand_copy")
        source = node.args[0]
        if not isinstance(source, fx.Node) or source.meta["val"].shape[-2:] != sizes:
            return None
        node = source
        if expanded and all(isinstance(s, int) and s == 1 for s in source.meta["val"].shape[:-2]):
            return node
    return None


def _sizes(shape: torch.Size) -> list[int] | None:
    """The sizes for a view, -1 for a symbol; None where more than one is a symbol."""
    sizes = [s if isinstance(s, int) else -1 for s in shape]
    return sizes if sizes.count(-1) < 2 else None


def _to_mm(node: fx.Node) -> bool:
    if not is_call(node, "aten::bmm"):
        return False
    x, repeated = node.args
    if not isinstance(x, fx.Node) or not isinstance(repeated, fx.Node):
        return False
    shape, sizes = repeated.meta["val"].shape, _sizes(node.meta["val"].shape)
    if sizes is None or not all(isinstance(s, int) and s > 0 for s in shape[-2:]):
        return False
    if isinstance(shape[0], int) and shape[0] < 2:
        return False
    matrix = _matrix(repeated)
    if matrix is None:
        return False

    def call(target: Any, *args: Any) -> fx.Node:
        made = node.graph.call_function(target, args)
        made.meta["val"] = evaluate(made)
        return made

    with node.graph.inserting_before(node):
        k, n = shape[-2:]
        rows = call(torch.ops.aten.view_copy.default, x, [-1, k])
        if matrix.meta["val"].dim() > 2:
            matrix = call(torch.ops.aten.view_copy.default, matrix, [k, n])
        product = call(torch.ops.aten.mm.default, rows, matrix)
        view = node.graph.call_function(torch.ops.aten.view_copy.default, (product, sizes))
    view.meta.update({key: v for key, v in node.meta.items() if key != "spec"})
    node.replace_all_uses_with(view)
    return True
