"""QuantizedGraph: reading operands of quantized patterns, and inserting operators on integers.

The vocabulary of LowerToIntegerOps: int8 weights and biases behind dequantization, the quantization
of a result, packed constants, channels-last images. Relies on `meta["val"]` of a functional graph;
knows no pattern.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram

from executorch_py.exir.dialects import integer_ops
from executorch_py.exir.dialects.edge_ops import edge_op, ops
from executorch_py.exir.ir.constants import add_constants
from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation
from executorch_py.exir.ir.graph import foldable_constants
from executorch_py.exir.ir.low_bit import Integers, integers_of
from executorch_py.exir.ir.match import argument, is_call, only_user
from executorch_py.exir.ir.quantized_values import (
    DEQUANTIZE,
    DEQUANTIZE_PER_CHANNEL,
    Affine,
    affine_of,
    dequantized,
    is_quantize,
)

_CHANNELS_LAST = [0, 2, 3, 1]
_TO_DIM_ORDER = "dim_order_ops::_to_dim_order_copy"


@dataclass(frozen=True)
class Weight:
    """int8 values [out, …] with zero point 0, and a scale for each output."""

    node: fx.Node
    values: torch.Tensor
    scales: torch.Tensor  # f64
    key: tuple[str, ...]


@dataclass(frozen=True)
class QuantizedOutput:
    """The quantization of a pattern's result; limits include those of an activation before it."""

    node: fx.Node
    affine: Affine

    def limits(self) -> tuple[int, int, int]:
        """Zero point, minimum and maximum integer."""
        return self.affine.zero_point, self.affine.quant_min, self.affine.quant_max


