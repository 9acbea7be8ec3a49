"""Recipes of exports: dataclasses with upstream's fields, and several recipes as one."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
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
            raise ValueError(
                f"recipe: expected one of {known}, which '{backend}' has, got {recipe.value!r}"
            )
        return made

    @classmethod
    def combine(
        cls, recipes: Sequence[ExportRecipe], recipe_name: str | None = None
    ) -> ExportRecipe:
        """One recipe with the passes, partitioners and quantizers of all, in order.

        Settings that are no lists must agree; the backend configuration is the first one given.
        """
        if not recipes:
            raise ValueError("recipes: expected at least one recipe, got none")
        if len(recipes) == 1:
            return recipes[0]
        stages = [tuple(recipe.pipeline_stages or ()) for recipe in recipes]
        configs = [r.executorch_backend_config for r in recipes if r.executorch_backend_config]
        lowering = [r.lowering_recipe for r in recipes if r.lowering_recipe]
        quantization = [r.quantization_recipe for r in recipes if r.quantization_recipe]
        names = [recipe.name for recipe in recipes if recipe.name is not None]
        return cls(
            name=recipe_name or "_".join(names),
            quantization_recipe=_combined_quantization(quantization),
            aten_transform_passes=_joined(recipes, "aten_transform_passes"),
            source_transform_in_place=_agreed(recipes, "source_transform_in_place"),
            lowering_recipe=_combined_lowering(lowering),
            executorch_backend_config=copy.deepcopy(configs[0]) if configs else None,
            pipeline_stages=list(_same("pipeline_stages", stages)) or None,
            mode=_agreed(recipes, "mode"),
            strict=_agreed(recipes, "strict"),
        )


def _joined(recipes: Sequence[Any], field: str) -> list[Any] | None:
    """The lists of a field one after the other; None if all are empty."""
    return [item for recipe in recipes for item in getattr(recipe, field) or ()] or None


def _agreed(recipes: Sequence[Any], field: str) -> Any:
    """The value that a field has in all recipes."""
    return _same(field, [getattr(recipe, field) for recipe in recipes])


def _same(field: str, values: Sequence[Any]) -> Any:
    if any(value != values[0] for value in values):
        found = ", ".join(dict.fromkeys(map(str, values)))
        raise ValueError(f"recipes to combine: expected one value of '{field}', got {found}")
    return values[0]


def _combined_quantization(recipes: Sequence[QuantizationRecipe]) -> QuantizationRecipe | None:
    if not recipes:
        return None
    is_qat = _agreed(recipes, "is_qat")
    trains = [recipe.train_fn for recipe in recipes if recipe.train_fn is not None]
    if len(trains) > 1:
        raise ValueError(
            f"recipes to combine: expected at most one train_fn, got {len(trains)}: train in one"
        )
    lists = {
        field.name: _joined(recipes, field.name)
        for field in fields(QuantizationRecipe)
        if field.name in _QUANTIZATION_LISTS
    }
    if not any(lists.values()):
        return None
    samples = [r.calibration_inputs_fn for r in recipes if r.calibration_inputs_fn is not None]

    def all_samples() -> Iterable[tuple[Any, ...]]:
        for one in samples:
            yield from one()

    return QuantizationRecipe(
        **lists,
        is_qat=is_qat,
        dynamic_batch_size=any(recipe.dynamic_batch_size for recipe in recipes),
        calibration_inputs_fn=all_samples if len(samples) > 1 else next(iter(samples), None),
        train_fn=next(iter(trains), None),
    )


_QUANTIZATION_LISTS = (
    "quantizers",
    "ao_quantization_configs",
    "pre_prepare_passes",
    "post_prepare_passes",
    "pre_convert_passes",
    "post_convert_passes",
)


def _combined_lowering(recipes: Sequence[LoweringRecipe]) -> LoweringRecipe | None:
    partitioners = _combined_partitioners([r.partitioners for r in recipes if r.partitioners])
    method_passes = _joined(recipes, "edge_transform_passes")
    manager_passes = _joined(recipes, "edge_manager_transform_passes")
    configs = [r.edge_compile_config for r in recipes if r.edge_compile_config is not None]
    if not (partitioners or method_passes or manager_passes or configs):
        return None
    _check_edge_configs(configs)
    config = copy.deepcopy(configs[0]) if configs else EdgeCompileConfig()
    return LoweringRecipe(partitioners, method_passes, manager_passes, config)


def _combined_partitioners(given: Sequence[Any]) -> Any:
    if not any(isinstance(one, dict) for one in given):
        return [partitioner for one in given for partitioner in one] or None
    if not all(isinstance(one, dict) for one in given):
        raise ValueError(
            "recipes to combine: expected partitioners that are all lists or all dicts by method, "
            "got both: write the lists as dicts"
        )
    methods = dict.fromkeys(method for one in given for method in one)
    return {method: [p for one in given for p in one.get(method, ())] for method in methods}


def _check_edge_configs(configs: Sequence[EdgeCompileConfig]) -> None:
    """Refuse configurations that differ; lists of operators have no order."""
    for field in fields(EdgeCompileConfig):
        values = [getattr(config, field.name) for config in configs]
        comparable = [sorted(map(str, v)) if isinstance(v, list) else v for v in values]
        if comparable:
            _same(f"edge_compile_config.{field.name}", comparable)
