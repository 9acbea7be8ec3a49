"""An export session: the stages of a recipe in order, and the artifact of each stage.

The stages are stages.py; this file chooses them, and checks and runs their order.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from executorch_py.exir import schema
from executorch_py.exir.inspect import print_delegation_info
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.exir.program.managers import EdgeProgramManager
from executorch_py.export.recipe import ExportRecipe, LoweringRecipe
from executorch_py.export.recipe import QuantizationRecipe as QuantizationRecipe  # upstream's, too
from executorch_py.export.stages import (
    EdgeProgramManagerTransformStage,
    EdgeTransformAndLowerStage,
    ExecutorchStage,
    PipelineArtifact,
    QuantizeStage,
    SourceTransformStage,
    Stage,
    ToBackendStage,
    ToEdgeStage,
    TorchExportStage,
    samples_of,
)
from executorch_py.export.types import StageType

_MODEL = (StageType.SOURCE_TRANSFORM, StageType.QUANTIZE)
# Stages whose artifact is the edge programs, the last first.
_EDGE = (
    StageType.TO_BACKEND,
    StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
    StageType.TO_EDGE,
    StageType.TO_EDGE_TRANSFORM_AND_LOWER,
)
# Kinds of models, the most special first, and the stages that lie before each.
_DONE: dict[type[Any], tuple[StageType, ...]] = {
    ExportedProgram: (*_MODEL, StageType.TORCH_EXPORT),
    fx.GraphModule: _MODEL,
    nn.Module: (),
}


class ExportSession:
    """Runs the stages of a recipe on a model, or on one model per method name."""

    def __init__(
        self,
        model: Any,
        example_inputs: Any = None,
        export_recipe: ExportRecipe | None = None,
        name: str | None = None,
        dynamic_shapes: Any = None,
        constant_methods: dict[str, Any] | None = None,
        artifact_dir: str | None = None,
        generate_etrecord: bool = False,
    ) -> None:
        loaded = torch.export.load(model) if isinstance(model, (str, Path)) else model
        self._models: dict[str, Any] = _by_method(loaded)
        self._kinds = dict.fromkeys(map(_kind_of, self._models.values()))
        if example_inputs is None and any(kind is not ExportedProgram for kind in self._kinds):
            names = " and ".join(kind.__name__ for kind in self._kinds)
            raise ValueError(
                f"example_inputs are required for nn.Module and GraphModule, got none for {names}: "
                "pass a list of tuples (the first is for the export, all are for calibration), or "
                "a dict of such lists by method"
            )
        self._example_inputs: dict[str, list[Any]] = _by_method(example_inputs or {})
        self._dynamic_shapes: dict[str, Any] = (
            dynamic_shapes if _names_methods(dynamic_shapes, self._models) else {}
        )
        if dynamic_shapes is not None and not self._dynamic_shapes:
            self._dynamic_shapes = {"forward": dynamic_shapes}
        self._recipe = export_recipe or ExportRecipe()
        self._lowering = self._recipe.lowering_recipe or LoweringRecipe()
        self._pipeline = self._recipe.pipeline_stages or self._default_stages()
        self._registry = self._build_stages()
        self._context: dict[str, Any] = {
            "example_inputs": self._example_inputs,
            "dynamic_shapes": self._dynamic_shapes,
            "constant_methods": constant_methods,
            "export_recipe": self._recipe,
            "session_name": name,
            "artifact_dir": artifact_dir,
            "generate_etrecord": generate_etrecord,
        }
        self._artifacts: dict[StageType, PipelineArtifact] = {}

    def _default_stages(self) -> list[StageType]:
        done = {stage for kind in self._kinds for stage in _DONE[kind]}
        stages = [stage for stage in (*_MODEL, StageType.TORCH_EXPORT) if stage not in done]
        stages.append(StageType.TO_EDGE_TRANSFORM_AND_LOWER)
        if self._lowering.edge_manager_transform_passes:
            stages.append(StageType.EDGE_PROGRAM_MANAGER_TRANSFORM)
        return [*stages, StageType.TO_EXECUTORCH]

    def _build_stages(self) -> dict[StageType, Stage]:
        """The stages of the pipeline with the recipe's settings."""
        recipe, lowering = self._recipe, self._lowering
        quantization = recipe.quantization_recipe
        # Passes over the program of a method run once, before it is delegated if possible.
        runs_passes = StageType.TO_EDGE_TRANSFORM_AND_LOWER in self._pipeline
        stages: list[Stage] = [
            SourceTransformStage(quantization, recipe.source_transform_in_place),
            QuantizeStage(quantization),
            TorchExportStage(recipe.aten_transform_passes, recipe.strict),
            EdgeTransformAndLowerStage.from_recipe(lowering),
            ToEdgeStage.from_recipe(lowering),
            EdgeProgramManagerTransformStage(
                None if runs_passes else lowering.edge_transform_passes,
                lowering.edge_manager_transform_passes,
            ),
            ToBackendStage.from_recipe(lowering),
            ExecutorchStage(recipe.executorch_backend_config),
        ]
        return {s.stage_type: s for s in stages if s.stage_type in self._pipeline}

    # ---- stages of scripts

    def register_stage(self, stage_type: StageType, stage: Stage) -> None:
        """Run this stage where the pipeline names `stage_type`."""
        self._registry[stage_type] = stage

    def get_registered_stage(self, stage_type: StageType) -> Stage | None:
        """The stage that runs under a name, if any."""
        return self._registry.get(stage_type)

    def get_all_registered_stages(self) -> dict[StageType, Stage]:
        """All stages by name."""
        return self._registry

    # ---- running the stages

    def export(self) -> None:
        """Run all stages from the start."""
        self._check_stages()
        self._artifacts.clear()
        artifact = PipelineArtifact(self._models, dict(self._context))
        for name in self._pipeline:
            start = time.perf_counter()
            self._registry[name].run(artifact)
            artifact = self._registry[name].get_artifacts()
            artifact.add_context("duration_ms", int((time.perf_counter() - start) * 1000))
            self._artifacts[name] = artifact

    def _check_stages(self) -> None:
        """Check that each stage can follow the one before, and that no stage lies before the model.

        A rejected list of stages leaves the artifacts of an earlier run.
        """
        for kind in self._kinds:
            wrong = [stage.name for stage in self._pipeline if stage in _DONE[kind]]
            if wrong:
                raise ValueError(
                    f"Cannot run {', '.join(wrong)} stage(s) on a {kind.__name__}: expected stages "
                    f"after {_DONE[kind][-1].name}, got {list(map(_name, self._pipeline))}; change "
                    "pipeline_stages of the recipe, or pass an nn.Module"
                )
        previous: StageType | None = None
        for name in self._pipeline:
            if name not in self._registry:
                raise ValueError(
                    f"stage {_name(name)}: expected one of the stages of StageType, or one of the "
                    "session's register_stage(), got neither"
                )
            self._check_order(self._registry[name], _name(name), previous)
            previous = name

    def _check_order(self, stage: Stage, name: str, previous: StageType | None) -> None:
        after = stage.valid_predecessor_stages
        if previous is None and stage.can_start_pipeline:
            return
        if previous is not None and (not after or previous in after):
            return
        allowed = [_name(stage) for stage in after]
        if stage.can_start_pipeline:
            allowed.insert(0, "the start")
        found = _name(previous) if previous else "the start"
        raise ValueError(
            f"stage {name}: expected it after {' or '.join(allowed) or 'another stage'}, got it "
            f"after {found}: change pipeline_stages of the recipe"
        )

    # ---- results

    def _result(self, *stages: StageType) -> Any:
        for stage in stages:
            if stage in self._artifacts:
                return self._artifacts[stage].data
        raise RuntimeError(
            f"expected the result of stage {' or '.join(map(_name, stages))}, got results of "
            f"{list(map(_name, self._artifacts))}: call export(), or add the stage to the recipe"
        )

    def get_stage_artifacts(self) -> dict[StageType, PipelineArtifact]:
        """The artifact of each stage; its `data` is what the stage made."""
        return self._artifacts

    def get_exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The exported program of a method."""
        programs: dict[str, ExportedProgram] = self._result(StageType.TORCH_EXPORT)
        if method_name not in programs:
            raise KeyError(f"method_name: expected one of {sorted(programs)}, got {method_name!r}")
        return programs[method_name]

    def get_edge_program_manager(self) -> EdgeProgramManager:
        """The programs in the edge dialect, after the last stage that changed them."""
        manager: EdgeProgramManager = self._result(*_EDGE)
        return manager

    def get_executorch_program_manager(self) -> ExecutorchProgramManager:
        """The finished program and its files."""
        manager: ExecutorchProgramManager = self._result(StageType.TO_EXECUTORCH)
        return manager

    def get_executorch_program(self) -> schema.Program:
        """The finished program, as the structure of its file."""
        return self.get_executorch_program_manager().executorch_program

    def get_pte_buffer(self) -> bytes:
        """The bytes of the `.pte` file."""
        return self.get_executorch_program_manager().buffer

    def get_etrecord(self) -> Any:
        """The record of this export."""
        return self.get_executorch_program_manager().get_etrecord()

    def save_to_pte(self, output_name: str) -> None:
        """Write the program to a file; `.pte` is appended if missing."""
        if not output_name:
            raise AssertionError(f"output_name: expected the name of a file, got {output_name!r}")
        name = output_name if output_name.endswith(".pte") else f"{output_name}.pte"
        self.get_executorch_program_manager().save(name)

    def get_example_input(self, method_name: str = "forward") -> tuple[Any, ...]:
        """The first of the example inputs of a method."""
        if method_name not in self._example_inputs:
            there = sorted(self._example_inputs)
            raise KeyError(
                f"method_name: expected a method with example_inputs, one of {there}, got "
                f"{method_name!r}"
            )
        artifact = PipelineArtifact(None, self._context)
        inputs: tuple[Any, ...] = samples_of(artifact, method_name)[0]
        return inputs

    def run_method(
        self, method_name: str = "forward", example_inputs: tuple[Any, ...] | None = None
    ) -> Any:
        """Run the finished program, by default on the example inputs."""
        from executorch_py.runtime import Runtime

        inputs = self.get_example_input(method_name) if example_inputs is None else example_inputs
        program = Runtime.get().load_program(self.get_pte_buffer())
        return program.load_method(method_name).execute(inputs)

    def print_delegation_info(self) -> None:
        """Print the delegated operators of each method."""
        manager = self.get_edge_program_manager()
        for name in sorted(manager.methods):
            print(f"method {name}:")
            print_delegation_info(manager.exported_program(name).graph_module)


def _by_method(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {"forward": value}


def _kind_of(model: Any) -> type[Any]:
    for kind in _DONE:
        if isinstance(model, kind):
            return kind
    raise TypeError(
        f"model: expected an nn.Module, a GraphModule or an ExportedProgram, got a "
        f"{type(model).__name__}"
    )


def _names_methods(shapes: Any, models: dict[str, Any]) -> bool:
    return isinstance(shapes, dict) and bool(shapes) and set(shapes) <= set(models)


def _name(stage: StageType) -> str:
    return str(getattr(stage, "value", stage))


def export(
    model: Any,
    example_inputs: Any = None,
    export_recipe: ExportRecipe | None = None,
    name: str | None = None,
    dynamic_shapes: Any = None,
    constant_methods: dict[str, Any] | None = None,
    artifact_dir: str | None = None,
    generate_etrecord: bool = False,
) -> ExportSession:
    """Export a model and return the finished session."""
    session = ExportSession(
        model,
        example_inputs,
        export_recipe,
        name,
        dynamic_shapes,
        constant_methods,
        artifact_dir,
        generate_etrecord,
    )
    session.export()
    return session
