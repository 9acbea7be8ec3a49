"""Recipes of backends: one registry for the whole process."""

from __future__ import annotations

from typing import Any

from executorch_py.export import ExportRecipe, RecipeType, recipe_registry
from executorch_py.export.recipe_provider import BackendRecipeProvider
from executorch_py.export.recipe_registry import RecipeRegistry


def test_there_is_one_registry_of_recipes() -> None:
    class Kind(RecipeType):
        PLAIN = "plain"

        @classmethod
        def get_backend_name(cls) -> str:
            return "drop_in_demo"

    class Provider(BackendRecipeProvider):
        @property
        def backend_name(self) -> str:
            return "drop_in_demo"

        def get_supported_recipes(self) -> list[RecipeType]:
            return [Kind.PLAIN]

        def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
            return ExportRecipe(name=str(recipe_type.value))

    RecipeRegistry().register_backend_recipe_provider(Provider())
    try:
        assert RecipeRegistry() is recipe_registry
        assert "drop_in_demo" in recipe_registry.list_backends()
        assert ExportRecipe.get_recipe(Kind.PLAIN).name == "plain"
    finally:
        recipe_registry._providers.pop("drop_in_demo")
