"""Preparing for calibration: torchao's, after what it stumbles over has been taken out of its way.

It folds batch norms into what they follow, but for transposed convolutions of groups, at which it
stops: those are folded here. What is no exported model, or prepared already, is told.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e import quantize_pt2e as torchao_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.quantization.pt2e.utils import _fuse_conv_bn_

from executorch_py.exir.ir.match import argument
from executorch_py.quantizer import norms
from executorch_py.quantizer.observers import count_places, has_observers, names_of, node_name
from executorch_py.quantizer.patterns import TRANSPOSED
from executorch_py.quantizer.validate import AnnotationWarning

aten = torch.ops.aten


def prepare_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """An exported model with observers where the quantizer says, to be calibrated.

    model: `torch.export.export(model.eval(), inputs).module()`; norms become part of its weights.
    """
    if not isinstance(model, fx.GraphModule):
        raise TypeError(
            f"model is a {type(model).__name__}: needs torch.export.export(model, inputs).module()"
        )
    if has_observers(model):
        raise ValueError("the model has observers already: prepare what was exported, once")
    training = {n.name: node_name(n) for n in model.graph.nodes if _is_norm_in_training(n)}
    _fold_norms_of_groups(model)
    with warnings.catch_warnings(record=True) as found:
        made: fx.GraphModule = torchao_pt2e.prepare_pt2e(model, quantizer)
    count_places(made)
    left = {n.name for n in made.graph.nodes}
    folded = [name for norm, name in training.items() if norm not in left]
    if folded:
        warnings.warn(
            f"the model was exported in training mode: {names_of(folded)} became part of weights "
            "by what they learnt before, which is what model.eval() does; export that",
            AnnotationWarning,
            stacklevel=2,
        )
    for warning in found:  # of what the caller has set, so they point at the caller's line
        warnings.warn(warning.message, warning.category, stacklevel=2)
    return made


def _is_norm_in_training(node: fx.Node) -> bool:
    return node.target is aten.batch_norm.default and bool(argument(node, "training"))


def fold_norms(model: fx.GraphModule) -> None:
    """Batch norms become part of what they follow, in place, as `prepare_pt2e` has it."""
    _fold_norms_of_groups(model)
    _fuse_conv_bn_(model)


def _fold_norms_of_groups(model: fx.GraphModule) -> None:
    changed = False
    for norm in list(model.graph.nodes):
        if norm.target is not aten.batch_norm.default:
            continue
        conv: Any = norm.args[0]
        if conv.target not in TRANSPOSED or list(conv.users) != [norm]:
            continue
        if argument(conv, "groups") != 1 and conv.args[1].op == "get_attr":
            _fold(model, conv, norm)
            changed = True
    if changed:
        model.graph.eliminate_dead_code()
        model.recompile()


def _fold(model: fx.GraphModule, conv: fx.Node, norm: fx.Node) -> None:
    arguments: list[Any] = list(conv.args)
    weight, bias = norms.fold(model, norm, conv, arguments[1], argument(conv, "bias"))
    example = norms.constant(model, bias)
    bias.meta["val"] = conv.meta["val"].fake_mode.from_tensor(example, static_shapes=True)
    arguments[1:3] = [weight, bias]
    conv.args = tuple(arguments)
    norm.replace_all_uses_with(conv)


__all__ = ["fold_norms", "prepare_pt2e"]
