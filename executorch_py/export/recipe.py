"""Recipes of exports: dataclasses with upstream's fields and no logic."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, EnumMeta
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from torch import fx, nn
from torch.export import ExportedProgram

from executorch_py.exir.backend.partitioner import Partitioner
from executorch_py.exir.program.config import EdgeCompileConfig, ExecutorchBackendConfig
from executorch_py.exir.program.managers import EdgeProgramManager
from executorch_py.export.types import StageType

if TYPE_CHECKING:
    from executorch_py.export.recipe_registry import RecipeRegistry

GraphPass: TypeAlias = Callable[[fx.GraphModule], fx.GraphModule]


class _AbstractEnumMeta(EnumMeta, ABCMeta):
    """Metaclass of enumerations with abstract methods."""


class RecipeType(Enum, metaclass=_AbstractEnumMeta):
    """Names of a backend's recipes; each backend derives its own enumeration."""

    @classmethod
    @abstractmethod
    def get_backend_name(cls) -> str:
        """Name of the recipes' backend."""


class Mode(str, Enum):
    """Upstream's modes of export; both have the same checks here."""

    DEBUG = "debug"
    RELEASE = "release"


@dataclass
class AOQuantizationConfig:
    """A torchao configuration for `quantize_`, and a filter of modules."""

    ao_base_config: Any
    filter_fn: Callable[[nn.Module, str], bool] | None = None


@dataclass
class QuantizationRecipe:
    """Quantization of the eager model (torchao configuration) and of its graph (quantizers)."""

    quantizers: list[Any] | None = None
    ao_quantization_configs: list[AOQuantizationConfig] | None = None
    is_qat: bool = False
    dynamic_batch_size: bool = False
    calibration_inputs_fn: Callable[[], Iterable[tuple[Any, ...]]] | None = None
    train_fn: Callable[[fx.GraphModule], None] | None = None
    pre_prepare_passes: list[GraphPass] | None = None
    post_prepare_passes: list[GraphPass] | None = None
    pre_convert_passes: list[GraphPass] | None = None
    post_convert_passes: list[GraphPass] | None = None

    def get_quantizers(self) -> list[Any] | None:
        return self.quantizers


@dataclass
class LoweringRecipe:
    """Partitioners, passes over edge programs, and the configuration of the edge dialect.

    `edge_transform_passes` are called with a method's name and program, and
    `edge_manager_transform_passes` with the manager; both return passes.
    """

    partitioners: list[Partitioner] | dict[str, list[Partitioner]] | None = None
    edge_transform_passes: list[Callable[[str, ExportedProgram], Any]] | None = None
    edge_manager_transform_passes: list[Callable[[EdgeProgramManager], Any]] | None = None
    edge_compile_config: EdgeCompileConfig | None = None


@dataclass
class ExportRecipe:
    """All settings of one export. Stages have defaults for settings that are None."""

    name: str | None = None
    quantization_recipe: QuantizationRecipe | None = None
    aten_transform_passes: list[Callable[[str, ExportedProgram], ExportedProgram]] | None = None
    source_transform_in_place: bool = False
    lowering_recipe: LoweringRecipe | None = None
    executorch_backend_config: ExecutorchBackendConfig | None = None
    pipeline_stages: list[StageType] | None = None
    mode: Mode = Mode.RELEASE
    strict: bool = True
    # Set by recipe_registry.py, which imports this module.
    _registry: ClassVar[RecipeRegistry]

    @classmethod
    def get_recipe(cls, recipe: RecipeType, **kwargs: Any) -> ExportRecipe:
        """The recipe of this type, from its backend."""
        if not isinstance(recipe, RecipeType):
            raise ValueError(f"recipe: expected a member of a RecipeType, got {recipe!r}")
        backend = recipe.get_backend_name()
        made = cls._registry.create_recipe(recipe, backend, **kwargs)
        if made is None:
            known = [kind.value for kind in cls._registry.get_supported_recipes(backend)]
            raise ValueError(f"'{backend}' has no recipe '{recipe.value}'; expected one of {known}")
        return made
