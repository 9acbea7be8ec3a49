"""Folds trained batch norms into the convolution or linear layer before them.

`(conv(x) - mean) * factor + beta` with `factor = gamma / sqrt(variance + eps)` is a convolution
with weights times factor, whose bias is `(bias - mean) * factor + beta`. Other readers of the same
weights or result keep the original. torchao folds by layer and gives wrong numbers where one layer
has several norms or readers.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch
from torch import fx, nn

from executorch_py.exir.ir.match import argument
from executorch_py.quantizer.patterns import TRANSPOSED

aten = torch.ops.aten
_NORM, _DECOMPOSED = aten.batch_norm.default, aten._native_batch_norm_legit_no_training.default
_FOLDED_INTO = TRANSPOSED | {
    aten.conv1d.default,
    aten.conv2d.default,
    aten.conv3d.default,
    aten.convolution.default,
    aten.conv1d.padding,
    aten.conv2d.padding,
    aten.conv3d.padding,
    aten.linear.default,
}
_NUMBERS = ("weight", "bias", "running_mean", "running_var")


def fold_all(model: fx.GraphModule) -> None:
    """Fold each batch norm that alone reads the result of a layer, in place.

    Folding uses the running statistics, also for a norm in training mode.
    """
    made: dict[tuple[Any, ...], tuple[fx.Node, fx.Node]] = {}
    kept: set[fx.Node] = set()  # folded constants, which later norms do not overwrite
    changed = False
    for norm in list(model.graph.nodes):
        if norm.target not in (_NORM, _DECOMPOSED) or not _can_fold(norm):
            continue
        layer: Any = norm.args[0]
        weight, bias = layer.args[1], argument(layer, "bias")
        numbers = [getattr(argument(norm, name), "target", None) for name in _NUMBERS]
        key = (layer.target, weight, bias, *numbers, argument(norm, "eps"))
        pair = made.get(key)
        if pair is None:
            pair = fold(model, norm, layer, weight, bias, keep=kept)
            if pair[0] is not weight:  # a new constant; otherwise only this layer reads the weight
                made[key] = pair
                kept.update(pair)
        layer.args = (layer.args[0], *pair, *layer.args[3:])
        layer.kwargs = {name: arg for name, arg in layer.kwargs.items() if name != "bias"}
        for reader in [norm] if norm.target is _NORM else list(norm.users):
            reader.replace_all_uses_with(layer)
            model.graph.erase_node(reader)
        if norm.target is not _NORM:
            model.graph.erase_node(norm)
        changed = True
    if changed:
        model.graph.eliminate_dead_code()
        model.recompile()


def _can_fold(norm: fx.Node) -> bool:
    layer: Any = norm.args[0]
    if layer.target not in _FOLDED_INTO or len(layer.args) < 2:
        return False
    if list(layer.users) != [norm] or not all(_is_constant(arg) for arg in _parts(norm, layer)):
        return False
    if norm.target is not _NORM and any(
        n.target is not operator.getitem or n.args[1] != 0 for n in norm.users
    ):
        return False
    ranks = {n.meta["val"].dim() for n in (layer, layer.args[1]) if "val" in n.meta}
    return len(ranks) < 2  # otherwise the norm's channels are another dimension


def _parts(norm: fx.Node, layer: fx.Node) -> list[Any]:
    """The operands that have to be constants for folding."""
    optional = [argument(norm, "weight"), argument(norm, "bias"), argument(layer, "bias")]
    needed = [layer.args[1], argument(norm, "running_mean"), argument(norm, "running_var")]
    return [*needed, *(arg for arg in optional if arg is not None)]


def _is_constant(arg: Any) -> bool:
    return isinstance(arg, fx.Node) and arg.op == "get_attr"


def _is_transposed(layer: fx.Node) -> bool:
    if layer.target is aten.convolution.default:
        return bool(argument(layer, "transposed"))
    return layer.target in TRANSPOSED


def fold(
    model: fx.GraphModule,
    norm: fx.Node,
    layer: fx.Node,
    weight: fx.Node,
    bias: fx.Node | None,
    keep: Collection[fx.Node] = (),
) -> tuple[fx.Node, fx.Node]:
    """Constants for a layer's weight and bias with a batch norm folded in.

    Constants that other nodes read stay unchanged, as do those in `keep`. The weights of transposed
    convolutions are [inputs, outputs per group, …] with the inputs of each group in a row; those of
    other layers are [outputs, …].
    """
    gamma, beta, mean, variance = (
        None if argument(norm, name) is None else _constant(model, argument(norm, name))
        for name in _NUMBERS
    )
    assert mean is not None and variance is not None, "batch norms in evaluation have statistics"
    factor = (1 if gamma is None else gamma) / torch.sqrt(variance + argument(norm, "eps"))
    held = _constant(model, weight)
    ones = [1] * (held.dim() - 2)
    if _is_transposed(layer):
        groups = argument(layer, "groups")
        by_group = held.reshape(groups, -1, *held.shape[1:])
        scaled = (by_group * factor.reshape(groups, 1, -1, *ones)).reshape(held.shape)
    else:
        scaled = held * factor.reshape(-1, 1, *ones)
    before = torch.zeros_like(mean) if bias is None else _constant(model, bias)
    shift = (before - mean) * factor + (0 if beta is None else beta)
    bias_name = f"{weight.target}_bias" if bias is None else str(bias.target)
    return (
        _put(model, weight, layer, str(weight.target), scaled.to(held.dtype), keep),
        _put(model, bias, layer, bias_name, shift.to(held.dtype), keep),
    )


def _constant(model: fx.GraphModule, node: Any) -> torch.Tensor:
    found: Any = model
    for part in node.target.split("."):
        found = getattr(found, part)
    tensor: torch.Tensor = found.detach()
    return tensor


def _put(
    model: fx.GraphModule,
    old: fx.Node | None,
    layer: fx.Node,
    name: str,
    value: torch.Tensor,
    keep: Collection[fx.Node],
) -> fx.Node:
    """A constant that replaces another: under the same name, unless the other has to stay."""
    is_free = old is not None and old not in keep and list(old.users) == [layer]
    if old is not None and is_free and _is_named_once(model, name):
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(value))
        return old
    name = name.replace(".", "_") + "_with_norm"
    while hasattr(model, name):
        name += "_"
    model.register_buffer(name, value)
    with model.graph.inserting_before(layer if old is None else old):
        made = model.graph.get_attr(name)
    made.meta = dict(old.meta) if old is not None else {}
    if "val" in layer.meta:
        mode = layer.meta["val"].fake_mode
        made.meta["val"] = mode.from_tensor(value, static_shapes=True)
    return made


def _is_named_once(model: fx.GraphModule, name: str) -> bool:
    return [n.target for n in model.graph.find_nodes(op="get_attr")].count(name) == 1


__all__ = ["fold", "fold_all"]
