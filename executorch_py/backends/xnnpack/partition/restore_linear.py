"""Linear layers that were decomposed before partitioning become aten.linear again.

    view_copy → mm or addmm with permute_copy(weight) → view_copy
    unsqueeze_copy → mm with permute_copy(weight) → squeeze_copy → add

Programs of to_edge have these forms; to_edge_transform_and_lower keeps linear layers whole. As
single nodes, a product reads no integers behind a transposition or a reshape, and a reshape with
two sizes found at run time divides delegates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.dialects.verifier import accepting
from executorch_py.exir.ir.fake_values import fake_evaluation
from executorch_py.exir.ir.graph import erase_dead_nodes
from executorch_py.exir.ir.match import argument, is_call, only_user
from executorch_py.exir.ir.op_traits import op_key

_LINEAR = torch.ops.aten.linear.default
ORIGIN = "decomposed_linear"  # in the meta of a restored layer: the key of its product's operator
_RESHAPES = (
    "aten::view_copy",
    "aten::_unsafe_view",
    "aten::unsqueeze_copy",
    "aten::squeeze_copy.dim",
    "aten::squeeze_copy.dims",
)
_CLONES = ("aten::clone", "dim_order_ops::_clone_dim_order")
_TRANSPOSES = ("aten::permute_copy", "aten::t_copy", "aten::transpose_copy.int")
_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "debug_handle", "custom")


@dataclass(frozen=True)
class Decomposed:
    """The parts of a linear layer: the layer would read `x` and stand for `result`."""

    product: fx.Node
    x: fx.Node
    weight: fx.Node  # before its transposition
    bias: fx.Node | None
    result: fx.Node
    reshapes: tuple[fx.Node, ...]


def restore(
    program: ExportedProgram,
    concerns: Callable[[Decomposed], bool],
    accepts: Callable[[fx.Node, fx.Node], bool],
) -> dict[str, str]:
    """Restore layers in place; return the name of each one's product, by the layer's name.

    concerns: whether to try a layer. accepts: whether to restore it, from its product and the new
    node; it is asked when all new nodes are in the graph.
    """
    graph = program.graph_module.graph
    made: list[tuple[Decomposed, fx.Node]] = []
    for node in list(graph.nodes):  # the parts are read late: `x` may be a layer just restored
        layer = _match(node) if is_call(node, "aten::mm", "aten::addmm") else None
        if layer is not None and concerns(layer):
            made.append((layer, _insert(graph, layer)))
    kept = [accepts(layer.product, linear) for layer, linear in made]
    for (layer, linear), is_kept in zip(made, kept, strict=True):
        if not is_kept:
            linear.replace_all_uses_with(layer.result)
            graph.erase_node(linear)
    erase_dead_nodes(graph)
    if any(kept):
        program._verifiers = [accepting(v, [_LINEAR]) for v in program.verifiers]
    return {
        linear.name: layer.product.name
        for (layer, linear), is_kept in zip(made, kept, strict=True)
        if is_kept
    }


# ---- reading


def _match(product: fx.Node) -> Decomposed | None:
    is_addmm = is_call(product, "aten::addmm")
    mat1 = argument(product, "mat1" if is_addmm else "self")
    mat2 = argument(product, "mat2")
    if not isinstance(mat1, fx.Node) or not is_call(mat2, *_TRANSPOSES):
        return None
    if is_addmm and (argument(product, "alpha"), argument(product, "beta")) != (1, 1):
        return None
    bias = argument(product, "self") if is_addmm else None
    if bias is not None and not _is_bias(bias, product):
        return None
    weight = mat2.args[0]
    if not isinstance(weight, fx.Node):
        return None
    x, result, reshapes = mat1, product, tuple[fx.Node, ...]()
    after = only_user(product)
    if is_call(mat1, *_RESHAPES) and after is not None and is_call(after, *_RESHAPES):
        source = mat1.args[0]
        if isinstance(source, fx.Node) and _has_rows_of(source, mat1, after, product):
            x, result, reshapes = _before_clone(source), after, (mat1, after)
    if bias is None and x.meta["val"].dim() == 1:
        bias, result = _added_bias(result, product)
    return Decomposed(product, x, weight, bias, result, reshapes)


def _before_clone(x: fx.Node) -> fx.Node:
    """The operand of a clone that changes no layout; it made a transposed view contiguous."""
    source = x.args[0] if is_call(x, *_CLONES) else None
    if not isinstance(source, fx.Node):
        return x
    before, after = source.meta["val"], x.meta["val"]
    same = list(map(str, before.stride())) == list(map(str, after.stride()))
    return source if same and before.dtype is after.dtype else x


def _has_rows_of(x: fx.Node, matrix: fx.Node, result: fx.Node, product: fx.Node) -> bool:
    """Whether reshapes only join the leading dimensions of x, and divide them again behind.

    Sizes are equal as text. One that is found at run time may be written in another way, such as
    n**2 // n, since the reshapes keep the number of elements.
    """
    before, after = x.meta["val"].shape, result.meta["val"].shape
    joined, multiplied = matrix.meta["val"].shape, product.meta["val"].shape
    if not before or len(before) != len(after) or len(joined) != 2:
        return False
    if str(before[-1]) != str(joined[-1]) or str(after[-1]) != str(multiplied[-1]):
        return False
    rows = zip(before[:-1], after[:-1], strict=True)
    other = [(n, m) for n, m in rows if str(n) != str(m)]
    return len(other) < 2 and not any(isinstance(n, int) and isinstance(m, int) for n, m in other)


def _is_bias(node: object, product: fx.Node) -> bool:
    if not isinstance(node, fx.Node):
        return False
    example = node.meta.get("val")
    columns = product.meta["val"].shape[-1:]
    return isinstance(example, torch.Tensor) and tuple(example.shape) == tuple(columns)


def _added_bias(result: fx.Node, product: fx.Node) -> tuple[fx.Node | None, fx.Node]:
    """The bias that is added to a row, and the sum; no bias and the row itself if none is."""
    added = only_user(result)
    if added is None or not is_call(added, "aten::add.Tensor") or argument(added, "alpha") != 1:
        return None, result
    others = [arg for arg in added.args[:2] if arg is not result]
    if len(others) != 1 or not _is_bias(others[0], product):
        return None, result
    assert isinstance(others[0], fx.Node)
    is_parameter = others[0].op == "placeholder"
    return (others[0], added) if is_parameter else (None, result)


# ---- writing


def _insert(graph: fx.Graph, layer: Decomposed) -> fx.Node:
    with graph.inserting_after(layer.result):
        linear = graph.call_function(edge_op(_LINEAR), (layer.x, layer.weight, layer.bias))
    linear.meta = {key: layer.product.meta[key] for key in _META if key in layer.product.meta}
    linear.meta["val"] = _example(layer)
    linear.meta[ORIGIN] = op_key(layer.product.target)
    layer.result.replace_all_uses_with(linear)
    return linear


def _example(layer: Decomposed) -> torch.Tensor:
    """The example of the result, whose sizes are those of `x`."""
    x, result = layer.x.meta["val"], layer.result.meta["val"]
    shape = (*x.shape[:-1], result.shape[-1])
    if list(map(str, shape)) == list(map(str, result.shape)):
        example: torch.Tensor = result
        return example
    with fake_evaluation(x.fake_mode):
        return torch.empty(shape, dtype=result.dtype)
