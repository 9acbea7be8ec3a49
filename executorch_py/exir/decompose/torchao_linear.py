"""Products of torchao's int8 tensors become linear layers of dequantized operands.

    mul(mm(x, to(t(w))), s)                      only weights are quantized
    mul(mul(to(p), sx), s)                       rows of x, too; minus a correction for zero points
    p = _int_mm(q, t(w))                         on a processor with AMX, or without AVX-512 VNNI
    p = _int_mm(q + 128, t(w)) - 128 sum(t(w))   elsewhere, where q + 128 is uint8

Such a graph dequantizes whole weights in every call, or multiplies by an operator that no runtime
has. Backends know linear(dequantize(q), dequantize(w)) instead. Weights stay int8 in the file, and
the file is the same on every processor. The same numbers are summed in another order. Products of
other forms are decomposed here, and their quantized operands by
passes/quantized/decompose_affine.py. Knows nothing of the edge dialect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.out_dtype import out_dtype
from torch.export import ExportedProgram

from executorch_py.exir.ir.fake_values import evaluate, fake_evaluation, fake_mode_of
from executorch_py.exir.ir.graph import copy_program, erase_dead_nodes

_aten = torch.ops.aten
_CASTS = frozenset({_aten.to.dtype, _aten._to_copy.default})
_SHAPES = frozenset(
    {
        _aten.reshape.default,
        _aten.view.default,
        _aten.flatten.using_ints,
        _aten.contiguous.default,
        _aten.alias.default,
        _aten.clone.default,
    }
)
_TRANSPOSES = frozenset({_aten.t.default, _aten.transpose.int, _aten.permute.default})
_SUBTRACTIONS = frozenset({_aten.sub.Tensor, _aten.sub_.Tensor})
_UNSIGNED = 128  # int8 plus this is uint8, which AVX-512 VNNI multiplies by int8


@dataclass(frozen=True)
class _Product:
    """A matched product: its `mul` node, and its operands; `x` is [rows, columns].

    `quantized` is the node that quantized `x`, if there is one.
    """

    node: fx.Node
    x: fx.Node
    quantized: fx.Node | None
    weight: fx.Node
    scales: fx.Node


def restore_linear_layers(program: ExportedProgram) -> ExportedProgram:
    """The program, or a copy with linear layers if it has such products."""
    if not any(_products(program.graph_module)):
        return program
    program = copy_program(program)
    gm = program.graph_module
    mode = fake_mode_of(gm)
    assert mode is not None
    with fake_evaluation(mode):
        for product in list(_products(gm)):
            _replace(product)
    erase_dead_nodes(gm.graph)
    gm.recompile()
    return program


def _int_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product outside linear layers: the same integers, as int32 operands."""
    return torch.mm(a.to(torch.int32), b.to(torch.int32))


def _out_dtype(operator: Any, dtype: torch.dtype, *args: Any) -> torch.Tensor:
    """An operator whose operands are cast to the type of its result.

    Sums of integers that torchao gave as f32 (it does where a compiler traces) are exact in f64.
    """
    types = [arg.dtype for arg in args if isinstance(arg, torch.Tensor)]
    wide = reduce(torch.promote_types, types, dtype)
    if wide.is_floating_point and not dtype.is_floating_point:
        wide = torch.float64
    operands = [arg.to(wide) if isinstance(arg, torch.Tensor) else arg for arg in args]
    result: torch.Tensor = operator(*operands)
    return result.to(dtype)


def integer_decompositions() -> dict[Any, Any]:
    """Operator → rule."""
    return {_aten._int_mm.default: _int_mm, out_dtype: _out_dtype}


# ---- reading


def _products(gm: fx.GraphModule) -> Iterable[_Product]:
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is _aten.mul.Tensor:
            found = _product(node)
            if found is not None:
                yield found


def _through(node: Any, targets: Iterable[Any]) -> Any:
    while isinstance(node, fx.Node) and node.target in targets:
        node = node.args[0]
    return node


def _calls(node: Any, *targets: Any) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


