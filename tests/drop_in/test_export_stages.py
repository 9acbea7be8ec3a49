"""Stages of exports, and recipes combined: on their own, replaced, and as upstream's behave."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.same_script import SameScripts
from torch import nn

from executorch_py.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchProgramManager
from executorch_py.export import (
    ExportRecipe,
    ExportSession,
    LoweringRecipe,
    QuantizationRecipe,
    StageType,
)
from executorch_py.export.stages import (
    EdgeProgramManagerTransformStage,
    EdgeTransformAndLowerStage,
    ExecutorchStage,
    PipelineArtifact,
    QuantizeStage,
    Stage,
    ToBackendStage,
    ToEdgeStage,
    TorchExportStage,
)

X = torch.linspace(-1, 1, 24).reshape(3, 8)
CONTEXT = {"example_inputs": {"forward": [(X,)]}, "dynamic_shapes": {}, "constant_methods": None}


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu() * 2


def test_stages_run_one_by_one() -> None:
    artifact = PipelineArtifact({"forward": Scaled()}, dict(CONTEXT))
    seen: list[str] = []

    def watched(name: str, program: Any) -> Any:
        seen.append(name)
        return program

    stages: list[Stage] = [
        TorchExportStage([watched]),
        ToEdgeStage(),
        EdgeProgramManagerTransformStage([lambda name, ep: []], [lambda manager: []]),
        ToBackendStage([]),
        ExecutorchStage(None),
    ]
    for stage in stages:
        with pytest.raises(RuntimeError, match=f"{type(stage).__name__}.* a run"):
            stage.get_artifacts()
        stage.run(artifact)
        artifact = stage.get_artifacts()
    assert seen == ["forward"]
    assert isinstance(artifact.data, ExecutorchProgramManager)
    torch.testing.assert_close(artifact.data.run(X), Scaled()(X))
    assert artifact.get_context("delegation_info").num_delegated_nodes == 0
    assert list(artifact.get_context("delegation_info_by_method")) == ["forward"]
    assert "delegation_info" not in CONTEXT, "each artifact has a context of its own"


def test_one_stage_lowers_and_reports_delegation() -> None:
    program = torch.export.export(Scaled(), (X,))
    stage = EdgeTransformAndLowerStage.from_recipe(LoweringRecipe())
    stage.run(PipelineArtifact({"other": program}, {}))
    assert isinstance(stage.get_artifacts().data, EdgeProgramManager)
    assert stage.delegation_info is stage.delegation_info_by_method["other"]


def test_a_session_keeps_artifacts_with_data_and_context() -> None:
    session = ExportSession(Scaled(), [(X,)], ExportRecipe(), name="named")
    session.export()
    artifacts = session.get_stage_artifacts()
    assert isinstance(artifacts[StageType.TO_EXECUTORCH].data, ExecutorchProgramManager)
    assert set(artifacts[StageType.TORCH_EXPORT].data) == {"forward"}
    for artifact in artifacts.values():
        assert artifact.get_context("session_name") == "named"
        assert artifact.get_context("duration_ms") >= 0


class Doubled(Stage):
    """A stage of a script that replaces QUANTIZE."""

    stage_type = StageType.QUANTIZE
    valid_predecessor_stages = ()
    can_start_pipeline = True

    def run(self, artifact: PipelineArtifact) -> None:
        models = {n: nn.Sequential(m, Scaled()) for n, m in artifact.data.items()}
        self._artifact = artifact.copy_with_new_data(models)


def test_a_script_replaces_a_stage() -> None:
    session = ExportSession(Scaled(), [(X,)], ExportRecipe())
    assert isinstance(session.get_registered_stage(StageType.QUANTIZE), QuantizeStage)
    assert session.get_registered_stage(StageType.TO_BACKEND) is None
    mine = Doubled()
    session.register_stage(StageType.QUANTIZE, mine)
    assert session.get_all_registered_stages()[StageType.QUANTIZE] is mine
    session.export()
    torch.testing.assert_close(session.run_method()[0], Scaled()(Scaled()(X)))


def test_passes_of_methods_run_where_programs_are_not_lowered_in_one_stage() -> None:
    calls: list[str] = []

    def watched(name: str, program: Any) -> list[Any]:
        calls.append(name)
        return []

    edge = [StageType.TO_EDGE, StageType.EDGE_PROGRAM_MANAGER_TRANSFORM]
    stages = [StageType.TORCH_EXPORT, *edge, StageType.TO_EXECUTORCH]
    lowering = LoweringRecipe(edge_transform_passes=[watched])
    recipe = ExportRecipe(lowering_recipe=lowering, pipeline_stages=stages)
    ExportSession(Scaled(), [(X,)], recipe).export()
    assert calls == ["forward"]


def test_mistakes_in_stages_are_named() -> None:
    with pytest.raises(ValueError, match="'forward' has no example_inputs"):
        TorchExportStage().run(PipelineArtifact({"forward": Scaled()}, {}))
    with pytest.raises(ValueError, match="aten_transform_passes: expected functions, got a str"):
        TorchExportStage(["x"]).run(  # type: ignore[list-item]
            PipelineArtifact({"forward": Scaled()}, dict(CONTEXT))
        )
    with pytest.raises(TypeError, match="expected an EdgeProgramManager, got a dict"):
        EdgeProgramManagerTransformStage().run(PipelineArtifact({}, {}))
    with pytest.raises(RuntimeError, match="expected an EdgeProgramManager, got None"):
        ExecutorchStage(None).run(PipelineArtifact(None, {}))
    with pytest.raises(KeyError, match=r"with example_inputs, one of .*, got 'other'"):
        ExportSession(Scaled(), [(X,)]).get_example_input("other")


def test_a_conflict_of_recipes_names_the_setting() -> None:
    def recipe(**settings: Any) -> ExportRecipe:
        config = EdgeCompileConfig(**settings)
        return ExportRecipe(lowering_recipe=LoweringRecipe(edge_compile_config=config))

    with pytest.raises(ValueError, match=r"edge_compile_config\._skip_dim_order.* False, True"):
        ExportRecipe.combine([recipe(), recipe(_skip_dim_order=True)])
    quantization = [QuantizationRecipe(train_fn=lambda gm: None) for _ in range(2)]
    with pytest.raises(ValueError, match="at most one train_fn, got 2"):
        ExportRecipe.combine([ExportRecipe(quantization_recipe=q) for q in quantization])


COMBINE = """
import torch, warnings
warnings.simplefilter("ignore")
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe, StageType
from executorch.export.recipe import Mode

