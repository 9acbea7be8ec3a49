"""Batch norms that have learnt, as part of the convolutions before them.

`(conv(x) - mean) * factor + beta` with `factor = gamma / sqrt(variance + eps)` is the convolution
by weights times factor, whose bias is `(bias - mean) * factor + beta`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.match import argument
from executorch_py.quantizer.patterns import TRANSPOSED


def fold(
    model: fx.GraphModule, norm: fx.Node, conv: fx.Node, weight: fx.Node, bias: fx.Node | None
) -> tuple[fx.Node, fx.Node]:
    """New constants of a convolution's weight and bias with a norm in them; what was there stays.

    The weights of transposed convolutions are [inputs, results of a group, …], the inputs of each
    group after each other, those of others [results, …].
    """
    gamma, beta, mean, variance = (
        constant(model, arg) if isinstance(arg, fx.Node) else None for arg in norm.args[1:5]
    )
    assert mean is not None and variance is not None, "a norm in evaluation has statistics"
    factor = (1 if gamma is None else gamma) / torch.sqrt(variance + norm.args[7])
    held = constant(model, weight)
    ones = [1] * (held.dim() - 2)
    if conv.target in TRANSPOSED:
        groups = argument(conv, "groups")
        by_group = held.reshape(groups, -1, *held.shape[1:])
        scaled = (by_group * factor.reshape(groups, 1, -1, *ones)).reshape(held.shape)
    else:
        scaled = held * factor.reshape(-1, 1, *ones)
    before = torch.zeros_like(mean) if bias is None else constant(model, bias)
    shift = (before - mean) * factor + (0 if beta is None else beta)
    return (
        _constant_beside(model, weight, conv, scaled, "weight"),
        _constant_beside(model, bias, conv, shift, "bias"),
    )


def constant(model: fx.GraphModule, node: Any) -> torch.Tensor:
    found: Any = model
    for part in node.target.split("."):
        found = getattr(found, part)
    tensor: torch.Tensor = found.detach()
    return tensor


def _constant_beside(
    model: fx.GraphModule, like: fx.Node | None, conv: fx.Node, value: torch.Tensor, kind: str
) -> fx.Node:
    """A constant of the model beside that which it comes from, whose other readers keep it."""
    stem = str(like.target) if like is not None else f"{conv.name}_{kind}"
    name = stem.replace(".", "_") + "_with_norm"
    while hasattr(model, name):
        name += "_"
    model.register_buffer(name, value)
    with model.graph.inserting_before(conv if like is None else like):
        made = model.graph.get_attr(name)
    made.meta = dict(like.meta) if like is not None else {}
    return made


__all__ = ["constant", "fold"]
