"""The stages of an export: each takes an artifact, and keeps the artifact that it makes of it.

Names and arguments are upstream's. A stage names the stages that may precede it; the order is that
of the session (export.py), which also replaces stages by those that a script registers. The stages
call the exporter's functions; quantization is in quantize.py.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, TypeAlias, TypeVar

import torch
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_manager import PassManager as GraphModulePassManager

from executorch_py.exir.inspect import get_delegation_info
from executorch_py.exir.program.edge import to_edge
from executorch_py.exir.program.lower import to_edge_transform_and_lower
from executorch_py.exir.program.managers import EdgeProgramManager
from executorch_py.exir.trace_errors import readable_errors
from executorch_py.export.quantize import quantize_graph, transform_source
from executorch_py.export.recipe import LoweringRecipe, QuantizationRecipe
from executorch_py.export.types import StageType

MakesPasses: TypeAlias = Sequence[Callable[[str, ExportedProgram], Any]] | None
Partitioners: TypeAlias = list[Any] | dict[str, list[Any]] | None


class PipelineArtifact:
    """Data that one stage hands to the next, and the context of the whole export."""

    def __init__(self, data: Any, context: dict[str, Any]) -> None:
        self.data = data
        self.context = context

    def add_context(self, key: str, value: Any) -> None:
        """Set an entry of the context."""
        self.context[key] = value

    def get_context(self, key: str, default: Any = None) -> Any:
        """An entry of the context."""
        return self.context.get(key, default)

    def copy_with_new_data(self, new_data: Any) -> PipelineArtifact:
        """An artifact of other data, with a copy of the context."""
        return PipelineArtifact(new_data, dict(self.context))


class Stage(ABC):
    """One stage. Subclasses define the properties, and `run`, which sets `_artifact`."""

    _artifact: PipelineArtifact | None = None

    @property
    @abstractmethod
    def stage_type(self) -> StageType:
        """The stage's name."""

    @property
    @abstractmethod
    def valid_predecessor_stages(self) -> list[StageType]:
        """Stages that may directly precede this one; an empty list allows all."""

    @property
    @abstractmethod
    def can_start_pipeline(self) -> bool:
        """Whether the stage may be the first."""

    @abstractmethod
    def run(self, artifact: PipelineArtifact) -> None:
        """Make an artifact of this one."""

    def get_artifacts(self) -> PipelineArtifact:
        """The artifact of the last run."""
        if self._artifact is None:
            raise RuntimeError(
                f"{type(self).__name__}: expected a run before its artifact is read, got none"
            )
        return self._artifact


class _FixedStage(Stage):
    """A stage of this package, whose properties are constants."""

    _type: ClassVar[StageType]
    _after: ClassVar[tuple[StageType, ...]]
    _starts: ClassVar[bool]

    @property
    def stage_type(self) -> StageType:
        return self._type

    @property
    def valid_predecessor_stages(self) -> list[StageType]:
        return list(self._after)

    @property
    def can_start_pipeline(self) -> bool:
        return self._starts


class SourceTransformStage(_FixedStage):
    """Applies torchao's `quantize_` to the eager models, or to copies of them."""

    _type, _after, _starts = StageType.SOURCE_TRANSFORM, (), True

    def __init__(
        self, quantization_recipe: QuantizationRecipe | None, in_place: bool = False
    ) -> None:
        self._quantization_recipe = quantization_recipe
        self._in_place = in_place

    def run(self, artifact: PipelineArtifact) -> None:
        recipe = self._quantization_recipe
        if recipe is None or not recipe.ao_quantization_configs:
            self._artifact = artifact
            return
        models = artifact.data if self._in_place else copy.deepcopy(artifact.data)
        for model in models.values():
            transform_source(model, recipe)
        self._artifact = artifact.copy_with_new_data(models)


class QuantizeStage(_FixedStage):
    """Quantizes the graphs of models by PT2E."""

    _type, _after, _starts = StageType.QUANTIZE, (StageType.SOURCE_TRANSFORM,), True

    def __init__(self, quantization_recipe: QuantizationRecipe | None) -> None:
        self._quantization_recipe = quantization_recipe

    def run(self, artifact: PipelineArtifact) -> None:
        recipe = self._quantization_recipe
        if recipe is None or not recipe.quantizers:
            self._artifact = artifact
            return
        self._artifact = artifact.copy_with_new_data(
            {
                name: quantize_graph(model, samples_of(artifact, name), recipe)
                for name, model in artifact.data.items()
            }
        )


