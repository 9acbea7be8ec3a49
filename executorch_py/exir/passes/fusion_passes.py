"""Fusion of quantized operators over a program, with low-bit tables packed and constants folded."""

from __future__ import annotations

from torch.export import ExportedProgram

from executorch_py.exir.passes.quantized.quant_fusion import QuantFusionPass
from executorch_py.exir.passes.quantized.weight_only_quantization import WeightOnlyQuantization
from executorch_py.exir.passes.simplify.fold_constants import constant_prop_pass
from executorch_py.exir.passes.to_edge.replace_aten_with_edge import OpReplacePass


def quant_fusion_and_const_prop_pass(program: ExportedProgram) -> ExportedProgram:
    """Fuse, pack and fold, in place; returns the same program."""
    QuantFusionPass().run(program)
    WeightOnlyQuantization().run(program)
    OpReplacePass().run(program)
    return constant_prop_pass(program)
