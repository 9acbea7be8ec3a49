"""The recipes of backends by name. A backend is known once its package of recipes is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch_py.export.recipe import ExportRecipe, RecipeType
from executorch_py.export.recipe_provider import BackendRecipeProvider


class RecipeRegistry:
    """Providers by the names of their backends."""

    def __init__(self) -> None:
        self._providers: dict[str, BackendRecipeProvider] = {}

    def register_backend_recipe_provider(self, provider: BackendRecipeProvider) -> None:
        """Make a provider known; a later one of the same name takes its place."""
        self._providers[provider.backend_name] = provider

    def _provider(self, backend: str) -> BackendRecipeProvider:
        if backend not in self._providers:
            raise ValueError(
                f"no backend '{backend}'; known are {sorted(self._providers)}: import the "
                "package of its recipes"
            )
        return self._providers[backend]

    def create_recipe(
        self, recipe_type: RecipeType, backend: str, **kwargs: Any
    ) -> ExportRecipe | None:
        """A recipe of that backend, None for a type that it does not support."""
        return self._provider(backend).create_recipe(recipe_type, **kwargs)

    def get_supported_recipes(self, backend: str) -> Sequence[RecipeType]:
        """The types that the backend knows."""
        return self._provider(backend).get_supported_recipes()

    def list_backends(self) -> Sequence[str]:
        """The names of the known backends."""
        return list(self._providers)


recipe_registry = RecipeRegistry()
ExportRecipe._registry = recipe_registry
