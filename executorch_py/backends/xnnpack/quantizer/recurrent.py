"""Unrolls recurrent layers into linear layers and cells, so that their weights are quantized.

Export keeps LSTM, GRU and RNN whole. A layer to be quantized is unrolled step by step before
annotation. Its products become ordinary linear layers. Its cells stay float, because rounding
errors would accumulate in their states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from executorch_py.backends.xnnpack.partition.unroll_recurrent import MAX_CELLS, cells_of
from executorch_py.exir.decompose.recurrent import recurrent_decompositions
from executorch_py.exir.ir.match import argument
from executorch_py.quantizer.annotate import mark

aten = torch.ops.aten
CELL = "cells of recurrent layers compute with floats, their products with integers"

_METADATA = ("nn_module_stack", "stack_trace", "source_fn_stack", "torch_fn")


def unroll_recurrent(
    model: fx.GraphModule, is_wanted: Callable[[fx.Node], bool], note: str
) -> None:
    """Unroll the wanted recurrent layers in place.

    note: key of a node's `meta` for the reason why a layer cannot be unrolled.
    """
    table = recurrent_decompositions(unrolled=True)
    layers = [n for n in model.graph.nodes if n.target in table and is_wanted(n)]
    total = sum(map(cells_of, layers))
    for layer in layers:
        why = _obstacle(layer, total)
        if why is None:
            _unroll(layer, table[layer.target], note)
        else:
            layer.meta[note] = why
    model.graph.eliminate_dead_code()
    model.recompile()


def _obstacle(layer: fx.Node, total: float) -> str | None:
    """Why a layer cannot be unrolled; `total` is the number of cells of all layers."""
    x = argument(layer, "input").meta["val"]
    if x.dtype is not torch.float32:
        return f"it reads {str(x.dtype).removeprefix('torch.')}; float32 alone is observed"
    if total > MAX_CELLS:
        found = "a number found at run time" if total == float("inf") else f"{total:.0f}"
        return (
            f"steps times layers times directions are {found}; up to {MAX_CELLS} are unrolled,"
            " more stay loops"
        )
    if argument(layer, "train") and argument(layer, "dropout"):
        return "it has dropout between its layers in training"
    return None


def _unroll(layer: fx.Node, decomposition: Callable[..., Any], note: str) -> None:
    """Replace one layer by the calls of its decomposition."""
    operands = list(layer.all_input_nodes)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = dict(zip(operands, tensors, strict=True))
        args, kwargs = fx.map_arg((layer.args, layer.kwargs), lambda n: given[n])
        results: list[torch.Tensor] = list(decomposition(*args, **kwargs))
        return results

    with torch.no_grad():
        traced = make_fx(run)(*(n.meta["val"] for n in operands))
    traced.graph.eliminate_dead_code()
    made = dict(zip(traced.graph.find_nodes(op="placeholder"), operands, strict=True))
    results: list[fx.Node] = []
    graph = layer.graph
    with graph.inserting_before(layer):
        for node in traced.graph.nodes:
            if node.op == "output":
                results = [made[n] for n in node.args[0]]
            elif node.op != "placeholder":
                made[node] = _copied(graph, node, made, layer, note)
    for reader in list(layer.users):
        reader.replace_all_uses_with(results[reader.args[1]])
        graph.erase_node(reader)
    graph.erase_node(layer)


def _copied(
    graph: fx.Graph, node: fx.Node, made: dict[fx.Node, fx.Node], layer: fx.Node, note: str
) -> fx.Node:
    """Copy a call of the decomposition; linear layers stay open to annotation, cells do not."""

    def call(target: Any, args: tuple[Any, ...], value: Any, is_cell: bool = True) -> fx.Node:
        copy = graph.call_function(target, args)
        copy.meta = {key: layer.meta[key] for key in _METADATA if key in layer.meta}
        copy.meta["val"] = value
        if is_cell:
            mark(copy)
            copy.meta[note] = CELL
        return copy

    value, product = node.meta["val"], _product(node)
    if product is None:
        args = fx.map_arg(node.args, lambda n: made[n])
        copy = call(node.target, args, value)
        copy.kwargs = node.kwargs
        return copy
    x, weight, *bias = (made[n] for n in product)
    if not _is_zero(product[0], made):
        return call(aten.linear.default, (x, weight, *bias), value, is_cell=False)
    # The product of a zero state is the bias in every row. It needs no calibration.
    column = call(aten.slice.Tensor, (x, 1, 0, 1), x.meta["val"][:, :1])
    zeros = call(aten.expand.default, (column, [-1, value.shape[1]]), value)
    return call(aten.add.Tensor, (zeros, *bias), value) if bias else zeros


def _is_zero(node: fx.Node, made: dict[fx.Node, fx.Node]) -> bool:
    """Whether a value is the initial state of zeros, of layers called without a state."""
    while node.target in (aten.select.int, aten.view.default):
        node = node.all_input_nodes[0]
    begin = made.get(node)
    return begin is not None and begin.target is aten.zeros.default


def _product(node: fx.Node) -> tuple[fx.Node, ...] | None:
    """The input, weight and bias (if any) of a product that equals a linear layer."""
    if node.target not in (aten.mm.default, aten.addmm.default):
        return None
    *bias, x, transposed = node.args
    weight = transposed.args[0] if transposed.target is aten.t.default else None
    return None if weight is None else (x, weight, *bias)


__all__ = ["CELL", "unroll_recurrent"]