def combined(*recipes, **kwargs):
    try:
        made = ExportRecipe.combine(list(recipes), **kwargs)
    except ValueError:
        return "ValueError"
    q, l, c = made.quantization_recipe, made.lowering_recipe, made.executorch_backend_config
    return [
        made.name, made.aten_transform_passes, made.strict, made.mode.value,
        made.source_transform_in_place, made.pipeline_stages and [s.value for s in
        made.pipeline_stages], c and c.emit_stacktrace, l and [l.partitioners,
        l.edge_transform_passes, l.edge_manager_transform_passes,
        l.edge_compile_config._skip_dim_order, sorted(map(str,
        l.edge_compile_config.preserve_ops))],
        q and [q.quantizers, q.ao_quantization_configs, q.is_qat, q.dynamic_batch_size,
        q.calibration_inputs_fn and list(q.calibration_inputs_fn()), q.train_fn is not None,
        q.pre_prepare_passes, q.post_prepare_passes, q.pre_convert_passes, q.post_convert_passes],
    ]

def low(*args, **kwargs):
    return ExportRecipe(name="l", lowering_recipe=LoweringRecipe(*args, **kwargs))

def quant(**kwargs):
    return ExportRecipe(quantization_recipe=QuantizationRecipe(**kwargs))

plain, stages = ExportRecipe(), [StageType.TO_EDGE]
add, mul = torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor
one = low(["p"], ["e"])
result = [
    combined(),
    ExportRecipe.combine([one]) is one,
    combined(plain, plain),
    combined(ExportRecipe(name="a", aten_transform_passes=["x"]), ExportRecipe(name="b",
             aten_transform_passes=["y"])),
    combined(plain, plain, recipe_name="given"),
    combined(plain, ExportRecipe(strict=False)),
    combined(plain, ExportRecipe(mode=Mode.DEBUG)),
    combined(plain, ExportRecipe(pipeline_stages=stages)),
    combined(plain, ExportRecipe(source_transform_in_place=True)),
    combined(*[ExportRecipe(pipeline_stages=stages, strict=False, mode=Mode.DEBUG)] * 2),
    combined(one, low(["q"], None, ["m"])),
    combined(low({"f": ["p"]}), low({"f": ["q"], "g": ["r"]})),
    combined(low({"f": ["p"]}), low(["q"])),
    combined(low(), low()),
    combined(low(edge_compile_config=EdgeCompileConfig(_skip_dim_order=True)), plain),
    combined(low(edge_compile_config=EdgeCompileConfig(preserve_ops=[add, mul])),
             low(edge_compile_config=EdgeCompileConfig(preserve_ops=[mul, add]))),
    combined(low(edge_compile_config=EdgeCompileConfig(preserve_ops=[add])),
             low(edge_compile_config=EdgeCompileConfig())),
    combined(plain, ExportRecipe(executorch_backend_config=ExecutorchBackendConfig(
             emit_stacktrace=True)), ExportRecipe(
             executorch_backend_config=ExecutorchBackendConfig())),
    combined(quant(quantizers=["a"], calibration_inputs_fn=lambda: [(1,)]),
             quant(quantizers=["b"], calibration_inputs_fn=lambda: [(2,), (3,)])),
    combined(quant(quantizers=["a"], dynamic_batch_size=True), quant(pre_prepare_passes=["p"],
             post_convert_passes=["c"]), plain),
    combined(quant(is_qat=True), quant()),
    combined(quant(is_qat=True, quantizers=["a"], train_fn=print), quant(is_qat=True)),
    combined(quant(train_fn=print), quant(train_fn=print)),
    combined(quant(calibration_inputs_fn=lambda: []), quant()),
]
"""


def test_combined_recipes_are_those_of_upstream() -> None:
    SameScripts({"combine": COMBINE}).check("combine")
