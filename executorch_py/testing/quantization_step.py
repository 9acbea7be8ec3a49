"""Quantization step of each output of a program.

Backends round at the same places as eager torch, but with other intermediate precision, so that a
quantized value may differ by one: the result then differs by one quantization step. The step is
read from the lowered program, through delegates and operators that only move elements. An output
that is computed from quantized values by any other operator has no step; rounding.py decides about
it. Knows no tolerances.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from executorch_py.exir import memory
from executorch_py.exir.dialects.own_ops import LIBRARY
from executorch_py.exir.ir.graph import flat_outputs
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.op_traits import (
    DEQUANTIZE,
    MOVES,
    QUANTIZE,
    is_delegate_call,
    is_getitem,
    op_key,
)

# Beginnings of the names of operators on quantized values or weights.
_QUANTIZED = ("quantized_decomposed::", "torchao::", f"{LIBRARY}::q")


def output_steps(program: ExportedProgram) -> list[float | None]:
    """Quantization steps of a method's outputs.

    A step is the scale of an output that was dequantized last, 1 for quantized integers, and None
    for other outputs.
    """
    gm = program.graph_module
    specs = program.graph_signature.output_specs
    results = [
        leaf
        for spec, leaf in zip(specs, flat_outputs(gm.graph), strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    return [_step(gm, leaf) for leaf in results]


def is_quantized(program: ExportedProgram) -> bool:
    """Whether a lowered program has quantized values or weights, also in its delegates."""
    stack = list(graph_modules(program.graph_module))
    for gm in stack:
        for node in gm.graph.nodes:
            if node.op != "call_function":
                continue
            if is_delegate_call(node.target):
                lowered = getattr(gm, node.args[0].target).original_module
                stack += graph_modules(lowered.graph_module)
            key = op_key(node.target).removesuffix("_out").removesuffix(".out")
            if key.startswith(_QUANTIZED):
                return True
    return False


def __getattr__(name: str) -> Any:
    """Deprecated names of this module."""
    if name == "output_quanta":
        warnings.warn(
            "output_quanta is deprecated: use output_steps", DeprecationWarning, stacklevel=2
        )
        return output_steps
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _step(gm: fx.GraphModule, node: Any) -> float | None:
    while isinstance(node, fx.Node) and node.op == "call_function":
        key = op_key(node.target).removesuffix("_out").removesuffix(".out")
        if is_getitem(node.target) and is_delegate_call(node.args[0].target):
            call, index = node.args
            lowered = getattr(gm, call.args[0].target).original_module
            gm, node = lowered.graph_module, flat_outputs(lowered.graph)[index]
        elif node.target is memory.view or key in MOVES:
            node = node.args[0]
        elif key in DEQUANTIZE:
            return _scale(node)
        else:
            is_quantized = key in QUANTIZE or key.startswith(f"{LIBRARY}::q")
            return 1.0 if is_quantized and _is_integer(node) else None
    return None


def _scale(dequantize: fx.Node) -> float | None:
    """The scale if it is one number and the integers are computed; else None."""
    integers, scale = dequantize.args[0], dequantize.args[1]
    computed = isinstance(integers, fx.Node) and integers.op == "call_function"
    return float(scale) if computed and isinstance(scale, (int, float)) else None


def _is_integer(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point
