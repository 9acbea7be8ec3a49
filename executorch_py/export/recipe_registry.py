"""Registry of backends' recipes. Importing a package of recipes registers its backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from executorch_py.export.recipe import ExportRecipe, RecipeType
from executorch_py.export.recipe_provider import BackendRecipeProvider


class RecipeRegistry:
    """Recipe providers by the names of their backends; one object for the whole process."""

    _instance: ClassVar[RecipeRegistry | None] = None
    _providers: dict[str, BackendRecipeProvider]

    def __new__(cls) -> RecipeRegistry:
        if RecipeRegistry._instance is None:
            RecipeRegistry._instance = super().__new__(cls)
            RecipeRegistry._instance._providers = {}
        return RecipeRegistry._instance

    def register_backend_recipe_provider(self, provider: BackendRecipeProvider) -> None:
        """Register a provider; it replaces an earlier one of the same name."""
        self._providers[provider.backend_name] = provider

    def _provider(self, backend: str) -> BackendRecipeProvider:
        if backend not in self._providers:
            raise ValueError(
                f"backend: expected one of {sorted(self._providers)}, got {backend!r}: import the "
                "package of its recipes"
            )
        return self._providers[backend]

    def create_recipe(
        self, recipe_type: RecipeType, backend: str, **kwargs: Any
    ) -> ExportRecipe | None:
        """A recipe of the backend; None for a type that it does not support."""
        return self._provider(backend).create_recipe(recipe_type, **kwargs)

    def get_supported_recipes(self, backend: str) -> Sequence[RecipeType]:
        """The recipe types that the backend supports."""
        return self._provider(backend).get_supported_recipes()

    def list_backends(self) -> Sequence[str]:
        """The names of the registered backends."""
        return list(self._providers)


recipe_registry = RecipeRegistry()
ExportRecipe._registry = recipe_registry
