"""Patterns of quantizable operators: the operator, the kinds of its operands, fused followers.

PATTERNS is a table; custom quantizers may use its rows or rows of their own. A match is an operator
with the batch norm (in training) and the activation function that are fused with it: values between
them are not quantized.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.match import argument
from executorch_py.quantizer.annotate import (
    data_of,
    is_float,
    is_too_large,
    mark,
    only_user,
    quantize_input,
    quantize_output,
)
from executorch_py.quantizer.spec import QuantizationConfig, along_axis

aten = torch.ops.aten
NodeFilter = Callable[[fx.Node], bool]


class Operand(Enum):
    """Kinds of operands."""

    ACTIVATION = 1
    WEIGHT = 2
    BIAS = 3


@dataclass(frozen=True)
class Pattern:
    """One row of the table.

    name: for messages and for selecting rows. targets: the operators. operands: the kind of each
    positional argument. weight_axis: the output channel axis of the weight. activations: whether a
    clamp of the result is fused. batch_norms: whether a batch norm is fused in training.
    is_dynamic: whether the activation may get its scale at run time.
    """

    name: str
    targets: frozenset[Any]
    operands: tuple[Operand, ...]
    weight_axis: int = 0
    activations: bool = True
    batch_norms: bool = False
    is_dynamic: bool = False

    @property
    def op_overloads(self) -> frozenset[Any]:
        """The operators, by upstream's name."""
        return self.targets

    @property
    def is_qat(self) -> bool:
        """Whether training concerns the pattern, by upstream's name."""
        return self.batch_norms


@dataclass(frozen=True)
class Match:
    """Nodes of a graph that match a pattern."""

    pattern: Pattern
    anchor: fx.Node
    batch_norm: fx.Node | None = None
    activation: fx.Node | None = None

    @property
    def result(self) -> fx.Node:
        """The node whose result is the result of the match."""
        return self.activation or self.batch_norm or self.anchor

    @property
    def nodes(self) -> list[fx.Node]:
        every = (self.anchor, self.batch_norm, self.activation)
        return [n for n in every if n is not None]

    def operand(self, kind: Operand) -> fx.Node | None:
        """The first operand of a kind, if it is a node."""
        return next((n for k, n in self.operands() if k is kind), None)

    def operands(self) -> Iterator[tuple[Operand, fx.Node]]:
        """The operands that are nodes, with their kinds."""
        for kind, value in zip(self.pattern.operands, self.anchor.args, strict=False):
            if isinstance(value, fx.Node):
                yield kind, value


_IN, _W, _B = Operand.ACTIVATION, Operand.WEIGHT, Operand.BIAS
_WEIGHTED = {"operands": (_IN, _W, _B), "is_dynamic": True}

LIMITS = frozenset(
    {
        aten.clamp.default,
        aten.hardtanh.default,
        aten.hardtanh_.default,
        aten.relu.default,
        aten.relu_.default,
        aten.relu6.default,
        aten.relu6_.default,
    }
)
TRANSPOSED = frozenset(
    {aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input}
)

PATTERNS: tuple[Pattern, ...] = (
    Pattern("linear", frozenset({aten.linear.default}), **_WEIGHTED),  # type: ignore[arg-type]
    Pattern("mm", frozenset({aten.mm.default}), (_IN, _W), weight_axis=1, is_dynamic=True),
    Pattern(
        "addmm", frozenset({aten.addmm.default}), (_B, _IN, _W), weight_axis=1, is_dynamic=True
    ),
    Pattern(
        "conv",
        frozenset(
            {
                aten.conv1d.default,
                aten.conv1d.padding,
                aten.conv2d.default,
                aten.conv2d.padding,
                aten.convolution.default,
            }
        ),
        batch_norms=True,
        **_WEIGHTED,  # type: ignore[arg-type]
    ),
    Pattern(
        "conv_transpose",
        frozenset({aten.conv_transpose1d.default, aten.conv_transpose2d.input}),
        weight_axis=1,
        batch_norms=True,
        **_WEIGHTED,  # type: ignore[arg-type]
    ),
    Pattern(
        "mean",
        frozenset({aten.adaptive_avg_pool2d.default, aten.mean.dim}),
        (_IN,),
        activations=False,
    ),
    Pattern("add", frozenset({aten.add.Tensor, aten.add_.Tensor}), (_IN, _IN)),
    Pattern("sub", frozenset({aten.sub.Tensor, aten.sub_.Tensor}), (_IN, _IN)),
    Pattern("mul", frozenset({aten.mul.Tensor, aten.mul_.Tensor}), (_IN, _IN)),
)
CAT = frozenset({aten.cat.default})

