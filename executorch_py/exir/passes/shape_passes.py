"""Passes that give every value a spec with the sizes that tracing saw, in order."""

from __future__ import annotations

from typing import Any

from executorch_py.exir.passes.lower.spec_prop import SpecPropPass
from executorch_py.exir.passes.lower.sym_shape_eval import HintBasedSymShapeEvalPass


def propagate_dynamic_shape(dynamic_memory_planning_mode: Any = None) -> list[Any]:
    """Passes for `transform`, before a delegate that reads specs. The mode has no effect."""
    return [SpecPropPass(), HintBasedSymShapeEvalPass()]
