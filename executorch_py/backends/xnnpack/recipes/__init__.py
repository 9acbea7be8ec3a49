"""Recipes for XNNPACK; importing this package registers them for ExportRecipe.get_recipe."""

from executorch_py.backends.xnnpack.recipes.xnnpack_recipe_provider import XNNPACKRecipeProvider
from executorch_py.backends.xnnpack.recipes.xnnpack_recipe_types import XNNPackRecipeType
from executorch_py.export import recipe_registry

recipe_registry.register_backend_recipe_provider(XNNPACKRecipeProvider())

__all__ = ["XNNPACKRecipeProvider", "XNNPackRecipeType"]
