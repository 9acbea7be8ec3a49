"""Rewrites before partitioning that remove obstacles between delegated nodes.

Constants are folded. Bool masks of attention become float masks, once for all layers. Strided
slices become parts of a reshape. Sizes are read from float operands instead of from token ids. A
rewritten node that is not delegated must be as cheap as the original one. The selection of nodes
comes later.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.backends.xnnpack.support.node_facts import FLOATS
from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.ir.constants import add_constants
from executorch_py.exir.ir.fake_values import fake_evaluation, fake_mode_of
from executorch_py.exir.ir.graph import constant_tensors, erase_dead_nodes
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.signature import name_outputs
from executorch_py.exir.passes.simplify.fold_constants import FoldConstants

ATTENTION = "aten::scaled_dot_product_attention"
# -inf marks keys that a query does not see; ops/attention.py makes it finite.
_MASKED = -math.inf
_aten = torch.ops.aten


def prepare(ep: ExportedProgram) -> None:
    """Rewrite in place."""
    FoldConstants().run(ep)
    _float_masks(ep)
    for node in list(ep.graph.nodes):
        if is_call(node, "aten::slice_copy.Tensor"):
            _strided_slice_to_reshape(ep.graph_module, node)
        elif is_call(node, "aten::as_strided_copy"):
            _as_strided_to_reshape(ep.graph_module, node)
    _sizes_of_float_operands(ep.graph_module)
    erase_dead_nodes(ep.graph)
    name_outputs(ep)
    ep.graph_module.recompile()


def is_mask_of_bools(node: Any) -> bool:
    """Whether an attention mask holds bools (True: the key is seen), not numbers to be added."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype is torch.bool


# ---- masks


def _float_masks(ep: ExportedProgram) -> None:
    """Replace bool masks by where(mask, 0, -inf), once per mask and element type."""
    known = constant_tensors(ep)
    made: dict[tuple[fx.Node, torch.dtype], fx.Node] = {}
    for node in list(ep.graph.nodes):
        if not is_call(node, ATTENTION):
            continue
        mask = argument(node, "attn_mask")
        if not is_mask_of_bools(mask) or mask.name in known:
            continue
        key = (mask, node.meta["val"].dtype)
        if key not in made:
            made[key] = _float_mask(ep, *key)
        node.replace_input_with(mask, made[key])


def _float_mask(ep: ExportedProgram, mask: fx.Node, dtype: torch.dtype) -> fx.Node:
    mode = fake_mode_of(ep.graph_module)
    assert mode is not None
    numbers = [torch.tensor(number, dtype=dtype) for number in (0.0, _MASKED)]
    examples = [mode.from_tensor(number, static_shapes=True) for number in numbers]
    constants: list[tuple[str, torch.Tensor, object, dict[str, object]]] = [
        (name, number, example, {})
        for name, number, example in zip(("_seen", "_masked"), numbers, examples, strict=True)
    ]
    zero, low = add_constants(ep, constants)
    return _call_after(ep.graph_module, mask, _aten.where.self, (mask, zero, low), mask)


# ---- slices


def _strided_slice_to_reshape(gm: fx.GraphModule, node: fx.Node) -> None:
    """Rewrite x[start::step] as one part of a reshape to [size / step, step], if step divides."""
    source, step = node.args[0], argument(node, "step")
    assert isinstance(source, fx.Node)
    example = source.meta["val"]
    dim = argument(node, "dim") % example.dim()
    size, start = example.shape[dim], argument(node, "start") or 0
    end = argument(node, "end")
    whole = end is None or (isinstance(end, int) and isinstance(size, int) and end >= size)
    known = all(isinstance(n, int) for n in (size, start, step)) and example.is_contiguous()
    if not known or step == 1 or size % step or not 0 <= start < step or not whole:
        return
    if example.dim() > 5 or any(not isinstance(n, int) for n in example.shape):
        return
    shape = [*example.shape[:dim], size // step, step, *example.shape[dim + 1 :]]
    parts = _call_after(gm, source, _aten.view_copy.default, (source, shape), node)
    picked = _call_after(gm, parts, _aten.select_copy.int, (parts, dim + 1, start), node)
    node.replace_all_uses_with(picked)


def _as_strided_to_reshape(gm: fx.GraphModule, node: fx.Node) -> None:
    """Rewrite as_strided of a whole contiguous tensor, which pooling to one pixel leaves."""
    source, size, stride = node.args[0], argument(node, "size"), argument(node, "stride")
    assert isinstance(source, fx.Node)
    example = source.meta["val"]
    known = all(isinstance(n, int) for n in (*example.shape, *size, *stride))
    if not known or argument(node, "storage_offset") or not example.is_contiguous():
        return
    expected = 1
    for length, step in zip(reversed(size), reversed(stride), strict=True):
        if length != 1 and step != expected:
            return
        expected *= length
    if expected != example.numel():
        return
    made = _call_after(gm, source, _aten.view_copy.default, (source, list(size)), node)
    node.replace_all_uses_with(made)


# ---- sizes


def _sizes_of_float_operands(gm: fx.GraphModule) -> None:
    """Read sizes from a float operand of their reader instead of from an integer tensor.

    A delegate cannot have integer tensors, such as token ids, as inputs.
    """
    made: dict[tuple[fx.Node, int], fx.Node] = {}
    for node in list(gm.graph.nodes):
        for size in [n for n in node.all_input_nodes if is_call(n, "aten::sym_size.int")]:
            source = size.args[0]
            assert isinstance(source, fx.Node)
            place = None if _has_floats(source) else _same_size(node, size.meta["val"])
            if place is None:
                continue
            if place not in made:
                with gm.graph.inserting_before(node):
                    made[place] = gm.graph.call_function(size.target, place)
                made[place].meta = dict(size.meta)
            node.replace_input_with(size, made[place])


def _has_floats(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in FLOATS


def _same_size(node: fx.Node, size: Any) -> tuple[fx.Node, int] | None:
    """The float operand and its dimension that has this size."""
    for operand in filter(_has_floats, node.all_input_nodes):
        for dim, other in enumerate(operand.meta["val"].shape):
            if not isinstance(other, int) and str(other) == str(size):
                return operand, dim
    return None


def _call_after(
    gm: fx.GraphModule, place: fx.Node, op: Any, args: tuple[Any, ...], like: fx.Node
) -> fx.Node:
    """Insert a call of an edge operator behind `place`, with its example value."""
    if place.op == "placeholder":
        place = [node for node in gm.graph.nodes if node.op == "placeholder"][-1]
    with gm.graph.inserting_after(place):
        made = gm.graph.call_function(edge_op(op), args)
    mode = fake_mode_of(gm)
    assert mode is not None
    examples = [arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in args]
    with fake_evaluation(mode):
        made.meta["val"] = op(*examples)
    for key in ("stack_trace", "nn_module_stack", "debug_handle"):
        if key in like.meta:
            made.meta[key] = like.meta[key]
    return made
