"""constant_prop_pass: upstream's name for propagating constants, quantised ones included.

Same machinery as fold_constants; the difference is what is left alone: upstream folds everything
that depends on constants except the operators in `custom_skip_targets`, and by default keeps
dequantisation where a backend or a quantised kernel can use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.export import ExportedProgram

from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.passes.simplify.fold_constants import fold_constants


def constant_prop_pass(
    exported_program: ExportedProgram,
    custom_skip_targets: Iterable[Any] | None = None,
    _skip_dim_order: bool = True,
) -> ExportedProgram:
    """Replace what depends on constants only by its value; returns the (same) program."""
    fold_constants(exported_program, [op_key(target) for target in custom_skip_targets or ()])
    return exported_program
