"""LowerToIntegerOps: dequantize, compute, quantize becomes one operator on integers.

A convolution or linear layer of int8 values and int8 weights, its activation and the quantization
of its result become one operator of the library `executorch_py` (dialects/integer_ops.py). Weights
are packed for its kernel, those of 4 bits two to a byte. Sums, products, pools and means become
operators likewise, and element-wise functions of one tensor a lookup table. Images between these
operators are channels-last. Results are within one quantization step of the operators one by one.
Relies on `meta["val"]` and on CommuteQuantize, which brings the patterns together.
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
from executorch_py.exir.passes.quantized.quantized_graph import (
    QuantizedGraph,
    QuantizedOutput,
    Weight,
    shape_of,
)

# Pixels of a plane whose sum stays below 2^31.
_MAX_PLANE = 1 << 22
_MAX_STEPS = 16


class LowerToIntegerOps(Pass):
    """Replace dequantize, compute, quantize by operators that compute with integers."""

    contract = Contract(requires=facts(Fact.FUNCTIONAL))

    def run(self, program: ExportedProgram) -> bool:
        nodes, mode = program.graph_module.graph.nodes, fake_mode_of(program.graph_module)
        if mode is None or not any("quantize" in str(node.target) for node in nodes):
            return False
        graph = QuantizedGraph(program, mode)
        changed = any([_fuse(graph, node) for node in list(nodes)])
        if changed:
            erase_dead_nodes(program.graph_module.graph)
            drop_unused_constants(program, set(graph.constants))
        return changed


def _fuse(graph: QuantizedGraph, node: fx.Node) -> bool:
    pattern = _PATTERNS.get(op_key(node.target)) if node.op == "call_function" else None
    return pattern is not None and bool(node.users) and pattern(graph, node)


# ---- convolutions


def _fuse_convolution(graph: QuantizedGraph, node: fx.Node) -> bool:
    """A convolution in two dimensions, or in one, whose lines become images of one row."""
    if argument(node, "transposed"):
        return _fuse_transposed(graph, node)
    found, output = dequantized(node.args[0]), graph.output_of(node)
    weight = graph.weight_of(node.args[1])
    if found is None or output is None or weight is None:
        return False
    spatial = weight.values.dim() - 2
    n, groups = weight.values.shape[0], argument(node, "groups")
    bias = graph.bias_of(argument(node, "bias"), n)
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
        image = graph.plane(image, output.node)
    kernel = _pair(list(weight.values.shape[2:]), spatial, 1)
    values = weight.values.reshape(*weight.values.shape[:2], *kernel)
    matrices = integer_ops.matrices_of_kernel(values, groups)
    result = graph.call(
        output.node,
        edge_op(torch.ops.executorch_py.qconvolution.default),
        graph.channels_last(image),
        source.zero_point,
        *graph.columns(weight, matrices, source, output.affine, bias),
        n,
        *output.limits(),
        kernel,
        stride,
        padding,
        dilation,
        groups,
    )
    graph.replace(output.node, result)
    return True


def _numbers(values: Any) -> list[int] | None:
    return list(values) if all(isinstance(v, int) for v in values) else None


def _pair(values: list[int], spatial: int, alone: int) -> list[int]:
    """Expand a scalar or 1-d attribute to two dimensions, padding with `alone`."""
    whole = values * (spatial // len(values)) if len(values) < spatial else values
    return [alone] * (2 - spatial) + whole


def _fuse_transposed(graph: QuantizedGraph, node: fx.Node) -> bool:
    """A transposed convolution as a plain one of stride² as many channels, then interleaved."""
    found, output = dequantized(node.args[0]), graph.output_of(node)
    weight = graph.weight_of(node.args[1], axis=1)
    if found is None or output is None or weight is None or weight.values.dim() != 4:
        return False
    names = ("stride", "padding", "dilation", "output_padding")
    geometry = [_numbers(argument(node, k)) for k in names]
    bias = graph.bias_of(argument(node, "bias"), weight.values.shape[0])
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
    result = graph.call(
        output.node,
        edge_op(torch.ops.executorch_py.qconvolution.default),
        graph.channels_last(image),
        source.zero_point,
        *graph.columns(
            phases,
            integer_ops.matrices_of_kernel(values, 1),
            source,
            output.affine,
            bias.repeat_interleave(step * step),
        ),
        n,
        *output.limits(),
        taps,
        [1, 1],
        [t - 1 for t in taps],
        [1, 1],
        1,
    )
    if step > 1:
        shuffle = edge_op(torch.ops.aten.pixel_shuffle.default)
        result = graph.call(
            output.node, shuffle, graph.copy(result, [0, 1, 2, 3], output.node), step
        )
    for d in (2, 3):
        first, size = padding[d - 2], output.node.meta["val"].shape[d]
        if result.meta["val"].shape[d] != size:
            cut = edge_op(torch.ops.aten.slice_copy.Tensor)
            result = graph.call(output.node, cut, result, d, first, first + size)
    graph.replace(output.node, result)
    return True


def _phases_of(weight: torch.Tensor, step: int) -> torch.Tensor:
    """The kernel [out · step², in, taps, taps] of all phases, in pixel_shuffle's order.

    Pixel a · step + r of the result reads pixel a - j of the image by tap r + j · step.
    """
    out, c_in, *kernel = weight.shape
    taps = [-(-k // step) for k in kernel]
    whole = weight.new_zeros(out, c_in, taps[0] * step, taps[1] * step)
    whole[:, :, : kernel[0], : kernel[1]] = weight
    split = whole.reshape(out, c_in, taps[0], step, taps[1], step).flip(2, 4)
    return split.permute(0, 3, 5, 1, 2, 4).reshape(out * step * step, c_in, *taps)


# ---- linear layers


def _fuse_product(graph: QuantizedGraph, node: fx.Node) -> bool:
    is_mm = is_call(node, "aten::mm")
    if not is_mm and (argument(node, "beta") != 1 or argument(node, "alpha") != 1):
        return False
    left, right = (argument(node, k) for k in (("self", "mat2") if is_mm else ("mat1", "mat2")))
    weight, groupwise = graph.transposed_weight(right), graph.transposed_groupwise_weight(right)
    matrix = weight or groupwise
    if matrix is None or matrix.values.dim() != 2 or node.meta["val"].dtype != torch.float32:
        return False
    bias = graph.bias_of(None if is_mm else argument(node, "self"), matrix.values.shape[0])
    if bias is None:
        return False
    found, output = dequantized(left), graph.output_of(node)
    if weight is not None and found is not None and output is not None:
        return _fuse_linear(graph, found, weight, bias, output)
    rows = _rows_of(graph, node, left)
    if rows is not None and groupwise is not None:
        return _fuse_groupwise(graph, node, rows, groupwise, bias)
    if rows is not None and weight is not None:
        return _fuse_float_linear(graph, node, rows, weight, bias)
    return weight is not None and _fuse_weight(graph, node, left, weight)


def _fuse_linear(
    graph: QuantizedGraph,
    found: tuple[fx.Node, Affine],
    weight: Weight,
    bias: torch.Tensor,
    output: QuantizedOutput,
) -> bool:
    rows, source = found
    result = graph.call(
        output.node,
        edge_op(torch.ops.executorch_py.qlinear.default),
        rows,
        *graph.columns(weight, weight.values.unsqueeze(0), source, output.affine, bias),
        weight.values.shape[0],
        *output.limits(),
    )
    graph.replace(output.node, result)
    return True


def _rows_of(
    graph: QuantizedGraph, node: fx.Node, left: Any
) -> tuple[fx.Node, fx.Node, fx.Node] | None:
    """Integers behind the left operand of a product, their scale and their zero point.

    Scale and zero point are tensors of one number or, known at run time only, of one for each row.
    """
    dequantize = left.args[0] if _keeps_rows(left) else left
    if is_call(dequantize, DEQUANTIZE_BY_TENSORS, DEQUANTIZE_PER_TOKEN):
        rows, scale, zero_point = dequantize.args[:3]
        if dequantize is not left and rows.meta["val"].dtype == torch.int8:
            rows = graph.call(node, left.target, rows, *left.args[1:])
    else:
        found = dequantized(left)
        if found is None:
            return None
        rows, source = found
        numbers = torch.tensor([source.scale]), torch.tensor([source.zero_point])
        scale, zero_point = (
            graph.constant_node((name, source), f"q_{name}", value)
            for name, value in zip(("scale", "zero_point"), numbers, strict=True)
        )
    if rows.meta["val"].dtype != torch.int8 or left.meta["val"].dtype != torch.float32:
        return None
    return rows, scale, zero_point


def _fuse_float_linear(
    graph: QuantizedGraph,
    node: fx.Node,
    rows: tuple[fx.Node, fx.Node, fx.Node],
    weight: Weight,
    bias: torch.Tensor,
) -> bool:
    """A product of int8 rows and weights with an f32 result; rows may be scaled at run time."""
    columns = {
        "sums": weight.values.to(torch.int64).sum(-1).to(torch.int32),
        "scales": weight.scales.to(torch.float32),
        "addends": bias.to(torch.float32),
    }
    key = (weight.key, tuple(bias.tolist()))
    result = graph.call(
        node,
        edge_op(torch.ops.executorch_py.qlinear_float.default),
        *rows,
        graph.packed(weight, weight.values.unsqueeze(0)),
        *(
            graph.constant_node((name, key), f"q_{name}", integer_ops.packed_columns(t, 1))
            for name, t in columns.items()
        ),
        weight.values.shape[0],
    )
    graph.replace(node, result)
    return True


def _fuse_groupwise(
    graph: QuantizedGraph,
    node: fx.Node,
    rows: tuple[fx.Node, fx.Node, fx.Node],
    weight: Integers,
    bias: torch.Tensor,
) -> bool:
    """A product with 4-bit weights, which have a scale for each group of a row."""
    n, n_groups = weight.scales.shape
    matrices = weight.values.reshape(n, n_groups, -1)
    scales, zeros = weight.scales, weight.zeros
    totals = matrices.to(torch.float64).sum(-1)
    if zeros is not None:
        totals -= zeros * matrices.shape[2]
    small = scales.to(torch.bfloat16)
    key = (weight.name, argument(node, "mat2").args[0].name)

    def constant(name: str, value: torch.Tensor, *more: Any) -> fx.Node:
        return graph.constant_node((f"groups {name}", *key, *more), f"q_{name}", value)

    fits = torch.equal(small.to(torch.float32), scales)
    operands = (
        constant("weight", integer_ops.packed_groups(matrices)),
        constant("scales", integer_ops.packed_numbers(small if fits else scales)),
        None
        if zeros is None
        else constant("zeros", integer_ops.packed_numbers(zeros.to(torch.int8))),
        None,
        *(
            constant(name, integer_ops.packed_columns(value.to(torch.float32), 1), *more)
            for name, value, *more in (
                ("sums", (totals * scales).sum(-1)),
                ("addends", bias, tuple(bias.tolist())),
            )
        ),
    )
    target = edge_op(torch.ops.executorch_py.qlinear_groups.default)
    result = graph.call(node, target, *rows, *operands, matrices.shape[2], n)
    graph.replace(node, result)
    return True


def _keeps_rows(node: Any) -> bool:
    """Whether a node is a view as a matrix whose rows are those of its operand."""
    return (
        is_call(node, "aten::view_copy")
        and shape_of(node)[-1] == shape_of(node.args[0])[-1]
        and len(shape_of(node)) == 2
    )


def _fuse_weight(graph: QuantizedGraph, node: fx.Node, left: Any, weight: Weight) -> bool:
    """A product of float rows and an int8 weight, which the kernel dequantizes instead of the
    graph.
    """
    scales = graph.constant_node(
        ("weight scales", weight.key), "q_scales", weight.scales.to(torch.float32)
    )
    target = edge_op(torch.ops.quantized_decomposed.mixed_linear.default)
    result = graph.call(node, target, left, weight.node, scales, None)
    if not is_call(node, "aten::mm"):
        add = edge_op(torch.ops.aten.add.Tensor)
        result = graph.call(node, add, result, argument(node, "self"))
    graph.replace(node, result)
    return True


# ---- element by element


def _fuse_binary(name: str) -> Callable[[QuantizedGraph, fx.Node], bool]:
    def fuse(graph: QuantizedGraph, node: fx.Node) -> bool:
        operands = argument(node, "self"), argument(node, "other")
        a, b = (dequantized(x) for x in operands)
        output = graph.output_of(node)
        if a is None or b is None or output is None or argument(node, "alpha", 1) != 1:
            return False
        images = graph.same_layout([a[0], b[0]])
        args: list[Any] = []
        for image, (_, affine) in zip(images, (a, b), strict=True):
            args += [image, affine.scale, affine.zero_point]
        op = edge_op(getattr(torch.ops.executorch_py, name).default)
        result = graph.call(output.node, op, *args, output.affine.scale, *output.limits())
        graph.replace(output.node, result)
        return True

    return fuse


# Operators of one tensor and numbers, element by element.
_UNARY = frozenset(
    f"aten::{name}"
    for name in (
        "abs",
        "clamp",
        "cos",
        "elu",
        "erf",
        "exp",
        "floor",
        "gelu",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "log",
        "log1p",
        "neg",
        "pow.Tensor_Scalar",
        "reciprocal",
        "relu",
        "rsqrt",
        "sigmoid",
        "silu",
        "sin",
        "softplus",
        "sqrt",
        "tanh",
    )
)
_WITH_NUMBER = frozenset(
    f"aten::{name}.{overload}"
    for name in ("add", "sub", "mul", "div")
    for overload in ("Tensor", "Scalar")
) | {"aten::maximum", "aten::minimum"}


def _fuse_table(graph: QuantizedGraph, node: fx.Node) -> bool:
    """An element-wise function of one int8 tensor becomes a table of its 256 values."""
    if not is_quantize(node):
        return False
    roots: dict[fx.Node, Affine] = {}
    order = _steps_to(graph, node.args[0], shape_of(node), roots)
    if order is None or len({d.args[0] for d in roots}) != 1 or len(set(roots.values())) != 1:
        return False
    affine = next(iter(roots.values()))
    values: dict[fx.Node, Any] = {root: affine.every_value() for root in roots}
    for step in order:
        args, kwargs = fx.node.map_arg(
            (step.args, step.kwargs), lambda n: values[n] if n in values else graph.number(n)
        )
        values[step] = step.target(*args, **kwargs)
    to = affine_of(node)
    assert to is not None
    table = to.quantize(values[node.args[0]])
    (image,) = graph.same_layout([next(iter(roots)).args[0]])
    graph.replace(node, graph.lookup(image, table, node))
    return True


def _steps_to(
    graph: QuantizedGraph, last: Any, shape: tuple[str, ...], roots: dict[fx.Node, Affine]
) -> list[fx.Node] | None:
    """Calls from dequantized tensors, which become `roots`, to the node `last`, in order."""
    steps: dict[fx.Node, None] = {}

    def visit(node: fx.Node) -> bool:
        if node in steps or node in roots or graph.number(node) is not None:
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

    return list(steps) if visit(last) and roots else None


# ---- pools and concatenation


def _fuse_max_pool(graph: QuantizedGraph, node: fx.Node) -> bool:
    """A pool of integers, and a lookup where the result is quantized with other parameters."""
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
    pooled = graph.call(
        user,
        edge_op(torch.ops.executorch_py.qmax_pool2d.default),
        graph.channels_last(found[0]),
        *(_pair(list(values), 2, 1) for values in geometry),
        bool(argument(node, "ceil_mode")),
    )
    graph.replace(user, graph.requantized(pooled, found[1], user))
    return True


def _fuse_mean(graph: QuantizedGraph, node: fx.Node) -> bool:
    """A mean over whole planes."""
    found, output = dequantized(node.args[0]), graph.output_of(node)
    value = node.args[0].meta["val"]
    if found is None or output is None or value.dim() != 4 or argument(node, "dtype") is not None:
        return False
    dims, pixels = argument(node, "dim"), value.shape[2] * value.shape[3]
    if sorted(d % 4 for d in dims or ()) != [2, 3] or not isinstance(pixels, int):
        return False
    if not 0 < pixels <= _MAX_PLANE:
        return False
    image, source = found
    result = graph.call(
        output.node,
        edge_op(torch.ops.executorch_py.qmean.default),
        graph.channels_last(image),
        source.zero_point,
        source.scale / (output.affine.scale * pixels),
        *output.limits(),
    )
    graph.replace(output.node, result)
    return True


def _fuse_cat(graph: QuantizedGraph, node: fx.Node) -> bool:
    """A concatenation of integers, all with the quantization parameters of the result."""
    user = only_user(node)
    parts = [dequantized(part) for part in node.args[0]]
    if user is None or not is_quantize(user) or not all(parts):
        return False
    images = graph.same_layout([part[0] for part in parts if part is not None])
    same = [
        graph.requantized(image, part[1], user)
        for image, part in zip(images, parts, strict=True)
        if part is not None
    ]
    graph.replace(user, graph.call(user, node.target, same, *node.args[1:], **node.kwargs))
    return True


_PATTERNS: dict[str, Callable[[QuantizedGraph, fx.Node], bool]] = {
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
