"""LowerToIntegerOps: what lies between dequantizing and quantizing is computed with integers.

A convolution or linear layer of int8 values and int8 weights, its activation and the quantizing of
its result become one operator of the library `executorch_py` (dialects/integer_ops.py), with
weights packed for its kernel, those of 4 bits two to a byte; so do sums, products, pools and means.
Whatever happens to one tensor alone, element by element, becomes a table. Images between them are
channels-last. Within one quantum of what the operators one by one compute. Relies on `meta["val"]`
and on CommuteQuantize, which brings the patterns together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from executorch_py.exir.dialects import integer_ops
from executorch_py.exir.dialects.edge_ops import edge_op
from executorch_py.exir.ir.constants import drop_unused_constants
from executorch_py.exir.ir.fake_values import fake_mode_of
from executorch_py.exir.ir.graph import erase_dead_nodes
from executorch_py.exir.ir.low_bit import Integers
from executorch_py.exir.ir.match import argument, is_call, only_user
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.ir.quantized_values import (
    DEQUANTIZE_BY_TENSORS,
    DEQUANTIZE_PER_TOKEN,
    QUANTIZE,
    Affine,
    affine_of,
    dequantized,
    is_quantize,
)
from executorch_py.exir.passes.base import Contract, Fact, Pass, facts
from executorch_py.exir.passes.quantized.quantized_graph import End, IntegerGraph, Weight, shape_of

# Sums of a plane stay below 2^31.
_MAX_PLANE = 1 << 22
_MAX_STEPS = 16


class LowerToIntegerOps(Pass):
    """Replace dequantize, compute, quantize by operators that compute with integers."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        graph, mode = program.graph_module.graph, fake_mode_of(program.graph_module)
        if mode is None or not any("quantize" in str(node.target) for node in graph.nodes):
            return False
        integers = IntegerGraph(program, mode)
        changed = any([_fuse(integers, node) for node in list(graph.nodes)])
        if changed:
            erase_dead_nodes(graph)
            drop_unused_constants(program, set(integers.constants))
        return changed


def _fuse(integers: IntegerGraph, node: fx.Node) -> bool:
    pattern = _PATTERNS.get(op_key(node.target)) if node.op == "call_function" else None
    return pattern is not None and bool(node.users) and pattern(integers, node)


# ---- convolutions


def _fuse_convolution(integers: IntegerGraph, node: fx.Node) -> bool:
    """In two dimensions; those of one are images of one row."""
    if argument(node, "transposed"):
        return _fuse_transposed(integers, node)
    found, end = dequantized(node.args[0]), integers.end_of(node)
    weight = integers.weight_of(node.args[1])
    if found is None or end is None or weight is None:
        return False
    spatial = weight.values.dim() - 2
    n, groups = weight.values.shape[0], argument(node, "groups")
    bias = integers.bias_of(argument(node, "bias"), n)
    geometry = [_numbers(argument(node, k)) for k in ("stride", "padding", "dilation")]
    if spatial not in (1, 2) or bias is None or None in geometry:
        return False
    fill = (1, 0, 1)
    stride, padding, dilation = (
        _pair(values, spatial, alone)
        for values, alone in zip(geometry, fill, strict=True)
        if values is not None
    )
    image, source = found
    if spatial == 1:
        image = integers.plane(image, end.node)
    kernel = _pair(list(weight.values.shape[2:]), spatial, 1)
    values = weight.values.reshape(*weight.values.shape[:2], *kernel)
    matrices = integer_ops.matrices_of_kernel(values, groups)
    result = integers.call(
        end.node,
        edge_op(torch.ops.executorch_py.qconvolution.default),
        integers.channels_last(image),
        source.zero_point,
        *integers.columns(weight, matrices, source, end.affine, bias),
        n,
        *end.limits(),
        kernel,
        stride,
        padding,
        dilation,
        groups,
    )
    integers.replace(end.node, result)
    return True


def _numbers(values: Any) -> list[int] | None:
    return list(values) if all(isinstance(v, int) for v in values) else None


