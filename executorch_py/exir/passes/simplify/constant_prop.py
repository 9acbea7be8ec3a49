"""constant_prop_pass: upstream's name for folding constants, quantized ones included.

FoldConstants does the work. The difference is in the operators that are left alone: upstream folds
everything that depends on constants except the operators in `custom_skip_targets`, and by default
keeps dequantization where a backend or a quantized kernel can use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.export import ExportedProgram

from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.passes.simplify.fold_constants import FoldConstants


def constant_prop_pass(
    exported_program: ExportedProgram,
    custom_skip_targets: Iterable[Any] | None = None,
    _skip_dim_order: bool = True,
) -> ExportedProgram:
    """Replace results that depend on constants only by their values; returns the same program."""
    FoldConstants(map(op_key, custom_skip_targets or ())).run(exported_program)
    return exported_program
