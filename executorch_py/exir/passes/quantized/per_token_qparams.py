"""PerTokenQparams: torchao's dynamic quantization is done by operators that have kernels.

    choose_qparams_affine → quantize_affine → dequantize_affine

becomes choose_qparams_per_token_asymmetric, quantize_per_token and dequantize_per_token where each
row has a scale. A scale that serves all rows becomes choose_qparams.tensor with the tensor
overloads of quantize_per_tensor. Patterns in delegates are gone by then. A zero point may be
rounded to the other side, and symmetric scales get zero points, which makes them finer. Results
differ by one int8 step at most, except in rows within 3e-5 of zero: these operators choose no scale
below 2**-23. 8-bit weights with a scale for each row become dequantize_per_channel, which
LowerToIntegerOps knows.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects.quantized_ops import register_quantized_ops
from executorch_py.exir.ir.constants import add_constants, drop_unused_constants
from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation, fake_mode_of, rewrite_calls
from executorch_py.exir.ir.graph import constant_tensors, erase_dead_nodes, foldable_constants
from executorch_py.exir.ir.match import argument, is_call
from executorch_py.exir.ir.op_traits import is_getitem
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts

_LIMITS = (-128, 127)
_MIN_SCALE = 2.0**-23


class PerTokenQparams(Pass):
    """Quantize activations by row, or as a whole, with operators that have kernels."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        if not any(is_call(node, "torchao::quantize_affine") for node in program.graph.nodes):
            return False
        register_quantized_ops()
        return rewrite_calls(program, _rewrite)


class PerChannelWeights(Pass):
    """Turn dequantize_affine of 8-bit weights by row into dequantize_per_channel."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        return _scale_rows_of_weights(program)


def _scale_rows_of_weights(ep: ExportedProgram) -> bool:
    constants, mode = constant_tensors(ep), fake_mode_of(ep.graph_module)
    if mode is None:
        return False

    def rewrite(node: fx.Node) -> bool:
        if not is_call(node, "torchao::dequantize_affine") or not _is_matrix(node, constants):
            return False
        limits = (argument(node, "quant_min"), argument(node, "quant_max"))
        values, scales = constants[node.args[0].name], argument(node, "scale")
        if limits != _LIMITS or list(argument(node, "block_size")) != [1, values.shape[1]]:
            return False
        zeros = argument(node, "zero_point")
        if zeros is not None and (zeros.name not in constants or constants[zeros.name].any()):
            return False
        vector = constants[scales.name].detach().to(torch.float32).reshape(-1)
        example = mode.from_tensor(vector, static_shapes=True)
        (made,) = add_constants(ep, [(f"{scales.name}_rows", vector, example, {})])
        target = torch.ops.quantized_decomposed.dequantize_per_channel.default
        with node.graph.inserting_before(node), fake_evaluation(mode):
            wide = _call(node, target, node.args[0], made, None, 0, *_LIMITS, torch.int8)
        node.replace_all_uses_with(wide)
        return True

    changed = any([rewrite(node) for node in list(ep.graph.nodes)])
    if changed:
        erase_dead_nodes(ep.graph_module.graph)
        drop_unused_constants(ep, set(foldable_constants(ep)))
    return changed


def _is_matrix(node: fx.Node, constants: dict[str, torch.Tensor]) -> bool:
    names = [a.name for a in (node.args[0], argument(node, "scale")) if isinstance(a, fx.Node)]
    if len(names) < 2 or any(name not in constants for name in names):
        return False
    values = constants[names[0]]
    is_float = node.meta["val"].dtype is torch.float32
    return values.dim() == 2 and values.dtype is torch.int8 and is_float


def _rewrite(node: fx.Node) -> bool:
    if not is_call(node, "torchao::quantize_affine"):
        return False
    chosen = _chosen(node)
    back = list(node.users)
    if chosen is None or not all(_undoes(user, node) for user in back):
        return False
    x, block = chosen.args[0], list(argument(node, "block_size"))
    sizes = list(x.meta["val"].shape)
    by_row = block == [*([1] * (len(sizes) - 1)), sizes[-1]]
    if not by_row and block != sizes:
        return False
    library = torch.ops.quantized_decomposed
    last: tuple[Any, ...] = ()
    with node.graph.inserting_before(node):
        if by_row:
            found = _call(node, library.choose_qparams_per_token_asymmetric.default, x, torch.int8)
            quantize, dequantize = library.quantize_per_token, library.dequantize_per_token
            quantize, dequantize, last = quantize.default, dequantize.default, (torch.float32,)
        else:
            arguments = (x, *_LIMITS, _MIN_SCALE, torch.int8)
            found = _call(node, library.choose_qparams.tensor, *arguments)
            quantize, dequantize = library.quantize_per_tensor, library.dequantize_per_tensor
            quantize, dequantize = quantize.tensor, dequantize.tensor
        numbers = [_call(node, operator.getitem, found, i) for i in (0, 1)]
        numbers += [*_LIMITS, torch.int8]
        integers = _call(node, quantize, x, *numbers)
        wide = _call(node, dequantize, integers, *numbers, *last)
    for user in back:
        user.replace_all_uses_with(wide)
    return True


def _chosen(quantize: fx.Node) -> fx.Node | None:
    """The node that computes scale and zero point at run time, if all is int8."""
    sources = []
    for i, name in enumerate(("scale", "zero_point")):
        item = argument(quantize, name)
        if not isinstance(item, fx.Node) or not is_getitem(item.target) or item.args[1] != i:
            return None
        sources.append(item.args[0])
    chosen = sources[0]
    if sources[1] is not chosen or not is_call(chosen, "torchao::choose_qparams_affine"):
        return None
    assert isinstance(chosen, fx.Node)
    same = chosen.args[0] is quantize.args[0] and list(argument(chosen, "block_size")) == list(
        argument(quantize, "block_size")
    )
    limits = (argument(quantize, "quant_min"), argument(quantize, "quant_max"))
    is_int8 = argument(quantize, "output_dtype") is torch.int8 and limits in (_LIMITS, (None, None))
    floats = chosen.args[0].meta["val"].dtype is torch.float32
    return chosen if same and is_int8 and floats else None


def _undoes(user: fx.Node, quantize: fx.Node) -> bool:
    if not is_call(user, "torchao::dequantize_affine") or user.args[0] is not quantize:
        return False
    names = ("block_size", "scale", "zero_point")
    return all(argument(user, n) == argument(quantize, n) for n in names)


def _call(like: fx.Node, target: Any, *args: Any) -> fx.Node:
    made = like.graph.call_function(target, args)
    made.meta["val"] = evaluate(made)
    return made
