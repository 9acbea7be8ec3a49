"""Estimated cost of a call, so that summaries can show which calls matter.

The machine is nominal: 50 GFLOP/s, 40 GB/s of memory (caches, mostly), a tenth of a microsecond a
call; a call takes the longer of its arithmetic and its traffic. Arithmetic is counted for products,
convolutions, attention and functions of many steps; other operators count by their bytes alone. An
epilogue that the operator before computes costs nothing. Dynamic sizes count at their upper bounds.
Estimates order operators; they predict no time.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from executorch_py.exir.ir.graph import nodes_in
from executorch_py.exir.ir.match import argument
from executorch_py.exir.ir.op_traits import RESHAPES, is_getitem, is_scalar_op, op_key
from executorch_py.exir.ir.symbolic_sizes import eval_upper_bound

FLOPS_PER_SECOND = 50e9
BYTES_PER_SECOND = 40e9
SECONDS_PER_CALL = 0.1e-6
# Argument over whose last dimension a product sums.
_SUMMED = {
    "aten::addmm": "mat1",
    "aten::baddbmm": "batch1",
    "aten::bmm": "self",
    "aten::linear": "input",
    "aten::matmul": "self",
    "aten::mm": "self",
}
# Steps per element of functions with many; a running sum is sequential.
_STEPS = {
    **dict.fromkeys(("aten::erf", "aten::gelu", "aten::mish", "aten::silu", "aten::tanh"), 16),
    **dict.fromkeys(("aten::cos", "aten::exp", "aten::log", "aten::sigmoid", "aten::sin"), 16),
    **dict.fromkeys(("aten::_softmax", "aten::_log_softmax", "aten::cumsum", "aten::sort"), 32),
}
# Operators that are folded into the product before them, if nothing else reads the product.
_FOLDED = frozenset({"aten::_native_batch_norm_legit_no_training"})
_PRODUCTS = frozenset({"aten::convolution", "aten::linear", "aten::addmm", "aten::mm"})
_CLAMPS = frozenset(f"aten::{n}" for n in ("relu", "relu6", "hardtanh", "clamp"))
_CLAMPED = _PRODUCTS | _FOLDED | {f"aten::{n}.Tensor" for n in ("add", "sub", "mul", "div")}
# Operators that read as many bytes of their inputs as they write.
_PARTIAL_READERS = frozenset(
    f"aten::{name}"
    for name in ("embedding", "gather", "index", "index_select", "select_copy", "slice_copy")
)


def estimated_seconds(node: fx.Node) -> float:
    """Cost of a call on the nominal machine; 0 for a call that runs no kernel."""
    if is_scalar_op(node.target) or op_key(node.target) in RESHAPES or _is_fused(node):
        return 0.0
    arithmetic = flops_of(node) / FLOPS_PER_SECOND
    return SECONDS_PER_CALL + max(arithmetic, bytes_of(node) / BYTES_PER_SECOND)


def _is_fused(node: fx.Node) -> bool:
    """Whether the operator before computes this one as well."""
    key = op_key(node.target)
    before = node.args[0] if key in _FOLDED | _CLAMPS else None
    if isinstance(before, fx.Node) and is_getitem(before.target):
        before = before.args[0] if len(before.users) == 1 else None
    if not isinstance(before, fx.Node) or len(before.users) != 1:
        return False
    return op_key(before.target) in (_PRODUCTS if key in _FOLDED else _CLAMPED)


def flops_of(node: fx.Node) -> int:
    """Multiply-adds as two, of operators that are mostly arithmetic; 0 for others."""
    name = op_key(node.target).split(".")[0]
    result = _shapes(node.meta.get("val"))
    if not result:
        return 0
    if name in _SUMMED:
        summed = _shapes(_example(argument(node, _SUMMED[name])))
        return 2 * math.prod(result[0]) * (summed[0][-1] if summed and summed[0] else 1)
    if name == "aten::convolution":
        weight = _shapes(_example(argument(node, "weight")))
        image = _shapes(_example(argument(node, "input")))
        pixels = image[0] if argument(node, "transposed") else result[0]
        return 2 * math.prod(pixels) * math.prod(weight[0][1:])
    if name.endswith("::scaled_dot_product_attention"):
        query, key = (_shapes(_example(argument(node, n)))[0] for n in ("query", "key"))
        return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + result[0][-1])
    return _STEPS.get(name, 0) * math.prod(result[0])


def bytes_of(node: fx.Node) -> int:
    """Bytes that a call reads and writes; of a tensor that it selects from, the selected ones."""
    written = _bytes(node.meta.get("val"))
    if op_key(node.target).split(".")[0] in _PARTIAL_READERS:
        return 2 * written
    read = {arg: _bytes(_example(arg)) for arg in nodes_in((node.args, node.kwargs))}
    return sum(read.values()) + written


def _example(arg: Any) -> Any:
    return arg.meta.get("val") if isinstance(arg, fx.Node) else None


def _tensors(example: Any) -> list[torch.Tensor]:
    items = example if isinstance(example, (list, tuple)) else [example]
    return [item for item in items if isinstance(item, torch.Tensor)]


def _shapes(example: Any) -> list[list[int]]:
    return [[upper_bound(size) for size in tensor.shape] for tensor in _tensors(example)]


def _bytes(example: Any) -> int:
    return sum(math.prod(map(upper_bound, t.shape)) * t.element_size() for t in _tensors(example))


def upper_bound(size: Any) -> int:
    """Upper bound of a size; 1 if it has none."""
    if isinstance(size, int):
        return size
    bound = eval_upper_bound(size)
    return bound if 0 <= bound < 1 << 40 else 1