def _product(node: fx.Node) -> _Product | None:
    scales = _through(node.args[1], _SHAPES | _CASTS)
    product = _through(node.args[0], _CASTS)
    is_corrected = _calls(product, _aten.sub.Tensor)
    correction = product.args[1] if is_corrected else None
    product = _through(product.args[0], _CASTS) if is_corrected else product
    if _calls(product, _aten.mm.default) and not is_corrected:
        x, quantized, transposed = product.args[0], None, product.args[1]
        if not _calls(transposed, *_CASTS):
            return None
    elif _calls(product, _aten.mul.Tensor):
        factors = _integer_factors(_through(product.args[0], _CASTS))
        if factors is None:
            return None
        x, transposed = factors
        quantized = _through(x, _SHAPES)
        if not _calls(quantized, torch.ops.torchao.quantize_affine.default):
            return None
        if _through(product.args[1], _SHAPES | _CASTS) is not quantized.args[2]:
            return None
    else:
        return None
    transposed = _through(transposed, _CASTS)
    if not _calls(transposed, *_TRANSPOSES):
        return None
    weight = _through(transposed.args[0], _SHAPES)
    found = _Product(node, x, quantized, weight, scales)
    if is_corrected and not _is_sum_of(correction, weight):
        return None
    return found if _fits(found) else None


def _integer_factors(integers: Any) -> tuple[fx.Node, fx.Node] | None:
    """Operands of an exact product of int8 matrices, in either of torchao's forms."""
    if _calls(integers, _aten._int_mm.default):
        return integers.args[0], integers.args[1]
    if not _calls(integers, *_SUBTRACTIONS) or integers.kwargs:
        return None
    product, correction = (_through(operand, _CASTS) for operand in integers.args)
    if not _calls(product, _aten._int_mm.default):
        return None
    shifted, matrix = product.args
    added = _through(shifted, _CASTS)
    if not _calls(added, _aten.add.Tensor) or added.args[1] != _UNSIGNED or added.kwargs:
        return None
    x = _through(added.args[0], _CASTS)
    dtypes = [n.meta["val"].dtype for n in (x, added, shifted)]
    if dtypes != [torch.int8, torch.int32, torch.uint8]:
        return None
    return (x, matrix) if _is_sum_of_columns(correction, matrix) else None


def _is_sum_of_columns(correction: Any, matrix: fx.Node) -> bool:
    """Whether `correction` is the sums of the matrix's columns times the offset of uint8."""
    if not _calls(correction, _aten.mul.Tensor) or correction.args[1] != _UNSIGNED:
        return False
    total = _through(correction.args[0], _CASTS)
    if not _calls(total, _aten.sum.dim_IntList) or len(total.args) < 2:
        return False
    dims, summed = total.args[1], _through(total.args[0], _CASTS)
    return summed is matrix and [d % 2 for d in dims] == [0]


def _is_sum_of(correction: Any, weight: fx.Node) -> bool:
    """Whether a correction is a multiple of the sums of the weights' rows."""
    factors = _through(correction, _CASTS)
    if not _calls(factors, _aten.mul.Tensor):
        return False
    total = _through(factors.args[1], _CASTS)
    return _calls(total, _aten.sum.dim_IntList) and _through(total.args[0], _SHAPES) is weight


def _fits(product: _Product) -> bool:
    """Whether the weight is an int8 matrix with one scale or one for each row, and the rest f32."""
    values = [n.meta.get("val") for n in (product.node, product.weight, product.scales)]
    if not all(isinstance(value, torch.Tensor) for value in values):
        return False
    result, weight, scales = values
    return (
        result.dtype is scales.dtype is torch.float32
        and weight.dtype is torch.int8
        and weight.dim() == result.dim() == 2
        and scales.numel() in (1, weight.shape[0])
    )


# ---- writing


def _replace(product: _Product) -> None:
    graph, node = product.node.graph, product.node

    def call(target: Any, *args: Any) -> fx.Node:
        made = graph.call_function(target, args)
        made.meta["val"] = evaluate(made)
        if "nn_module_stack" in node.meta:
            made.meta["nn_module_stack"] = node.meta["nn_module_stack"]
        return made

    weight, scales = product.weight.meta["val"], product.scales.meta["val"]
    dequantize = torch.ops.torchao.dequantize_affine.default
    block = [1 if scales.numel() > 1 else weight.shape[0], weight.shape[1]]
    with graph.inserting_before(node):
        x = product.x
        if product.quantized is not None:
            how = product.quantized.args[1:]  # block, scale, zero point, type, limits
            x = call(dequantize, product.quantized, *how)
            x = call(_aten.reshape.default, x, [-1, weight.shape[1]])
        wide = call(dequantize, product.weight, block, product.scales, None, torch.int8, -128, 127)
        made = call(_aten.linear.default, x, wide)
    made.meta.update({key: value for key, value in node.meta.items() if key != "val"})
    node.replace_all_uses_with(made)
