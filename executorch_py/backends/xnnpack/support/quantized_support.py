"""The capability table for quantizers: whether a float call can become one on integers.

Quantizers work on graphs of ATen calls on floats. `integer_reason` rebuilds one such call as it
will be at lowering, alone in a graph, with dequantized operands and a quantized result, and applies
the partitioner's checks. Knows neither observers nor the graph around the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from executorch_py.backends.xnnpack.support.capability import RULES, GraphFacts, reason
from executorch_py.backends.xnnpack.support.node_facts import (
    ConfigPrecisionType,
    NodeFacts,
    Quantization,
    Role,
    Rule,
    is_dense,
)
from executorch_py.backends.xnnpack.support.product_checks import output_axis
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import op_key

_aten, _integers = torch.ops.aten, torch.ops.quantized_decomposed


@dataclass(frozen=True)
class TensorQuantization:
    """The quantization of a value; `axis` is the dimension with a scale per slice, if any."""

    dtype: torch.dtype
    axis: int | None = None
    has_zero_point: bool = False
    is_dynamic: bool = False


IsConstant = Callable[[fx.Node], bool]
FLOATS_ONLY = "XNNPACK's payload has it for floats only"


def integer_reason(
    node: fx.Node,
    operands: Mapping[fx.Node, TensorQuantization],
    result: TensorQuantization | None,
    is_constant: IsConstant,
) -> str | None:
    """Why XNNPACK would not compute a call with integers; None if it would.

    operands: the operands to be quantized. result: the quantization of the result, perhaps behind
    an activation.
    """
    rule = _rule(node)
    is_product = rule is not None and rule.quantization is Quantization.GEMM
    if is_product:  # lowering makes int32 of any bias
        operands = {n: how for n, how in operands.items() if not (is_constant(n) and _rank(n) < 2)}
    weight = _weight(node) if is_product else None
    channels = output_axis(_as_lowered(node, {}, None, is_constant).node) if is_product else None
    for operand, how in operands.items():
        found = _unknown_integers(how, channels if operand is weight else None)
        if found is not None:
            return f"'{operand.name}' {found}"
    if weight is not None and weight not in operands:
        return "its weights would stay float"
    found = None if result is None else _unknown_integers(result, None)
    if found is not None:
        return f"its result {found}"
    call = _as_lowered(node, operands, result, is_constant)
    found = reason(call)
    if found is None and (rule is None or rule.role is not Role.MOVE):
        found = _precision_reason(rule, call, operands)
    return found


def float_reason(node: fx.Node, is_constant: IsConstant) -> str | None:
    """Why XNNPACK has no integer form of a call; None if it has one."""
    rule = _rule(node)
    found = reason(_as_lowered(node, {}, None, is_constant))
    is_float = rule is not None and rule.quantization is Quantization.NONE
    return FLOATS_ONLY if found is None and is_float else found


def is_move(node: fx.Node) -> bool:
    """Whether a call only moves elements, floats or integers.

    Schemas of torch's operators that lower to moves declare the result as a view of the input.
    """
    rule = _rule(node)
    if rule is not None:
        return rule.role is Role.MOVE
    is_torch = isinstance(node.target, torch._ops.OpOverload)
    views = [r.alias_info for r in node.target._schema.returns] if is_torch else []
    return bool(views) and all(view is not None and not view.is_write for view in views)


def _rule(node: fx.Node) -> Rule | None:
    return RULES.get(op_key(_lowered(node)[0]))


def _weight(product: fx.Node) -> fx.Node | None:
    target, args, _ = _lowered(product)
    names = [arg.name for arg in target._schema.arguments]
    found = args[names.index("weight" if "weight" in names else "mat2")]
    return found if isinstance(found, fx.Node) else None


def _rank(node: fx.Node) -> int:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else 0


def _unknown_integers(how: TensorQuantization, channels: int | None) -> str | None:
    """Why no value of a payload can have a quantization.

    channels: of a weight, the dimension of the output channels.
    """
    if how.dtype is not torch.int8:
        name = str(how.dtype).removeprefix("torch.")
        return f"would be {name}, where XNNPACK reads and writes int8"
    if how.axis is not None and how.axis != channels:
        if channels is None:
            return "would have a scale for each channel, which weights alone can have"
        return f"would have scales along dimension {how.axis}, not its output channels, {channels}"
    if channels is not None and how.has_zero_point:
        return "would have a zero point, and weights have none"
    return None


def _precision_reason(
    rule: Rule | None, call: NodeFacts, operands: Mapping[fx.Node, TensorQuantization]
) -> str | None:
    if rule is None or rule.quantization is Quantization.NONE:
        return FLOATS_ONLY
    if call.precision is not ConfigPrecisionType.FP32:
        return None
    if any(how.is_dynamic for how in operands.values()):
        return "scales found at run time are for products"
    return "its operands would not all be quantized, or its result not: it would work on floats"


# ---- the lowered call


def _as_lowered(
    node: fx.Node,
    operands: Mapping[fx.Node, TensorQuantization],
    result: TensorQuantization | None,
    is_constant: IsConstant,
) -> NodeFacts:
    """The facts of the call as it will be at lowering, among conversions."""
    graph, constants = fx.Graph(), {}
    made: dict[fx.Node, fx.Node] = {}
    for operand in node.all_input_nodes:
        value = graph.placeholder(operand.name)
        value.meta["val"] = example = operand.meta.get("val")
        if isinstance(example, torch.Tensor) and not is_dense(example):
            value.meta["val"] = example.contiguous()  # views become copies at lowering
        if is_constant(operand):
            constants[value.name] = value.meta["val"]
        made[operand] = value
        if operand in operands and isinstance(value.meta["val"], torch.Tensor):
            made[operand] = _dequantized(graph, value, operands[operand], value.name in constants)

    def replaced(arg: Any) -> Any:
        if isinstance(arg, fx.Node):
            return made[arg]
        size = graph.placeholder("size")
        size.meta["val"] = arg
        return size

    target, args, kwargs = _lowered(node)
    args, kwargs = pytree.tree_map_only((fx.Node, torch.SymInt), replaced, (args, kwargs))
    call = graph.call_function(target, args, kwargs)
    call.meta["val"] = node.meta.get("val")
    if result is not None:
        limits = torch.iinfo(result.dtype)
        behind = graph.call_function(
            _integers.quantize_per_tensor.default,
            (call, 1.0, 0, limits.min, limits.max, result.dtype),
        )
        behind.meta["val"] = node.meta.get("val")
    return GraphFacts(constants)[call]


def _dequantized(
    graph: fx.Graph, value: fx.Node, how: TensorQuantization, is_constant: bool
) -> fx.Node:
    """A quantize and dequantize pair behind a value; the scales are arbitrary."""
    limits = torch.iinfo(how.dtype)
    numbers: tuple[Any, ...] = (1.0, 0)
    source, form = value, "tensor" if how.is_dynamic else "default"
    if how.is_dynamic and not is_constant:
        chosen = graph.call_function(
            _integers.choose_qparams.tensor, (value, limits.min, limits.max, 1e-5, how.dtype)
        )
        numbers = (chosen, chosen)
    parameters = (*numbers, limits.min, limits.max, how.dtype)
    if not is_constant:
        quantize = getattr(_integers.quantize_per_tensor, form)
        source = graph.call_function(quantize, (value, *parameters))
        source.meta["val"] = value.meta["val"]
    dequantize = getattr(_integers.dequantize_per_tensor, form if not is_constant else "default")
    made = graph.call_function(dequantize, (source, *parameters))
    made.meta["val"] = value.meta["val"]
    return made


# ---- operators before decomposition


def _lowered(node: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Operator and arguments after decomposition."""
    known = _FORMS.get(node.target)
    if known is None:
        return node.target, tuple(node.args), dict(node.kwargs)
    if isinstance(known, torch._ops.OpOverload):
        return known, tuple(node.args), dict(node.kwargs)
    target, args = known(node)
    return target, args, {}


