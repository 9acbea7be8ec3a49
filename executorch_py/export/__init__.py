"""One call from a model to a program, described by a recipe; names are upstream's."""

from executorch_py.export.export import ExportSession, export
from executorch_py.export.recipe import (
    AOQuantizationConfig,
    ExportRecipe,
    LoweringRecipe,
    Mode,
    QuantizationRecipe,
)
from executorch_py.export.types import StageType

__all__ = [
    "AOQuantizationConfig",
    "ExportRecipe",
    "ExportSession",
    "LoweringRecipe",
    "Mode",
    "QuantizationRecipe",
    "StageType",
    "export",
]
