"""Exports by recipes: default stages, quantization, chosen stages, and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tolerance import SMALL_LAYER_STEPS, assert_near
from torch import nn
from torch.export import Dim
from torch.export import export as torch_export

from executorch_py.backends.reference import ReferencePartitioner
from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch_py.exir.dialects._ops import ops
from executorch_py.exir.pass_base import ExportPass
from executorch_py.export import (
    ExportRecipe,
    ExportSession,
    LoweringRecipe,
    QuantizationRecipe,
    StageType,
    export,
)
from executorch_py.quantizer import CalibrationError
from executorch_py.runtime import Runtime

X = torch.linspace(-1, 1, 24).reshape(3, 8)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()


class ReluToSigmoid(ExportPass):
    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        target = ops.edge.aten.sigmoid.default if op == ops.edge.aten.relu.default else op
        return super().call_operator(target, args, kwargs, meta)


def test_a_model_becomes_a_program_that_runs(tmp_path: Path) -> None:
    model = net()
    session = export(
        model,
        [(X,)],
        ExportRecipe(name="plain"),
        dynamic_shapes=({0: Dim("n", min=1, max=8)},),
        constant_methods={"width": 8},
        generate_etrecord=True,
    )
    torch.testing.assert_close(session.run_method()[0], model(X))
    torch.testing.assert_close(session.run_method("forward", (X[:2],))[0], model(X[:2]))
    session.save_to_pte(str(tmp_path / "net"))
    program = Runtime.get().load_program(tmp_path / "net.pte")
    assert program.load_method("width").execute([]) == [8]
    assert session.get_executorch_program().execution_plan[0].name == "forward"
    session.get_etrecord().save(tmp_path / "net.etrecord")
    assert list(session.get_stage_artifacts())[-1] is StageType.TO_EXECUTORCH


@pytest.mark.parametrize("name", ["", None])
def test_a_program_is_not_saved_without_a_name(name: str | None) -> None:
    with pytest.raises(AssertionError, match="expected the name of a file, got"):
        ExportSession(net(), [(X,)], ExportRecipe()).save_to_pte(name)  # type: ignore[arg-type]


def test_a_recipe_quantizes() -> None:
    model = net()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(quantizers=[quantizer]))
    session = export(model, [(X,), (X * 0.5,)], recipe)
    targets = [str(n.target) for n in session.get_exported_program().graph.nodes]
    assert any("quantize_per_tensor" in target for target in targets)
    assert_near(session.run_method()[0], model(X), SMALL_LAYER_STEPS)


def test_a_recipe_transforms_edge_programs() -> None:
    model = net()
    passes = LoweringRecipe(edge_transform_passes=[lambda name, ep: [ReluToSigmoid()]])
    session = export(model, [(X,)], ExportRecipe(lowering_recipe=passes))
    torch.testing.assert_close(session.run_method()[0], torch.sigmoid(model[0](X)))


def test_stages_may_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    recipe = ExportRecipe(
        lowering_recipe=LoweringRecipe(
            partitioners=[ReferencePartitioner()],
            edge_manager_transform_passes=[lambda manager: [ReluToSigmoid()]],
        ),
        pipeline_stages=[
            StageType.TO_EDGE,
            StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
            StageType.TO_BACKEND,
            StageType.TO_EXECUTORCH,
        ],
    )
    session = export({"double": torch_export(Sum(), (X,))}, None, recipe)
    torch.testing.assert_close(session.run_method("double", (X,))[0], X + X)
    session.print_delegation_info()
    assert "method double:" in capsys.readouterr().out


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="'forward' has no example_inputs: pass a list of tuples"):
        export(net(), [])
    with pytest.raises(TypeError, match=r"expected a list of tuples .* \[\(x, y\)\], got a tuple"):
        export(net(), (X,))
    wrong = ExportRecipe(pipeline_stages=[StageType.TO_EXECUTORCH])
    with pytest.raises(
        ValueError, match=r"to_executorch: expected it after to_edge_.*after the start"
    ):
        export(net(), [(X,)], wrong)
    session = ExportSession(net(), [(X,)])
    with pytest.raises(
        RuntimeError, match=r"expected the result of stage to_exec.*call export\(\)"
    ):
        session.get_pte_buffer()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_qat=True))
    qat = QuantizationRecipe(quantizers=[quantizer], is_qat=True)
    static = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    calibrated = QuantizationRecipe(quantizers=[static])
    with pytest.raises(CalibrationError, match=r"sample 1: .*labels are no inputs"):
        export(net(), [(X,), (X, X)], ExportRecipe(quantization_recipe=calibrated))
    with pytest.raises(ValueError, match="expected train_fn with is_qat=True"):
        export(net(), [(X,)], ExportRecipe(quantization_recipe=qat))


@pytest.mark.parametrize("make", [net, lambda: torch.fx.symbolic_trace(net())])
def test_a_session_asks_for_example_inputs_when_it_is_made(make: Callable[[], nn.Module]) -> None:
    with pytest.raises(ValueError, match=r"example_inputs are required for .*: pass a list of tup"):
        ExportSession(make(), export_recipe=ExportRecipe())
    with pytest.raises(TypeError, match=r"expected an nn\.Module, .*, got a list"):
        ExportSession([make()], [(X,)])


def test_an_exported_program_needs_no_example_inputs() -> None:
    session = ExportSession(torch_export(net(), (X,)))
    session.export()
    torch.testing.assert_close(session.run_method("forward", (X,))[0], net()(X))


@pytest.mark.parametrize(
    ("make", "stage", "kind"),
    [
        (lambda: torch.fx.symbolic_trace(net()), StageType.SOURCE_TRANSFORM, "GraphModule"),
        (lambda: torch.fx.symbolic_trace(net()), StageType.QUANTIZE, "GraphModule"),
        (lambda: torch_export(net(), (X,)), StageType.QUANTIZE, "ExportedProgram"),
        (lambda: torch_export(net(), (X,)), StageType.TORCH_EXPORT, "ExportedProgram"),
    ],
)
def test_no_stage_runs_if_one_lies_before_the_model(
    make: Callable[[], Any], stage: StageType, kind: str
) -> None:
    later = [StageType.TO_EDGE_TRANSFORM_AND_LOWER, StageType.TO_EXECUTORCH]
    between = [] if stage is StageType.TORCH_EXPORT else [StageType.TORCH_EXPORT]
    session = ExportSession(make(), [(X,)], ExportRecipe(pipeline_stages=[stage, *between, *later]))
    with pytest.raises(ValueError, match=rf"Cannot run {stage.name}.* on a {kind}: expected"):
        session.export()
    assert session.get_stage_artifacts() == {}


def test_the_recipe_of_quantization_is_found_beside_the_session_as_upstreams() -> None:
    from executorch_py.export.export import QuantizationRecipe as found

    assert found is QuantizationRecipe
