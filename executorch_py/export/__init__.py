"""Export by recipe: one call from a model to a program. Names are upstream's."""

from executorch_py.export.export import ExportSession, export
from executorch_py.export.recipe import (
    AOQuantizationConfig,
    ExportRecipe,
    LoweringRecipe,
    Mode,
    QuantizationRecipe,
    RecipeType,
)
from executorch_py.export.recipe_provider import BackendRecipeProvider
from executorch_py.export.recipe_registry import recipe_registry
from executorch_py.export.types import StageType

__all__ = [
    "AOQuantizationConfig",
    "BackendRecipeProvider",
    "ExportRecipe",
    "ExportSession",
    "LoweringRecipe",
    "Mode",
    "QuantizationRecipe",
    "RecipeType",
    "StageType",
    "export",
    "recipe_registry",
]
