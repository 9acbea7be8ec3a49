"""An export session: the stages of a recipe in order, and the result of each stage.

The stages call the exporter's functions; quantization is in quantize.py. This file knows the order
of stages and the arguments of each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from executorch_py.exir import schema
from executorch_py.exir.inspect import print_delegation_info
from executorch_py.exir.program.edge import to_edge
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.exir.program.lower import to_edge_transform_and_lower
from executorch_py.exir.program.managers import EdgeProgramManager
from executorch_py.exir.trace_errors import readable_errors
from executorch_py.export.quantize import quantize_graph, transform_source
from executorch_py.export.recipe import ExportRecipe, LoweringRecipe, QuantizationRecipe
from executorch_py.export.types import StageType

_MODEL = (StageType.SOURCE_TRANSFORM, StageType.QUANTIZE)
_EDGE = (
    StageType.TO_EDGE_TRANSFORM_AND_LOWER,
    StageType.TO_EDGE,
    StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
    StageType.TO_BACKEND,
)
# Stages that may directly precede each stage; None is the start.
_PREDECESSORS: dict[StageType, tuple[StageType | None, ...]] = {
    StageType.SOURCE_TRANSFORM: (None,),
    StageType.QUANTIZE: (None, StageType.SOURCE_TRANSFORM),
    StageType.TORCH_EXPORT: (None, *_MODEL),
    StageType.TO_EDGE_TRANSFORM_AND_LOWER: (None, StageType.TORCH_EXPORT),
    StageType.TO_EDGE: (None, StageType.TORCH_EXPORT),
    StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: _EDGE,
    StageType.TO_BACKEND: (StageType.TO_EDGE, StageType.EDGE_PROGRAM_MANAGER_TRANSFORM),
    StageType.TO_EXECUTORCH: _EDGE,
}
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
        self._quantization = self._recipe.quantization_recipe or QuantizationRecipe()
        self._lowering = self._recipe.lowering_recipe or LoweringRecipe()
        self._constant_methods = constant_methods
        self._record = generate_etrecord
        self._stages = self._recipe.pipeline_stages or self._default_stages()
        self._results: dict[StageType, Any] = {}

    def _default_stages(self) -> list[StageType]:
        done = {stage for kind in self._kinds for stage in _DONE[kind]}
        stages = [stage for stage in (*_MODEL, StageType.TORCH_EXPORT) if stage not in done]
        stages.append(StageType.TO_EDGE_TRANSFORM_AND_LOWER)
        if self._lowering.edge_manager_transform_passes:
            stages.append(StageType.EDGE_PROGRAM_MANAGER_TRANSFORM)
        return [*stages, StageType.TO_EXECUTORCH]

    # ---- running the stages

    def export(self) -> None:
        """Run all stages from the start."""
        self._check_stages()
        self._results.clear()
        data: Any = self._models
        for stage in self._stages:
            data = self._results[stage] = self._run(stage, data)

    def _check_stages(self) -> None:
        """Check that each stage can follow the one before, and that no stage lies before the model.

        A rejected list of stages leaves the results of an earlier run.
        """
        for kind in self._kinds:
            wrong = [stage.name for stage in self._stages if stage in _DONE[kind]]
            if wrong:
                raise ValueError(
                    f"Cannot run {', '.join(wrong)} stage(s) on a {kind.__name__}: expected stages "
                    f"after {_DONE[kind][-1].name}; change pipeline_stages of the recipe, or pass "
                    "an nn.Module"
                )
        previous: StageType | None = None
        for stage in self._stages:
            if previous not in _PREDECESSORS[stage]:
                allowed = [s.value if s else "the start" for s in _PREDECESSORS[stage]]
                found = previous.value if previous else "the start"
                raise ValueError(
                    f"stage {stage.value}: expected it after {' or '.join(allowed)}, got it after "
                    f"{found}: change pipeline_stages of the recipe"
                )
            previous = stage

    def _run(self, stage: StageType, data: Any) -> Any:
        steps: dict[StageType, Callable[[Any], Any]] = {
            StageType.SOURCE_TRANSFORM: self._transform_sources,
            StageType.QUANTIZE: self._quantize,
            StageType.TORCH_EXPORT: self._torch_export,
            StageType.TO_EDGE_TRANSFORM_AND_LOWER: self._lower,
            StageType.TO_EDGE: self._to_edge,
            StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: self._transform_manager,
            StageType.TO_BACKEND: self._to_backend,
            StageType.TO_EXECUTORCH: self._to_executorch,
        }
        return steps[stage](data)

    def _samples(self, method: str) -> list[Any]:
        samples = self._example_inputs.get(method)
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

    def _transform_sources(self, models: dict[str, nn.Module]) -> dict[str, nn.Module]:
        in_place = self._recipe.source_transform_in_place
        return {n: transform_source(m, self._quantization, in_place) for n, m in models.items()}

    def _quantize(self, models: dict[str, nn.Module]) -> dict[str, nn.Module]:
        if not self._quantization.quantizers:
            return models
        return {
            name: quantize_graph(model, self._samples(name), self._quantization)
            for name, model in models.items()
        }

    def _torch_export(self, models: dict[str, nn.Module]) -> dict[str, ExportedProgram]:
        programs = {}
        for name, model in models.items():
            inputs, shapes = self._samples(name)[0], self._dynamic_shapes.get(name)
            with torch.no_grad(), readable_errors():
                program = torch.export.export(
                    model, inputs, dynamic_shapes=shapes, strict=self._recipe.strict
                )
            for change in self._recipe.aten_transform_passes or ():
                program = change(name, program)
            programs[name] = program
        return programs

    def _lower(self, programs: dict[str, ExportedProgram]) -> EdgeProgramManager:
        makers = self._lowering.edge_transform_passes or []
        passes = {
            name: [p for make in makers for p in _as_list(make(name, program))]
            for name, program in programs.items()
        }
        return to_edge_transform_and_lower(
            programs,
            passes if makers else None,
            self._lowering.partitioners,
            self._constant_methods,
            self._lowering.edge_compile_config,
            self._record,
        )

    def _to_edge(self, programs: dict[str, ExportedProgram]) -> EdgeProgramManager:
        return to_edge(
            programs, self._constant_methods, self._lowering.edge_compile_config, self._record
        )

    def _transform_manager(self, manager: EdgeProgramManager) -> EdgeProgramManager:
        for make in self._lowering.edge_manager_transform_passes or ():
            manager = manager.transform(make(manager))
        return manager

    def _to_backend(self, manager: EdgeProgramManager) -> EdgeProgramManager:
        chosen = self._lowering.partitioners or []
        by_method = chosen if isinstance(chosen, dict) else dict.fromkeys(manager.methods, chosen)
        for i in range(max(map(len, by_method.values()), default=0)):
            manager = manager.to_backend({m: p[i] for m, p in by_method.items() if i < len(p)})
        return manager

    def _to_executorch(self, manager: EdgeProgramManager) -> ExecutorchProgramManager:
        return manager.to_executorch(self._recipe.executorch_backend_config)

    # ---- results

    def _result(self, *stages: StageType) -> Any:
        for stage in stages:
            if stage in self._results:
                return self._results[stage]
        raise RuntimeError(
            f"expected the result of stage {' or '.join(s.value for s in stages)}, got results of "
            f"{[s.value for s in self._results]}: call export(), or add the stage to the recipe"
        )

    def get_stage_artifacts(self) -> dict[StageType, Any]:
        """Results of the stages."""
        return self._results

    def get_exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The exported program of a method."""
        programs: dict[str, ExportedProgram] = self._result(StageType.TORCH_EXPORT)
        if method_name not in programs:
            raise KeyError(f"no method {method_name!r}; expected one of {sorted(programs)}")
        return programs[method_name]

    def get_edge_program_manager(self) -> EdgeProgramManager:
        """The programs in the edge dialect, after the last stage that changed them."""
        manager: EdgeProgramManager = self._result(*reversed(_EDGE))
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
        name = output_name if output_name.endswith(".pte") else f"{output_name}.pte"
        self.get_executorch_program_manager().save(name)

    def get_example_input(self, method_name: str = "forward") -> tuple[Any, ...]:
        """The first of the example inputs of a method."""
        inputs: tuple[Any, ...] = self._samples(method_name)[0]
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


def _as_list(passes: Any) -> list[Any]:
    return list(passes) if isinstance(passes, (list, tuple)) else [passes]


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