Form = tuple[Any, tuple[Any, ...]]


def _convolution(dims: int) -> Callable[[fx.Node], Form]:
    def form(node: fx.Node) -> Form:
        def numbers(name: str) -> list[Any]:
            found = argument(node, name)
            if isinstance(found, str):  # "same" or "valid", which are known
                found = 0
            listed = list(found) if isinstance(found, (list, tuple)) else [found]
            return listed * dims if len(listed) == 1 else listed

        transposed = "transpose" in op_key(node.target)
        out = numbers("output_padding") if transposed else [0] * dims
        windows = (numbers("stride"), numbers("padding"), numbers("dilation"), transposed, out)
        operands = (node.args[0], argument(node, "weight"), argument(node, "bias"))
        return _aten.convolution.default, (*operands, *windows, argument(node, "groups"))

    return form


def _pooled_to_one(node: fx.Node) -> Form:
    size = argument(node, "output_size")
    if [*size] in ([1], [1, 1]):
        return _aten.mean.dim, (node.args[0], [-2, -1], True)
    return node.target, tuple(node.args)


def _padding(node: fx.Node) -> Form:
    if argument(node, "mode") != "constant":
        return node.target, tuple(node.args)
    return _aten.constant_pad_nd.default, (node.args[0], node.args[1], argument(node, "value") or 0)