class TorchExportStage(_FixedStage):
    """Exports models by torch.export, and runs passes over the exported programs."""

    _type, _starts = StageType.TORCH_EXPORT, True
    _after = (StageType.SOURCE_TRANSFORM, StageType.QUANTIZE)

    def __init__(
        self,
        aten_transform_passes: Sequence[Callable[[str, ExportedProgram], ExportedProgram]]
        | None = None,
        strict: bool = True,
    ) -> None:
        self._aten_transform_passes = aten_transform_passes
        self.strict = strict

    def run(self, artifact: PipelineArtifact) -> None:
        dynamic_shapes = artifact.get_context("dynamic_shapes") or {}
        programs = {}
        for name, model in artifact.data.items():
            inputs, shapes = samples_of(artifact, name)[0], dynamic_shapes.get(name)
            with torch.no_grad(), readable_errors():
                program = torch.export.export(
                    model, inputs, dynamic_shapes=shapes, strict=self.strict
                )
            for change in self._aten_transform_passes or ():
                program = _called(change, "aten_transform_passes")(name, program)
            programs[name] = program
        self._artifact = artifact.copy_with_new_data(programs)


_S = TypeVar("_S", bound="_LoweringStage")


class _LoweringStage(_FixedStage):
    """A stage that a LoweringRecipe describes, in the order of the constructor's arguments."""

    _fields: ClassVar[tuple[str, ...]]

    @classmethod
    def from_recipe(cls: type[_S], lowering_recipe: LoweringRecipe | None) -> _S:
        """The stage with the settings of a recipe."""
        if lowering_recipe is None:
            return cls()
        return cls(*(getattr(lowering_recipe, name) for name in cls._fields))


class _Delegates(_LoweringStage):
    """A stage that delegates, and leaves reports of that in the context."""

    def _keep(self, artifact: PipelineArtifact, manager: EdgeProgramManager) -> None:
        """Keep the manager, and the delegation of each method; that of `forward` comes first."""
        found = {
            name: get_delegation_info(manager.exported_program(name).graph_module)
            for name in sorted(manager.methods)
        }
        self._artifact = artifact.copy_with_new_data(manager)
        self._artifact.add_context("delegation_info_by_method", found)
        first = next(iter(found.values()), None)
        self._artifact.add_context("delegation_info", found.get("forward", first))

    @property
    def delegation_info(self) -> Any:
        """The delegation of `forward`, or of the first method by name."""
        return self.get_artifacts().get_context("delegation_info")

    @property
    def delegation_info_by_method(self) -> dict[str, Any]:
        """The delegation of each method."""
        found: dict[str, Any] = self.get_artifacts().get_context("delegation_info_by_method")
        return found


class EdgeTransformAndLowerStage(_Delegates):
    """Converts exported programs to the edge dialect, runs passes, and delegates."""

    _type, _starts = StageType.TO_EDGE_TRANSFORM_AND_LOWER, True
    _after = (StageType.TORCH_EXPORT,)
    _fields = ("partitioners", "edge_transform_passes", "edge_compile_config")

    def __init__(
        self,
        partitioners: Partitioners = None,
        transform_passes: MakesPasses = None,
        compile_config: Any = None,
    ) -> None:
        self._partitioners = partitioners
        self._transform_passes = transform_passes
        self._compile_config = compile_config

    def run(self, artifact: PipelineArtifact) -> None:
        manager = to_edge_transform_and_lower(
            artifact.data,
            transform_passes=_passes_of(artifact.data, self._transform_passes),
            partitioner=self._partitioners,
            constant_methods=artifact.get_context("constant_methods"),
            compile_config=self._compile_config,
            generate_etrecord=artifact.get_context("generate_etrecord", False),
        )
        self._keep(artifact, manager)


class ToEdgeStage(_LoweringStage):
    """Converts exported programs to the edge dialect."""

    _type, _after, _starts = StageType.TO_EDGE, (StageType.TORCH_EXPORT,), True
    _fields = ("edge_compile_config",)

    def __init__(self, edge_compile_config: Any = None) -> None:
        self._edge_compile_config = edge_compile_config

    def run(self, artifact: PipelineArtifact) -> None:
        self._artifact = artifact.copy_with_new_data(
            to_edge(
                artifact.data,
                constant_methods=artifact.get_context("constant_methods"),
                compile_config=self._edge_compile_config,
                generate_etrecord=artifact.get_context("generate_etrecord", False),
            )
        )