def _pair(values: list[int], spatial: int, alone: int) -> list[int]:
    """Numbers of two dimensions: one may stand for all; `alone` is that of a single row."""
    whole = values * (spatial // len(values)) if len(values) < spatial else values
    return [alone] * (2 - spatial) + whole


def _fuse_transposed(integers: IntegerGraph, node: fx.Node) -> bool:
    """A plain convolution that makes the stride² pixels between two of the input as channels."""
    found, end = dequantized(node.args[0]), integers.end_of(node)
    weight = integers.weight_of(node.args[1], axis=1)
    if found is None or end is None or weight is None or weight.values.dim() != 4:
        return False
    names = ("stride", "padding", "dilation", "output_padding")
    geometry = [_numbers(argument(node, k)) for k in names]
    bias = integers.bias_of(argument(node, "bias"), weight.values.shape[0])
    if None in geometry or bias is None or argument(node, "groups") != 1:
        return False
    stride, padding, dilation, more = (_pair(v, 2, 1) for v in geometry if v is not None)
    step = stride[0]
    if (
        stride[1] != step
        or dilation != [1, 1]
        or any(m > p for m, p in zip(more, padding, strict=True))
    ):
        return False
    image, source = found
    values = _phases_of(weight.values, step)
    n, taps = values.shape[0], list(values.shape[2:])
    phases = Weight(
        weight.node, values, weight.scales.repeat_interleave(step * step), (*weight.key, "phases")
    )
    result = integers.call(
        end.node,
        edge_op(torch.ops.executorch_py.qconvolution.default),
        integers.channels_last(image),
        source.zero_point,
        *integers.columns(
            phases,
            integer_ops.matrices_of_kernel(values, 1),
            source,
            end.affine,
            bias.repeat_interleave(step * step),
        ),
        n,
        *end.limits(),
        taps,
        [1, 1],
        [t - 1 for t in taps],
        [1, 1],
        1,
    )
    if step > 1:
        shuffle = edge_op(torch.ops.aten.pixel_shuffle.default)
        result = integers.call(
            end.node, shuffle, integers.copy(result, [0, 1, 2, 3], end.node), step
        )
    for d in (2, 3):
        first, size = padding[d - 2], end.node.meta["val"].shape[d]
        if result.meta["val"].shape[d] != size:
            cut = edge_op(torch.ops.aten.slice_copy.Tensor)
            result = integers.call(end.node, cut, result, d, first, first + size)
    integers.replace(end.node, result)
    return True


def _phases_of(weight: torch.Tensor, step: int) -> torch.Tensor:
    """The kernel [out · step², in, taps, taps] of all phases, in pixel_shuffle's order.

    Pixel a · step + r of the result takes from pixel a - j of the image by tap r + j · step.
    """
    out, c_in, *kernel = weight.shape
    taps = [-(-k // step) for k in kernel]
    whole = weight.new_zeros(out, c_in, taps[0] * step, taps[1] * step)
    whole[:, :, : kernel[0], : kernel[1]] = weight
    split = whole.reshape(out, c_in, taps[0], step, taps[1], step).flip(2, 4)
    return split.permute(0, 3, 5, 1, 2, 4).reshape(out * step * step, c_in, *taps)


# ---- linear layers


def _fuse_product(integers: IntegerGraph, node: fx.Node) -> bool:
    is_mm = is_call(node, "aten::mm")
    if not is_mm and (argument(node, "beta") != 1 or argument(node, "alpha") != 1):
        return False
    left, right = (argument(node, k) for k in (("self", "mat2") if is_mm else ("mat1", "mat2")))
    weight, groups = integers.turned_weight_of(right), integers.turned_groups_of(right)
    matrix = weight or groups
    if matrix is None or matrix.values.dim() != 2 or node.meta["val"].dtype != torch.float32:
        return False
    bias = integers.bias_of(None if is_mm else argument(node, "self"), matrix.values.shape[0])
    if bias is None:
        return False
    found, end = dequantized(left), integers.end_of(node)
    if weight is not None and found is not None and end is not None:
        return _fuse_linear(integers, found, weight, bias, end)
    rows = _rows_of(integers, node, left)
    if rows is not None and groups is not None:
        return _fuse_groups(integers, node, rows, groups, bias)
    if rows is not None and weight is not None:
        return _fuse_float_linear(integers, node, rows, weight, bias)
    return weight is not None and _fuse_weight(integers, node, left, weight)


def _fuse_linear(
    integers: IntegerGraph,
    found: tuple[fx.Node, Affine],
    weight: Weight,
    bias: torch.Tensor,
    end: End,
) -> bool:
    rows, source = found
    result = integers.call(
        end.node,
        edge_op(torch.ops.executorch_py.qlinear.default),
        rows,
        *integers.columns(weight, weight.values.unsqueeze(0), source, end.affine, bias),
        weight.values.shape[0],
        *end.limits(),
    )
    integers.replace(end.node, result)
    return True


def _rows_of(
    integers: IntegerGraph, node: fx.Node, left: Any
) -> tuple[fx.Node, fx.Node, fx.Node] | None:
    """Rows of integers that a product reads dequantized, their scale and their zero point: tensors
    of one number or, known at run time only, of one for each row."""
    source_of = left.args[0] if _joins_rows(left) else left
    if is_call(source_of, DEQUANTIZE_BY_TENSORS, DEQUANTIZE_PER_TOKEN):
        rows, scale, zero_point = source_of.args[:3]
        if source_of is not left and rows.meta["val"].dtype == torch.int8:
            rows = integers.call(node, left.target, rows, *left.args[1:])
    else:
        found = dequantized(left)
        if found is None:
            return None
        rows, source = found
        numbers = torch.tensor([source.scale]), torch.tensor([source.zero_point])
        scale, zero_point = (
            integers.constant_node((name, source), f"q_{name}", value)
            for name, value in zip(("scale", "zero_point"), numbers, strict=True)
        )
    if rows.meta["val"].dtype != torch.int8 or left.meta["val"].dtype != torch.float32:
        return None
    return rows, scale, zero_point


def _fuse_float_linear(
    integers: IntegerGraph,
    node: fx.Node,
    rows: tuple[fx.Node, fx.Node, fx.Node],
    weight: Weight,
    bias: torch.Tensor,
) -> bool:
    """Rows whose scale is known at run time, or a result that stays f32."""
    columns = {
        "sums": weight.values.to(torch.int64).sum(-1).to(torch.int32),
        "scales": weight.scales.to(torch.float32),
        "addends": bias.to(torch.float32),
    }
    key = (weight.key, tuple(bias.tolist()))
    result = integers.call(
        node,
        edge_op(torch.ops.executorch_py.qlinear_float.default),
        *rows,
        integers.packed(weight, weight.values.unsqueeze(0)),
        *(
            integers.constant_node((name, key), f"q_{name}", integer_ops.packed_columns(t, 1))
            for name, t in columns.items()
        ),
        weight.values.shape[0],
    )
    integers.replace(node, result)
    return True


def _fuse_groups(
    integers: IntegerGraph,
    node: fx.Node,
    rows: tuple[fx.Node, fx.Node, fx.Node],
    weight: Integers,
    bias: torch.Tensor,
) -> bool:
    """The same with weights of 4 bits, a scale for each group of a row."""
    n, n_groups = weight.scales.shape
    matrices = weight.values.reshape(n, n_groups, -1)
    scales, zeros = weight.scales, weight.zeros
    totals = matrices.to(torch.float64).sum(-1)
    if zeros is not None:
        totals -= zeros * matrices.shape[2]
    small = scales.to(torch.bfloat16)
    key = (weight.name, argument(node, "mat2").args[0].name)

    def constant(name: str, value: torch.Tensor, *more: Any) -> fx.Node:
        return integers.constant_node((f"groups {name}", *key, *more), f"q_{name}", value)

    fits = torch.equal(small.to(torch.float32), scales)
    operands = (
        constant("weight", integer_ops.packed_groups(matrices)),
        constant("scales", integer_ops.packed_numbers(small if fits else scales)),
        None
        if zeros is None
        else constant("zeros", integer_ops.packed_numbers(zeros.to(torch.int8))),
        *(
            constant(name, integer_ops.packed_columns(value.to(torch.float32), 1), *more)
            for name, value, *more in (
                ("sums", (totals * scales).sum(-1)),
                ("addends", bias, tuple(bias.tolist())),
            )
        ),
    )
    target = edge_op(torch.ops.executorch_py.qlinear_groups.default)
    result = integers.call(node, target, *rows, *operands, matrices.shape[2], n)
    integers.replace(node, result)
    return True


def _joins_rows(node: Any) -> bool:
    """Whether a node is a view that leaves rows as they are."""
    return (
        is_call(node, "aten::view_copy")
        and shape_of(node)[-1] == shape_of(node.args[0])[-1]
        and len(shape_of(node)) == 2
    )


def _fuse_weight(integers: IntegerGraph, node: fx.Node, left: Any, weight: Weight) -> bool:
    """Rows of floats and a weight of integers: it is widened on the way, not before every run."""
    scales = integers.constant_node(
        ("weight scales", weight.key), "q_scales", weight.scales.to(torch.float32)
    )
    target = edge_op(torch.ops.quantized_decomposed.mixed_linear.default)
    result = integers.call(node, target, left, weight.node, scales, None)
    if not is_call(node, "aten::mm"):
        add = edge_op(torch.ops.aten.add.Tensor)
        result = integers.call(node, add, result, argument(node, "self"))
    integers.replace(node, result)
    return True


# ---- element by element


def _fuse_binary(name: str) -> Callable[[IntegerGraph, fx.Node], bool]:
    def fuse(integers: IntegerGraph, node: fx.Node) -> bool:
        operands = argument(node, "self"), argument(node, "other")
        a, b = (dequantized(x) for x in operands)
        end = integers.end_of(node)
        if a is None or b is None or end is None or argument(node, "alpha", 1) != 1:
            return False
        images = integers.alike([a[0], b[0]])
        args: list[Any] = []
        for image, (_, affine) in zip(images, (a, b), strict=True):
            args += [image, affine.scale, affine.zero_point]
        op = edge_op(getattr(torch.ops.executorch_py, name).default)
        result = integers.call(end.node, op, *args, end.affine.scale, *end.limits())
        integers.replace(end.node, result)
        return True

    return fuse


# Operators of one tensor and numbers, element by element.
_UNARY = frozenset(
    f"aten::{name}"
    for name in (
        *("abs", "clamp", "elu", "erf", "exp", "gelu", "hardtanh", "leaky_relu", "neg"),
        *("reciprocal", "relu", "rsqrt", "sigmoid", "silu", "sqrt", "tanh", "log", "sin", "cos"),
        *("pow.Tensor_Scalar", "hardswish", "hardsigmoid", "softplus", "log1p", "floor"),
    )
)
_WITH_NUMBER = frozenset(
    f"aten::{name}.{overload}"
    for name in ("add", "sub", "mul", "div")
    for overload in ("Tensor", "Scalar")
) | {"aten::maximum", "aten::minimum"}


def _fuse_table(integers: IntegerGraph, node: fx.Node) -> bool:
    """Whatever one int8 tensor alone decides, element by element, is looked up."""
    if not is_quantize(node):
        return False
    roots: dict[fx.Node, Affine] = {}
    order = _steps_to(integers, node.args[0], shape_of(node), roots)
    if order is None or len({d.args[0] for d in roots}) != 1 or len(set(roots.values())) != 1:
        return False
    affine = next(iter(roots.values()))
    values: dict[fx.Node, Any] = {root: affine.every_value() for root in roots}
    for step in order:
        args, kwargs = fx.node.map_arg(
            (step.args, step.kwargs), lambda n: values[n] if n in values else integers.number(n)
        )
        values[step] = step.target(*args, **kwargs)
    to = affine_of(node)
    assert to is not None
    table = to.quantize(values[node.args[0]])
    (image,) = integers.alike([next(iter(roots)).args[0]])
    integers.replace(node, integers.lookup(image, table, node))
    return True


def _steps_to(
    integers: IntegerGraph, end: Any, shape: tuple[str, ...], roots: dict[fx.Node, Affine]
) -> list[fx.Node] | None:
    """The steps from dequantized tensors, which become `roots`, to a node, in order."""
    steps: dict[fx.Node, None] = {}

    def visit(node: fx.Node) -> bool:
        if node in steps or node in roots or integers.number(node) is not None:
            return True
        if shape_of(node) != shape or node.meta["val"].dtype != torch.float32:
            return False
        found = dequantized(node)
        if found is not None:
            roots[node] = found[1]
            return True
        if not is_call(node, *_UNARY, *_WITH_NUMBER) or len(steps) > _MAX_STEPS:
            return False
        if not all([visit(n) for n in node.all_input_nodes]):
            return False
        steps[node] = None
        return True

    return list(steps) if visit(end) and roots else None


# ---- pools and joins


def _fuse_max_pool(integers: IntegerGraph, node: fx.Node) -> bool:
    """Windows of integers, and then other numbers for them where those differ."""
    found, values = dequantized(node.args[0]), only_user(node)
    user = only_user(values) if values is not None else None
    if (
        found is None
        or user is None
        or not is_quantize(user)
        or node.args[0].meta["val"].dim() != 4
    ):
        return False
    assert values is not None
    if values.args[1:] != (0,):
        return False
    kernel = argument(node, "kernel_size")
    geometry = [kernel, argument(node, "stride") or kernel]
    geometry += [argument(node, name) for name in ("padding", "dilation")]
    pooled = integers.call(
        user,
        edge_op(torch.ops.executorch_py.qmax_pool2d.default),
        integers.channels_last(found[0]),
        *(_pair(list(values), 2, 1) for values in geometry),
        bool(argument(node, "ceil_mode")),
    )
    integers.replace(user, integers.requantized(pooled, found[1], user))
    return True


def _fuse_mean(integers: IntegerGraph, node: fx.Node) -> bool:
    """Means of whole planes."""
    found, end, value = dequantized(node.args[0]), integers.end_of(node), node.args[0].meta["val"]
    if found is None or end is None or value.dim() != 4 or argument(node, "dtype") is not None:
        return False
    dims, pixels = argument(node, "dim"), value.shape[2] * value.shape[3]
    if sorted(d % 4 for d in dims or ()) != [2, 3] or not isinstance(pixels, int):
        return False
    if not 0 < pixels <= _MAX_PLANE:
        return False
    image, source = found
    result = integers.call(
        end.node,
        edge_op(torch.ops.executorch_py.qmean.default),
        integers.channels_last(image),
        source.zero_point,
        source.scale / (end.affine.scale * pixels),
        *end.limits(),
    )
    integers.replace(end.node, result)
    return True


def _fuse_cat(integers: IntegerGraph, node: fx.Node) -> bool:
    """Integers with the numbers of the result side by side."""
    user = only_user(node)
    parts = [dequantized(part) for part in node.args[0]]
    if user is None or not is_quantize(user) or not all(parts):
        return False
    images = integers.alike([part[0] for part in parts if part is not None])
    same = [
        integers.requantized(image, part[1], user)
        for image, part in zip(images, parts, strict=True)
        if part is not None
    ]
    integers.replace(user, integers.call(user, node.target, same, *node.args[1:], **node.kwargs))
    return True


_PATTERNS: dict[str, Callable[[IntegerGraph, fx.Node], bool]] = {
    "aten::convolution": _fuse_convolution,
    "aten::addmm": _fuse_product,
    "aten::mm": _fuse_product,
    "aten::add.Tensor": _fuse_binary("qadd"),
    "aten::sub.Tensor": _fuse_binary("qsub"),
    "aten::mul.Tensor": _fuse_binary("qmul"),
    "aten::max_pool2d_with_indices": _fuse_max_pool,
    "aten::mean.dim": _fuse_mean,
    "aten::cat": _fuse_cat,
    QUANTIZE: _fuse_table,
}
