"""Interface of backends that offer recipes by name; names are upstream's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from executorch_py.export.recipe import ExportRecipe, RecipeType


class BackendRecipeProvider(ABC):
    """The recipes of one backend."""

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """Name of the backend, as its recipe types return it from get_backend_name()."""

    @abstractmethod
    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """The recipe types that create_recipe supports."""

    @abstractmethod
    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """A recipe; None for a type that is not supported."""

    def supports_recipe(self, recipe_type: RecipeType) -> bool:
        return recipe_type in self.get_supported_recipes()