class EdgeProgramManagerTransformStage(_LoweringStage):
    """Runs passes over edge programs: those of each method, then those made for the manager.

    A session runs the former in TO_EDGE_TRANSFORM_AND_LOWER if that stage is in its pipeline.
    """

    _type, _starts = StageType.EDGE_PROGRAM_MANAGER_TRANSFORM, False
    _after = (StageType.TO_EDGE, StageType.TO_EDGE_TRANSFORM_AND_LOWER)
    _fields = ("edge_transform_passes", "edge_manager_transform_passes")

    def __init__(
        self,
        edge_transform_passes: MakesPasses = None,
        edge_manager_transform_passes: Sequence[Callable[[EdgeProgramManager], Any]] | None = None,
    ) -> None:
        self._edge_transform_passes = edge_transform_passes
        self._edge_manager_transform_passes = edge_manager_transform_passes

    def run(self, artifact: PipelineArtifact) -> None:
        manager = artifact.data
        if not isinstance(manager, EdgeProgramManager):
            raise TypeError(
                f"{type(self).__name__}: expected an EdgeProgramManager, got a "
                f"{type(manager).__name__}"
            )
        programs = {name: manager.exported_program(name) for name in sorted(manager.methods)}
        passes = _passes_of(programs, self._edge_transform_passes)
        if passes is not None:
            manager = manager.transform(passes)
        for make in self._edge_manager_transform_passes or ():
            passes = _called(make, "edge_manager_transform_passes")(manager)
            if passes:
                manager = manager.transform(passes)
        self._artifact = artifact.copy_with_new_data(manager)


class ToBackendStage(_Delegates):
    """Delegates parts of edge programs, one partitioner of each method after the other."""

    _type, _starts = StageType.TO_BACKEND, False
    _after = (StageType.TO_EDGE, StageType.EDGE_PROGRAM_MANAGER_TRANSFORM)
    _fields = ("partitioners",)

    def __init__(self, partitioners: Partitioners = None) -> None:
        self._partitioners = partitioners

    def run(self, artifact: PipelineArtifact) -> None:
        manager, chosen = _manager_of(artifact), self._partitioners or []
        if isinstance(chosen, dict):
            for partitioners in zip_longest(*chosen.values()):
                given = zip(chosen, partitioners, strict=True)
                manager = manager.to_backend({name: p for name, p in given if p is not None})
        else:
            for partitioner in chosen:
                manager = manager.to_backend(partitioner)
        self._keep(artifact, manager)


class ExecutorchStage(_FixedStage):
    """Lowers edge programs to a finished program."""

    _type, _starts = StageType.TO_EXECUTORCH, False
    _after = (
        StageType.TO_EDGE_TRANSFORM_AND_LOWER,
        StageType.TO_EDGE,
        StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
        StageType.TO_BACKEND,
    )

    def __init__(self, backend_config: Any = None) -> None:
        self._backend_config = backend_config

    def run(self, artifact: PipelineArtifact) -> None:
        manager = _manager_of(artifact)
        self._artifact = artifact.copy_with_new_data(manager.to_executorch(self._backend_config))


def samples_of(artifact: PipelineArtifact, method: str) -> list[Any]:
    """The example inputs of a method: the first is for the export, all are for calibration."""
    samples = (artifact.get_context("example_inputs") or {}).get(method)
    if not samples:
        raise ValueError(
            f"method {method!r} has no example_inputs: pass a list of tuples (the first is for "
            "the export, all are for calibration), or a dict of such lists by method"
        )
    if not isinstance(samples, list) or not isinstance(samples[0], tuple):
        raise TypeError(
            f"example_inputs of method {method!r}: expected a list of tuples such as "
            f"[(x, y)], got a {type(samples).__name__}"
        )
    return samples


def _manager_of(artifact: PipelineArtifact) -> Any:
    if artifact.data is None:
        raise RuntimeError("expected an EdgeProgramManager, got None: run a stage to_edge first")
    return artifact.data


def _passes_of(programs: Mapping[str, ExportedProgram], makers: MakesPasses) -> Any:
    """The passes by method, one manager of passes for all methods, or None without passes."""
    passes: dict[str, list[Any]] = {}
    for name, program in programs.items():
        for make in makers or ():
            made = _called(make, "edge_transform_passes")(name, program)
            if isinstance(made, GraphModulePassManager):
                return made
            passes.setdefault(name, []).extend(made if isinstance(made, (list, tuple)) else [made])
    return {name: found for name, found in passes.items() if found} or None


def _called(function: Any, field: str) -> Callable[..., Any]:
    if not callable(function):
        raise ValueError(f"{field}: expected functions, got a {type(function).__name__}")
    made: Callable[..., Any] = function
    return made


__all__ = [
    "EdgeProgramManagerTransformStage",
    "EdgeTransformAndLowerStage",
    "ExecutorchStage",
    "PipelineArtifact",
    "QuantizeStage",
    "SourceTransformStage",
    "Stage",
    "ToBackendStage",
    "ToEdgeStage",
    "TorchExportStage",
]
