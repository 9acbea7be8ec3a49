"""The patterns that quantizers take: an operator, what each of its operands is, what follows it.

PATTERNS is a table; a quantizer of one's own may use rows of it, or rows like them. A match is an
operator with the batch norm (while training) and the activation that become part of it: between
them nothing is quantized.
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
    """What an operand is to an operator."""

    ACTIVATION = 1
    WEIGHT = 2
    BIAS = 3


@dataclass(frozen=True)
class Pattern:
    """One row: operators of a kind.

    name: for messages and for choosing. targets: the operators. operands: what each positional
    argument is. weight_axis: where the weight's channels lie. activations: whether what limits its
    result may follow within. norms: whether a batch norm may, while training. is_dynamic: whether
    its activation may get its scale at run time.
    """

    name: str
    targets: frozenset[Any]
    operands: tuple[Operand, ...]
    weight_axis: int = 0
    activations: bool = True
    norms: bool = False
    is_dynamic: bool = False


@dataclass(frozen=True)
class Match:
    """Nodes of a graph that a pattern fits."""

    pattern: Pattern
    anchor: fx.Node
    norm: fx.Node | None = None
    activation: fx.Node | None = None

    @property
    def result(self) -> fx.Node:
        """The node whose result the pattern gives."""
        return self.activation or self.norm or self.anchor

    @property
    def nodes(self) -> list[fx.Node]:
        return [n for n in (self.anchor, self.norm, self.activation) if n is not None]

    def operand(self, kind: Operand) -> fx.Node | None:
        """The first operand of a kind, if it is a node."""
        return next((n for k, n in self.operands() if k is kind), None)

    def operands(self) -> Iterator[tuple[Operand, fx.Node]]:
        for kind, value in zip(self.pattern.operands, self.anchor.args, strict=False):
            if isinstance(value, fx.Node):
                yield kind, value


_IN, _W, _B = Operand.ACTIVATION, Operand.WEIGHT, Operand.BIAS
_WEIGHTED = {"operands": (_IN, _W, _B), "is_dynamic": True}

LIMITS = frozenset(
    {
        *(aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default),
        *(aten.hardtanh.default, aten.hardtanh_.default, aten.clamp.default),
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
                *(aten.conv1d.default, aten.conv2d.default, aten.convolution.default),
                *(aten.conv1d.padding, aten.conv2d.padding),
            }
        ),
        norms=True,
        **_WEIGHTED,  # type: ignore[arg-type]
    ),
    Pattern(
        "conv_transpose",
        frozenset({aten.conv_transpose1d.default, aten.conv_transpose2d.input}),
        weight_axis=1,
        norms=True,
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

# Operators that move or limit what they read: their result has its scale.
SHARING = frozenset(
    {
        *LIMITS,
        *(aten.max_pool2d.default, aten.dropout.default, aten.dropout_.default),
        *(aten.permute.default, aten.permute_copy.default, aten.transpose.int),
        *(aten.view.default, aten.view_copy.default, aten.reshape.default),
        *(aten.flatten.using_ints, aten.slice.Tensor, aten.slice_copy.Tensor),
        *(aten.squeeze.dim, aten.squeeze_copy.dim, aten.squeeze.dims, aten.unsqueeze.default),
        *(aten.unsqueeze_copy.default, aten.contiguous.default, aten.select.int),
        *(aten.expand.default, aten.clone.default, aten.detach.default, aten.pad.default),
        *(aten.constant_pad_nd.default, aten.unflatten.int, aten.alias.default),
    }
)


def annotate_match(match: Match, config: QuantizationConfig) -> None:
    """Write how a match's operands and its result are quantized; nothing between its nodes is."""
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


def is_norm_of_result(norm: fx.Node, conv: fx.Node) -> bool:
    """Whether a node is a batch norm that can become part of the weights of what it follows.

    It must be all that reads the result, have learnt numbers, and one for each slice of a weight,
    which the weights of transposed convolutions of groups are not.
    """
    if norm.target is not aten.batch_norm.default or list(conv.users) != [norm]:
        return False
    convolves = any(p.norms and conv.target in p.targets for p in PATTERNS)
    learnt = all(isinstance(arg, fx.Node) for arg in norm.args[1:5])
    in_groups = conv.target in TRANSPOSED and argument(conv, "groups") != 1
    return convolves and learnt and not in_groups


def _around(node: fx.Node, pattern: Pattern, is_qat: bool) -> Match:
    norm, activation = None, None
    last, after = node, only_user(node)
    if is_qat and pattern.norms and after is not None and is_norm_of_result(after, node):
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
    "find",
    "is_norm_of_result",
]