class QuantizedGraph:
    """A method's graph while patterns are replaced."""

    def __init__(self, ep: ExportedProgram, mode: FakeTensorMode) -> None:
        self.ep = ep
        self.mode = mode
        self.graph = ep.graph_module.graph
        self.constants = foldable_constants(ep)
        self.made: dict[tuple[Any, ...], fx.Node] = {}
        self.images: dict[fx.Node, fx.Node] = {}  # image -> channels-last copy

    # ---- reading

    def output_of(self, node: fx.Node) -> QuantizedOutput | None:
        """The only reader of a node, if it quantizes the result; an activation may be between."""
        user = only_user(node)
        bounds = _bounds(user) if user is not None else None
        if user is not None and bounds is not None:
            user = only_user(user)
        if user is None or not is_quantize(user):
            return None
        affine = affine_of(user)
        assert affine is not None
        low, high = affine.quant_min, affine.quant_max
        if bounds is not None:
            low, high = (
                limit if math.isinf(b) else min(max(affine.quantized(b), low), high)
                for b, limit in zip(bounds, (low, high), strict=True)
            )
        return QuantizedOutput(user, Affine(affine.scale, affine.zero_point, low, high))

    def weight_of(self, node: Any, axis: int = 0) -> Weight | None:
        """A constant int8 matrix or kernel with zero point 0 and a scale for each output.

        Outputs are dimension `axis` of the constant, and the first dimension of the result.
        """
        values = self.constant(node.args[0]) if isinstance(node, fx.Node) and node.args else None
        if values is None or values.dtype != torch.int8 or values.dim() < 2:
            return None
        values = values.movedim(axis, 0)
        n = values.shape[0]
        if is_call(node, DEQUANTIZE):
            affine = affine_of(node)
            if affine is None or affine.zero_point != 0:
                return None
            scales = torch.full((n,), affine.scale, dtype=torch.float64)
            return Weight(node.args[0], values, scales, (node.args[0].name, str(affine.scale)))
        if not is_call(node, DEQUANTIZE_PER_CHANNEL) or argument(node, "axis") != axis:
            return None
        given, zeros = argument(node, "scales"), argument(node, "zero_points")
        scales, zero_points = self.constant(given), self.constant(zeros)
        if scales is None or (zeros is not None and (zero_points is None or zero_points.any())):
            return None
        key = (node.args[0].name, given.name)
        return Weight(node.args[0], values, scales.to(torch.float64), key)

    def transposed_weight(self, node: Any) -> Weight | None:
        """The weight [out, in] of a product with its transpose."""
        if _is_transpose(node):
            return self.weight_of(node.args[0])
        found = dequantized(node)
        if found is None or not _is_transpose(found[0]):
            return None
        values, affine = self.constant(found[0].args[0]), found[1]
        if values is None or affine.zero_point != 0:
            return None
        scales = torch.full((values.shape[0],), affine.scale, dtype=torch.float64)
        source = found[0].args[0]
        return Weight(source, values, scales, (source.name, str(affine.scale)))

    def transposed_groupwise_weight(self, node: Any) -> Integers | None:
        """The transposed 4-bit weight of a product, with a scale for each row or each group of a
        row.

        2-bit weights are left alone: unpacked they would double.
        """
        if not _is_transpose(node) or node.args[0].op != "call_function":
            return None
        found = integers_of(node.args[0], self.constants)
        if found is None or not found.is_table or found.bits == 2:
            return None
        if found.low < -8 or found.high > 7 or not _are_integers(found.values, -8, 7):
            return None
        return found if found.zeros is None or _are_integers(found.zeros, -128, 127) else None

    def bias_of(self, node: Any, n: int) -> torch.Tensor | None:
        """A bias of n numbers in f64: zeros if there is none, None if it is no constant."""
        if node is None:
            return torch.zeros(n, dtype=torch.float64)
        value = self.constant(node)
        if is_call(node, DEQUANTIZE, DEQUANTIZE_PER_CHANNEL):
            value = self.wide_bias(node)
        if value is None or not value.is_floating_point() or value.numel() not in (1, n):
            return None
        return value.reshape(-1).to(torch.float64).expand(n)

    def wide_bias(self, node: fx.Node) -> torch.Tensor | None:
        """The f64 values of a bias that is stored as integers."""
        values = self.constant(node.args[0])
        numbers = [self.constant(n) if isinstance(n, fx.Node) else n for n in node.args[1:3]]
        if values is None or any(n is None for n in numbers):
            return None
        scale, zero_point = numbers
        return (values.to(torch.float64) - zero_point) * scale

    def constant(self, node: Any) -> torch.Tensor | None:
        value = self.constants.get(node.name) if isinstance(node, fx.Node) else None
        return None if value is None else value.detach()

    # ---- writing

    def constant_node(self, key: tuple[Any, ...], base: str, value: torch.Tensor) -> fx.Node:
        if key not in self.made:
            with self.mode:
                example = torch.empty(value.shape, dtype=value.dtype)
            (self.made[key],) = add_constants(self.ep, [(base, value, example, {})])
        return self.made[key]

    def columns(
        self, weight: Weight, matrices: torch.Tensor, source: Affine, output: Affine, bias: Any
    ) -> list[fx.Node]:
        """Packed weights, and for each column its initial sums, scale and addend."""
        groups = matrices.shape[0]
        sums = matrices.to(torch.int64).sum(-1).reshape(-1)
        starts = integer_ops.packed_starts(-source.zero_point * sums, matrices)
        scales = (source.scale * weight.scales / output.scale).to(torch.float32)
        addends = (bias / output.scale).to(torch.float32)
        key = (weight.key, source, output.scale, tuple(bias.tolist()))
        packed = [starts, *(integer_ops.packed_columns(t, groups) for t in (scales, addends))]
        names = ("starts", "scales", "addends")
        return [
            self.packed(weight, matrices),
            *(
                self.constant_node((name, key), f"q_{name}", t)
                for name, t in zip(names, packed, strict=True)
            ),
        ]

    def packed(self, weight: Weight, matrices: torch.Tensor) -> fx.Node:
        key = ("packed", weight.key, tuple(matrices.shape))
        return self.constant_node(key, "q_weight", integer_ops.packed_weight(matrices))

    def call(self, before: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        with self.graph.inserting_before(before):
            node = self.graph.call_function(target, args, kwargs)
        if "stack_trace" in before.meta:
            node.meta["stack_trace"] = before.meta["stack_trace"]
        with fake_evaluation(self.mode):
            node.meta["val"] = evaluate(node)
        return node

    def channels_last(self, image: fx.Node) -> fx.Node:
        """The image in channels-last layout: itself, the source of a copy, or a new copy."""
        last = torch.channels_last
        if is_call(image, _TO_DIM_ORDER) and _image_is(image.args[0], last):
            return image.args[0]
        if _image_is(image, last):
            return image
        if image not in self.images:
            after = image.next
            while after.op == "placeholder":
                after = after.next
            self.images[image] = self.copy(image, _CHANNELS_LAST, after)
        return self.images[image]

    def same_layout(self, images: list[fx.Node]) -> list[fx.Node]:
        """The tensors, all channels-last if one of them is a copy of a channels-last image."""
        if not any(is_call(i, _TO_DIM_ORDER) for i in images):
            return images
        if any(i.meta["val"].dim() != 4 for i in images):
            return images
        return [self.channels_last(i) for i in images]

    def lookup(self, image: fx.Node, table: torch.Tensor, before: fx.Node) -> fx.Node:
        node = self.constant_node(("table", tuple(table.tolist())), "q_table", table)
        return self.call(before, edge_op(torch.ops.executorch_py.qlookup.default), image, node)

    def requantized(self, image: fx.Node, source: Affine, quantize: fx.Node) -> fx.Node:
        """The same values as integers with the parameters of the node `quantize`."""
        to = affine_of(quantize)
        assert to is not None
        if (to.scale, to.zero_point) == (source.scale, source.zero_point):
            whole = (to.quant_min, to.quant_max) == (source.quant_min, source.quant_max)
            if whole or (to.quant_min, to.quant_max) == (-128, 127):
                return image
        return self.lookup(image, to.quantize(source.every_value()), quantize)

    def number(self, node: Any) -> torch.Tensor | None:
        """The 0-d constant that a node is, or None."""
        value = self.constant(node)
        return value if value is not None and value.dim() == 0 else None

    def plane(self, lines: fx.Node, before: fx.Node) -> fx.Node:
        """Lines [n, channels, length] as images of one row: their source, or a view."""
        n, channels, length = lines.meta["val"].shape
        shape = (str(n), str(channels), "1", str(length))
        if is_call(lines, "aten::view_copy") and shape_of(lines.args[0]) == shape:
            return lines.args[0]
        view = edge_op(torch.ops.aten.view_copy.default)
        return self.call(before, view, lines, [n, channels, 1, length])

    def replace(self, last: fx.Node, result: fx.Node) -> None:
        """Replace a pattern's last node by a result, in the shape and layout of that node."""
        wanted = last.meta["val"]
        same_rank = result.meta["val"].dim() == wanted.dim()
        if not same_rank and not result.meta["val"].is_contiguous():
            result = self.copy(result, list(range(result.meta["val"].dim())), last)
        if not same_rank:
            view = edge_op(torch.ops.aten.view_copy.default)
            result = self.call(last, view, result, list(wanted.shape))
        if result.meta["val"].is_contiguous() and wanted.is_contiguous():
            result.meta["val"] = wanted  # strides of one-pixel images may be any
        elif result.meta["val"].stride() != wanted.stride():
            result = self.copy(result, list(wanted.dim_order()), last)
        last.replace_all_uses_with(result)

    def copy(self, value: fx.Node, order: list[int], before: fx.Node) -> fx.Node:
        """The value in another dim order."""
        target = ops.edge.dim_order_ops._to_dim_order_copy.default
        return self.call(before, target, value, dim_order=order)


def shape_of(node: Any) -> tuple[str, ...]:
    """Sizes as text, so that symbols compare."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return tuple(map(str, value.shape)) if isinstance(value, torch.Tensor) else ("?",)


def _are_integers(values: torch.Tensor, low: int, high: int) -> bool:
    limits = torch.aminmax(values)
    return bool(limits.min >= low and limits.max <= high and torch.equal(values, values.round()))


def _is_transpose(node: Any) -> bool:
    if is_call(node, "aten::permute_copy"):
        return [d % 2 for d in node.args[1]] == [1, 0]
    if is_call(node, "aten::transpose_copy.int"):
        return len({d % 2 for d in node.args[1:]}) == 2
    return is_call(node, "aten::t_copy")


def _image_is(node: Any, layout: torch.memory_format) -> bool:
    value = node.meta["val"]
    return bool(value.dim() == 4 and value.is_contiguous(memory_format=layout))


def _bounds(node: fx.Node) -> tuple[float, float] | None:
    """The bounds of a clamping activation; None for other nodes."""
    if is_call(node, "aten::relu"):
        return 0.0, math.inf
    if is_call(node, "aten::hardtanh"):
        low, high = argument(node, "min_val"), argument(node, "max_val")
    elif is_call(node, "aten::clamp"):
        low, high = argument(node, "min"), argument(node, "max")
    else:
        return None
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    numbers = all(isinstance(b, (int, float)) and not math.isnan(b) for b in (low, high))
    return (float(low), float(high)) if numbers else None
