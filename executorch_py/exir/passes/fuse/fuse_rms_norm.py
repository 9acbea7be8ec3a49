"""FuseRmsNorm: x / √(mean of x² + eps), and its product with a weight, become one call.

    x * rsqrt(mean(x ** 2, -1, keepdim) + eps) * weight

Matching is structural, in graphs of the Edge dialect and in those of torch.export that have no
conversion to the same dtype. Only the order of
sums differs: the last bits of results do. Only the runtime of this project has the operator.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.dialects.norm_ops import RMS_NORM
from executorch_py.exir.ir.graph import constant_tensors, erase_dead_nodes, graphs_with_constants
from executorch_py.exir.ir.match import argument, is_call, only_user
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_PRODUCT = "aten::mul.Tensor"

Constants = dict[str, torch.Tensor]


class _Norm(NamedTuple):
    """x · rsqrt(…), which `end` is; the weight of it or None."""

    x: fx.Node
    eps: float
    weight: fx.Node | None
    end: fx.Node


class FuseRmsNorm(Pass):
    """Replace root mean square normalizations, and drop calls without readers."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        graphs = graphs_with_constants(program, constant_tensors(program))
        return any([_fuse(graph, edge_op(RMS_NORM), known) for graph, known in graphs])


def fuse_rms_norms(graph: fx.Graph) -> bool:
    """Replaces the pattern in a graph of torch.export; whether it was there."""
    return _fuse(graph, RMS_NORM, {})


def _fuse(graph: fx.Graph, target: Any, constants: Constants) -> bool:
    found = False
    for node in list(graph.nodes):
        norm = _norm(node, constants)
        if norm is None:
            continue
        with graph.inserting_before(norm.end):
            fused = graph.call_function(target, (norm.x, norm.weight, norm.eps))
        fused.meta = dict(norm.end.meta)
        norm.end.replace_all_uses_with(fused)
        found = True
    return found and erase_dead_nodes(graph)


def _norm(node: fx.Node, constants: Constants) -> _Norm | None:
    if not is_call(node, "aten::rsqrt"):
        return None
    user = only_user(node)
    if user is None or not is_call(user, _PRODUCT):
        return None
    x = _other(user, node)
    eps = _eps(node.args[0], x, constants)
    if eps is None or x is None or not _is_f32(x) or _shape(user) != _shape(x):
        return None
    end, weight = _weighted(user)
    return _Norm(x, eps, weight, end)


def _eps(node: Any, x: fx.Node | None, constants: Constants) -> float | None:
    """The number that is added to the mean of the squares of x."""
    if x is None or not is_call(node, "aten::add.Tensor", "aten::add.Scalar"):
        return None
    mean, eps = node.args[0], _number(node.args[1], constants)
    if node.kwargs or len(node.args) != 2 or eps is None:
        return None
    if not is_call(mean, "aten::mean.dim") or not argument(mean, "keepdim"):
        return None
    rank = len(_shape(x))
    if argument(mean, "dim") not in ([-1], [rank - 1]) or argument(mean, "dtype") is not None:
        return None
    squares = mean.args[0]
    is_power = is_call(squares, "aten::pow.Tensor_Scalar") and squares.args[1] == 2
    is_product = is_call(squares, _PRODUCT) and squares.args[0] is squares.args[1]
    is_square = is_power or is_product or is_call(squares, "aten::square")
    return eps if is_square and squares.args[0] is x else None


def _number(value: Any, constants: Constants) -> float | None:
    """A number that is an argument, or a constant of one element."""
    if isinstance(value, int | float):
        return float(value)
    constant = constants.get(value.name) if isinstance(value, fx.Node) else None
    return None if constant is None or constant.numel() != 1 else float(constant.item())


def _weighted(node: fx.Node) -> tuple[fx.Node, fx.Node | None]:
    """The product of a normalized node with a weight for each element of a row, and that weight."""
    end = only_user(node)
    if end is None or not is_call(end, _PRODUCT):
        return node, None
    weight = _other(end, node)
    if weight is None or not _is_f32(weight) or _shape(weight) != _shape(node)[-1:]:
        return node, None
    return end, weight


def _other(product: fx.Node, one: fx.Node) -> fx.Node | None:
    """The other factor of a product, if it is a tensor."""
    a, b = product.args
    factor = b if a is one else a
    return factor if isinstance(factor, fx.Node) and factor is not one else None


def _dtype(node: fx.Node) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)


def _is_f32(node: fx.Node) -> bool:
    return _dtype(node) is torch.float32


def _shape(node: fx.Node) -> tuple[str, ...]:
    """Sizes as text, so that symbols compare."""
    value = node.meta.get("val")
    return tuple(map(str, value.shape)) if isinstance(value, torch.Tensor) else ("?",)