# Operators that move or clamp elements: the result has the scale of the operand.
SHARING = frozenset(
    {
        *LIMITS,
        aten.alias.default,
        aten.clone.default,
        aten.constant_pad_nd.default,
        aten.contiguous.default,
        aten.detach.default,
        aten.dropout.default,
        aten.dropout_.default,
        aten.expand.default,
        aten.flatten.using_ints,
        aten.max_pool2d.default,
        aten.pad.default,
        aten.permute.default,
        aten.permute_copy.default,
        aten.reshape.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.slice_copy.Tensor,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.squeeze_copy.dim,
        aten.transpose.int,
        aten.unflatten.int,
        aten.unsqueeze.default,
        aten.unsqueeze_copy.default,
        aten.view.default,
        aten.view_copy.default,
    }
)


def annotate_match(match: Match, config: QuantizationConfig) -> None:
    """Annotate the operands and the result of a match; values between its nodes stay float."""
    specs = {
        Operand.ACTIVATION: config.input_activation,
        Operand.WEIGHT: along_axis(config.weight, match.pattern.weight_axis),
        Operand.BIAS: config.bias,
    }
    for kind, node in match.operands():
        quantize_input(match.anchor, node, specs[kind])
        if kind is not Operand.ACTIVATION:
            mark(node)
    mark(*match.nodes)
    quantize_output(match.result, config.output_activation)


def find(
    model: fx.GraphModule,
    pattern: Pattern,
    is_qat: bool = False,
    data: Collection[fx.Node] | None = None,
) -> Iterator[Match]:
    """The matches of a pattern in graph order: activations are all float32, and the anchor depends
    on the model's inputs.

    data: what `data_of` gives for the graph, for callers that look for several patterns.
    """
    data = data_of(model) if data is None else data
    for node in model.graph.nodes:
        if node.target not in pattern.targets or node not in data:
            continue
        match = _around(node, pattern, is_qat)
        operands = [n for kind, n in match.operands() if kind is Operand.ACTIVATION]
        if operands and all(is_float(n) and not is_too_large(n, model) for n in operands):
            yield match


def can_fold_batch_norm(norm: fx.Node, conv: fx.Node) -> bool:
    """Whether a node is a batch norm that can be folded into the convolution before it.

    The norm must be the only reader of the convolution and have affine parameters and statistics.
    Weights of grouped transposed convolutions are excluded: their slices are not output channels.
    """
    if norm.target is not aten.batch_norm.default or list(conv.users) != [norm]:
        return False
    convolves = any(p.batch_norms and conv.target in p.targets for p in PATTERNS)
    learnt = all(isinstance(arg, fx.Node) for arg in norm.args[1:5])
    in_groups = conv.target in TRANSPOSED and argument(conv, "groups") != 1
    return convolves and learnt and not in_groups


def _around(node: fx.Node, pattern: Pattern, is_qat: bool) -> Match:
    norm, activation = None, None
    last, after = node, only_user(node)
    if is_qat and pattern.batch_norms and after is not None and can_fold_batch_norm(after, node):
        norm = last = after
        after = only_user(last)
    if pattern.activations and after is not None and after.target in LIMITS:
        activation = after
    return Match(pattern, node, norm, activation)


__all__ = [
    "CAT",
    "LIMITS",
    "PATTERNS",
    "SHARING",
    "TRANSPOSED",
    "Match",
    "NodeFilter",
    "Operand",
    "Pattern",
    "annotate_match",
    "can_fold_batch_norm",
    "find",
]
