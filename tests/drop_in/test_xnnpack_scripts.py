"""Scripts for upstream's XNNPACK backend run here with the imports renamed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.tolerance import DYNAMIC_LAYER_STEPS, LAYERS_STEPS, assert_near
from torch import Tensor, nn
from torch.export import Dim, export

X = torch.linspace(-1, 1, 24).reshape(3, 8)


class Net(nn.Module):
    """Two layers around an operator that XNNPACK does not support."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.b(torch.cumsum(torch.relu(self.a(x)), 1))
        return result


class Decoder(nn.Module):
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.net.a(x))


def runs(program: Any, *inputs: Tensor) -> list[Tensor]:
    from executorch_py.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

    found: list[Tensor] = _load_for_executorch_from_buffer(program.buffer).forward(inputs)
    return found


def test_to_edge_then_to_backend(tmp_path: Path) -> None:
    from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch_py.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge

    model = Net().eval()
    edge = to_edge(export(model, (X,)), compile_config=EdgeCompileConfig(_check_ir_validity=False))
    edge = edge.to_backend(XnnpackPartitioner())
    program = edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=True))
    with open(tmp_path / "net_xnnpack_fp32.pte", "wb") as file:
        program.write_to_file(file)
    torch.testing.assert_close(runs(program, X)[0], model(X))


def test_partitioners_by_method() -> None:
    from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch_py.exir import to_edge_transform_and_lower
    from executorch_py.exir.backend.utils import get_delegates
    from executorch_py.runtime import Runtime

    net = Net().eval()
    programs = {"forward": export(net, (X,)), "decode": export(Decoder(net).eval(), (X,))}
    edge = to_edge_transform_and_lower(
        programs,
        partitioner={"forward": [XnnpackPartitioner()]},
        constant_methods={"get_max_len": 128},
    )
    delegates = {name: len(get_delegates(edge.exported_program(name).graph)) for name in programs}
    assert delegates == {"forward": 2, "decode": 0}
    program = Runtime.get().load_program(edge.to_executorch().buffer)
    assert program.method_names == {"forward", "decode", "get_max_len"}
    (found,) = program.load_method("decode").execute([X])
    torch.testing.assert_close(found, torch.sigmoid(net.a(X)))


def test_a_quantized_model_behind_two_partitioners() -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import (
        XnnpackDynamicallyQuantizedPartitioner,
        XnnpackPartitioner,
    )
    from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch_py.devtools.backend_debug import get_delegation_info
    from executorch_py.exir import to_edge_transform_and_lower

    shapes = ({0: Dim("n", min=1, max=8)},)
    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True))
    prepared = prepare_pt2e(export(Net().eval(), (X,), dynamic_shapes=shapes).module(), quantizer)
    prepared(X)
    model = convert_pt2e(prepared)
    edge = to_edge_transform_and_lower(
        export(model, (X,), dynamic_shapes=shapes),
        partitioner=[XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()],
    )
    info = get_delegation_info(edge.exported_program().graph_module)
    by_operator = info.delegation_by_operator
    assert by_operator["aten_linear_default"].non_delegated == 0
    assert by_operator["aten_cumsum_default"].delegated == 0
    program = edge.to_executorch()
    for rows in (X, X[:1]):
        assert_near(runs(program, rows)[0], model(rows), DYNAMIC_LAYER_STEPS)


def test_delegated_operators_are_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch_py.devtools import generate_etrecord, parse_etrecord
    from executorch_py.devtools.backend_debug import get_delegation_info, print_delegation_info
    from executorch_py.exir import to_edge_transform_and_lower
    from executorch_py.exir.backend.utils import print_delegated_graph

    exported = export(Net().eval(), (X,))
    edge = to_edge_transform_and_lower(
        exported, partitioner=[XnnpackPartitioner()], generate_etrecord=True
    )
    gm = edge.exported_program().graph_module
    frame = SimpleNamespace(DataFrame=lambda rows, columns: [tuple(columns), *rows])
    monkeypatch.setitem(sys.modules, "pandas", frame)
    assert get_delegation_info(gm).get_operator_delegation_dataframe() == [
        (
            "op_type",
            "occurrences_in_delegated_graphs",
            "occurrences_in_non_delegated_graphs",
        ),
        ("aten_cumsum_default", 0, 1),
        ("aten_linear_default", 2, 0),
        ("aten_relu_default", 1, 0),
        ("getitem", 0, 2),
        ("Total", 3, 3),
    ]
    print_delegation_info(gm)
    print_delegated_graph(gm)
    printed = capsys.readouterr().out
    assert "Total delegated subgraphs: 2" in printed
    assert "backend_id: XnnpackBackend" in printed
    program = edge.to_executorch()
    program.get_etrecord().save(str(tmp_path / "session.bin"))
    generate_etrecord(str(tmp_path / "by_hand.bin"), edge, program)
    for name in ("session.bin", "by_hand.bin"):
        record = parse_etrecord(str(tmp_path / name))
        assert record.edge_dialect_program is not None


def test_a_recipe_has_all_settings_of_an_export() -> None:
    from executorch_py.backends.xnnpack.recipes import XNNPackRecipeType
    from executorch_py.export import ExportRecipe
    from executorch_py.export import export as export_by_recipe

    model = Net().eval()
    recipe = ExportRecipe.get_recipe(XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL)
    session = export_by_recipe(model, [(X,)], recipe)
    assert_near(session.run_method()[0], model(X), LAYERS_STEPS)
    assert session.get_executorch_program().execution_plan[0].delegates[0].id == "XnnpackBackend"


def test_recipes_are_found_by_their_backend() -> None:
    from executorch_py.backends.xnnpack.recipes import XNNPACKRecipeProvider, XNNPackRecipeType
    from executorch_py.export import ExportRecipe, RecipeType, recipe_registry

    assert "xnnpack" in recipe_registry.list_backends()
    assert list(recipe_registry.get_supported_recipes("xnnpack")) == list(XNNPackRecipeType)
    assert XNNPACKRecipeProvider().supports_recipe(XNNPackRecipeType.FP32)
    kind = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
    recipe = ExportRecipe.get_recipe(kind, group_size=64)
    assert recipe.name == "xnnpack_torchao_int8da_int4w_per_tensor"
    with pytest.raises(ValueError, match="group_size: expected an int, got a str"):
        ExportRecipe.get_recipe(kind, group_size="32")

    class Other(RecipeType):
        ONE = "one"

        @classmethod
        def get_backend_name(cls) -> str:
            return "nobody"

    with pytest.raises(ValueError, match=r"backend: expected one of .*, got 'nobody'"):
        ExportRecipe.get_recipe(Other.ONE)
