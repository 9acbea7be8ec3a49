"""FuseBatchNorm: an inference batch norm is folded into the weights of the convolution before it.

The norm must be the only reader of the convolution, and the convolution the only reader of its
weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.ir.batch_norm import NormNumbers, folded
from executorch_py.exir.ir.constants import add_constants, drop_unused_constants, inherited_meta
from executorch_py.exir.ir.graph import erase_dead_nodes, foldable_constants
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import is_getitem
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_NORM = "aten::_native_batch_norm_legit_no_training"


@dataclass(frozen=True)
class _Match:
    """A convolution, the norm after it, and the node that holds the norm's result."""

    layer: fx.Node
    norm: fx.Node
    result: fx.Node


class FuseBatchNorm(Pass):
    """Scale the weights of a convolution by the batch norm that alone reads it."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        graph = program.graph_module.graph
        constants = foldable_constants(program)
        matches = [m for n in graph.nodes if (m := _match(n, constants)) is not None]
        if not matches:
            return False
        pending: list[tuple[str, torch.Tensor, object, dict[str, object]]] = []
        for match in matches:
            weight, bias = _folded(match, constants)
            base = str(match.layer.args[1].target)
            fake = match.layer.args[1].meta["val"]
            sources = [arg for arg in match.layer.args[1:3] if isinstance(arg, fx.Node)]
            meta = inherited_meta(sources)
            pending.append((f"{base}_bn_folded", weight, fake, meta))
            fake_bias = match.norm.args[3].meta["val"].to(bias.dtype)
            pending.append((f"{base}_bn_bias", bias, fake_bias, meta))
        made = add_constants(program, pending)
        for match, new_weight, new_bias in zip(matches, made[0::2], made[1::2], strict=True):
            arguments = list(match.layer.args)
            arguments[1:3] = [new_weight, new_bias]
            match.layer.args = tuple(arguments)
            match.result.replace_all_uses_with(match.layer)
        erase_dead_nodes(graph)
        drop_unused_constants(program, set(constants))
        return True


def _match(norm: fx.Node, constants: dict[str, torch.Tensor]) -> _Match | None:
    if not is_call(norm, _NORM):
        return None
    layer: Any = argument(norm, "input")
    if not is_call(layer, "aten::convolution") or list(layer.users) != [norm]:
        return None
    if len(layer.args) < 9 or not _is_real_constant(layer.args[1], constants):
        return None
    statistics = [argument(norm, n) for n in ("running_mean", "running_var")]
    affine = [argument(norm, n) for n in ("weight", "bias")]
    optional = [a for a in (*affine, layer.args[2]) if a is not None]
    if not all(_is_real_constant(a, constants) for a in (*statistics, *optional)):
        return None
    weight: Any = layer.args[1]
    if len(weight.users) != 1:
        return None
    used = [user for user in norm.users if user.users]
    if len(used) != 1 or not is_getitem(used[0].target) or used[0].args[1] != 0:
        return None
    return _Match(layer, norm, used[0])


def _is_real_constant(node: object, constants: dict[str, torch.Tensor]) -> bool:
    if not isinstance(node, fx.Node) or node.name not in constants:
        return False
    value = constants[node.name]
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.is_floating_point()


def _folded(match: _Match, constants: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    def value(node: Any) -> Any:
        return None if node is None else constants[node.name]

    layer: Any = match.layer
    norm = match.norm
    return folded(
        value(layer.args[1]),
        value(layer.args[2]),
        NormNumbers(
            mean=value(argument(norm, "running_mean")),
            variance=value(argument(norm, "running_var")),
            eps=argument(norm, "eps"),
            gamma=value(argument(norm, "weight")),
            beta=value(argument(norm, "bias")),
        ),
        transposed=bool(layer.args[6]),
        groups=int(layer.args[8]),
    )
