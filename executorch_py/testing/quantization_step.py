"""How far apart neighbouring values of a quantized program's outputs are.

Backends round where eager torch rounds, with other intermediate precision, so that an integer may
come out as its neighbour: a result is off by one quantum then. Read from the lowered program,
through delegates and what only moves elements; an output that anything else is computed behind has
none. Knows nothing of tolerances.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from executorch_py.exir import memory
from executorch_py.exir.dialects.own_ops import LIBRARY
from executorch_py.exir.ir.graph import flat_outputs
from executorch_py.exir.ir.op_traits import (
    DEQUANTIZE,
    MOVES,
    QUANTIZE,
    is_delegate_call,
    is_getitem,
    op_key,
)


def output_quanta(program: ExportedProgram) -> list[float | None]:
    """Per result of a method its quantum: the scale of numbers that were dequantized last, 1 for
    integers that were quantized, None for everything else.
    """
    gm = program.graph_module
    specs = program.graph_signature.output_specs
    results = [
        leaf
        for spec, leaf in zip(specs, flat_outputs(gm.graph), strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    return [_quantum(gm, leaf) for leaf in results]


def _quantum(gm: fx.GraphModule, node: Any) -> float | None:
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
    """The one scale of integers that were computed; None for others."""
    integers, scale = dequantize.args[0], dequantize.args[1]
    computed = isinstance(integers, fx.Node) and integers.op == "call_function"
    return float(scale) if computed and isinstance(scale, (int, float)) else None


def _is_integer(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point