def _without_empty(node: fx.Node) -> Form:
    """The concatenation of operands with elements; PruneEmptyTensorsPass drops the others."""
    given = argument(node, "tensors")
    full = [arg for arg in given if not any(_is_zero(n) for n in arg.meta["val"].shape)]
    return node.target, (full or given, argument(node, "dim"))


def _is_zero(size: Any) -> bool:
    return isinstance(size, int) and size == 0


def _as_result(node: fx.Node) -> Form:
    return _aten.view_copy.default, (node.args[0], list(node.meta["val"].shape))


def _identity(node: fx.Node) -> Form:
    return _aten.clone.default, (node.args[0],)


_FORMS: dict[Any, Any] = {
    **dict.fromkeys((_aten.conv1d.default, _aten.conv1d.padding), _convolution(1)),
    **dict.fromkeys((_aten.conv2d.default, _aten.conv2d.padding), _convolution(2)),
    **dict.fromkeys((_aten.conv3d.default, _aten.conv3d.padding), _convolution(3)),
    _aten.conv_transpose1d.default: _convolution(1),
    _aten.conv_transpose2d.input: _convolution(2),
    _aten.conv_transpose3d.input: _convolution(3),
    _aten.adaptive_avg_pool2d.default: _pooled_to_one,
    _aten.add_.Tensor: _aten.add.Tensor,
    _aten.sub_.Tensor: _aten.sub.Tensor,
    _aten.mul_.Tensor: _aten.mul.Tensor,
    _aten.div_.Tensor: _aten.div.Tensor,
    _aten.relu_.default: _aten.relu.default,
    _aten.relu6_.default: _aten.relu6.default,
    _aten.hardtanh_.default: _aten.hardtanh.default,
    _aten.silu_.default: _aten.silu.default,
    _aten.hardswish_.default: _aten.hardswish.default,
    _aten.softmax.int: lambda node: (
        _aten._softmax.default,
        (node.args[0], argument(node, "dim"), False),
    ),
    _aten.cat.default: _without_empty,
    _aten.pad.default: _padding,
    **dict.fromkeys(
        (_aten.view.default, _aten.reshape.default, _aten.unflatten.int, _aten.flatten.using_ints),
        _as_result,
    ),
    _aten.permute.default: _aten.permute_copy.default,
    _aten.transpose.int: _aten.transpose_copy.int,
    _aten.slice.Tensor: _aten.slice_copy.Tensor,
    _aten.select.int: _aten.select_copy.int,
    _aten.squeeze.dim: _aten.squeeze_copy.dim,
    _aten.squeeze.dims: _aten.squeeze_copy.dims,
    _aten.unsqueeze.default: _aten.unsqueeze_copy.default,
    _aten.expand.default: _aten.expand_copy.default,
    _aten.detach.default: _aten.detach_copy.default,
    _aten.alias.default: _aten.alias_copy.default,
    **dict.fromkeys(
        (_aten.contiguous.default, _aten.dropout.default, _aten.dropout_.default), _identity
    ),
}

__all__ = ["FLOATS_ONLY", "TensorQuantization", "float_reason", "integer_reason", "is_move"]
