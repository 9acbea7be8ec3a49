"""Users' passes: the helpers that upstream's guide to compiler passes and its examples use."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import export


class M(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


def test_a_pass_manager_runs_passes_and_the_users_checks() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.exir.dialects._ops import ops as exir_ops
    from executorch_py.exir.pass_base import PassResult
    from executorch_py.exir.pass_manager import PassManager

    def relu_to_tanh(gm: torch.fx.GraphModule) -> PassResult:
        for node in gm.graph.nodes:
            if node.target == exir_ops.edge.aten.relu.default:
                node.target = exir_ops.edge.aten.tanh.default
        return PassResult(gm, True)

    def refuse_tanh(gm: torch.fx.GraphModule) -> None:
        if any(n.target == exir_ops.edge.aten.tanh.default for n in gm.graph.nodes):
            raise ValueError("no tanh here")

    gm = to_edge(export(M(), (X,))).exported_program().graph_module
    manager = PassManager(passes=[relu_to_tanh], run_checks_after_each_pass=True)
    result = manager(gm)
    assert "aten_tanh_default" in result.graph_module.code
    manager = PassManager(passes=[relu_to_tanh], run_checks_after_each_pass=True)
    manager.add_checks(refuse_tanh)
    with pytest.raises(Exception, match=r"no tanh here|relu_to_tanh"):
        manager(gm)


def test_a_pattern_becomes_a_backend_operator() -> None:
    from torch.library import Library

    from executorch_py.exir import EdgeCompileConfig, to_edge
    from executorch_py.exir.dialects._ops import bind_pattern_to_op
    from executorch_py.exir.dialects._ops import ops as exir_ops
    from executorch_py.exir.pass_base import ExportPass, PassResult

    library = Library("drop_in_fusion", "DEF")

    @bind_pattern_to_op(library, "add_relu(Tensor self, Tensor other) -> Tensor")
    def meaning(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.relu.default(torch.ops.aten.add.Tensor(x, y))

    class Fuse(ExportPass):
        def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
            fused = exir_ops.backend.drop_in_fusion.add_relu.default
            for node in graph_module.graph.nodes:
                if node.target == exir_ops.edge.aten.relu.default:
                    added = node.args[0]
                    node.target, node.args = fused, added.args
                    graph_module.graph.erase_node(added)
            graph_module.recompile()
            return PassResult(graph_module, True)

    class AddRelu(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + y)

    edge = to_edge(export(AddRelu(), (X, -X)))
    edge = edge.transform([Fuse()], EdgeCompileConfig(_check_ir_validity=False))
    program = edge.exported_program()
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    assert [n.target for n in calls] == [exir_ops.backend.drop_in_fusion.add_relu.default]
    torch.testing.assert_close(program.module()(X, -X), torch.relu(X - X))


def test_edge_schemas_have_the_allowed_dtypes() -> None:
    from executorch_py.exir.dialects._ops import ops as exir_ops

    sigmoid = exir_ops.edge.aten.sigmoid.default
    assert str(sigmoid._schema) == "aten::sigmoid(Tensor self) -> Tensor"
    assert torch.bool in sigmoid._schema.arguments[0].allowed_types
    assert torch.int32 not in sigmoid._schema.returns[0].allowed_types


def test_a_debug_pass_prints_the_graph(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from executorch_py.exir import ExecutorchBackendConfig, to_edge
    from executorch_py.exir.passes import DebugPass

    edge = to_edge(export(M(), (X,)))
    log = tmp_path / "log"
    config = ExecutorchBackendConfig(
        passes=[DebugPass(msg="here", show_src=True), DebugPass(log_filename=str(log))]
    )
    program = edge.to_executorch(config)
    out = capsys.readouterr().out
    assert out.startswith("here\n") and "aten.relu" in out and 'File "test_passes.py"' in out
    assert "aten.relu" in log.read_text()
    torch.testing.assert_close(program.run(X).shape, (2, 2))


def test_passes_are_registered_by_name() -> None:
    from executorch_py.exir.error import ExportError
    from executorch_py.exir.passes.pass_registry import PassRegistry

    @PassRegistry.register()
    def dropInDemo(gm: Any) -> None:
        """Does nothing."""

    assert PassRegistry.get("drop_in_demo") == [dropInDemo]
    with pytest.warns(UserWarning, match="registered already"):
        PassRegistry.register("drop_in_demo")(dropInDemo)
    with pytest.raises(ExportError, match=r"pass name: expected one of .*, got 'nothing'"):
        PassRegistry.get("nothing")
    PassRegistry.registry.pop("drop_in_demo")


def test_instances_of_passes_are_registered() -> None:
    from executorch_py.exir.pass_base import PassBase
    from executorch_py.exir.passes.pass_registry import PassRegistry

    class DropInPass(PassBase):
        def call(self, graph_module: Any) -> None:
            """Does nothing."""

    first, second = DropInPass(), DropInPass()
    PassRegistry.register("drop_in_named")(first)
    PassRegistry.register()(second)
    assert PassRegistry.registry.pop("drop_in_named") == [first]
    assert PassRegistry.registry.pop("drop_in_pass") == [second]


def test_weights_of_an_unlifted_module_are_tagged_for_delegates() -> None:
    from executorch_py.exir.passes.external_constants_pass import (
        delegate_external_constants_pass_unlifted,
    )

    module = export(M(), (X,)).module()
    delegate_external_constants_pass_unlifted(module=module, gen_tag_fn=lambda node: "model")
    program = export(module, (X,))
    tags = [n.meta.get("custom") for n in module.graph.nodes if n.op == "get_attr"]
    assert tags == [{"delegate_constant_tag": "model"}] * 2
    torch.testing.assert_close(program.module()(X), module(X))


def test_experimental_interfaces_warn() -> None:
    from executorch_py.exir._warnings import ExperimentalWarning, experimental

    @experimental("may change")  # type: ignore[untyped-decorator]
    def function() -> int:
        return 1

    with pytest.warns(ExperimentalWarning, match="may change"):
        assert function() == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ExperimentalWarning):
            function()


def test_operators_are_found_in_either_dialect() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.exir.dialects._ops import ops as exir_ops
    from executorch_py.exir.graph_module import contains_any_call_fn_target_op

    gm = to_edge(export(M(), (X,))).exported_program().graph_module
    assert contains_any_call_fn_target_op(gm, {torch.ops.aten.relu.default})
    assert contains_any_call_fn_target_op(gm, {exir_ops.edge.aten.relu.default})
    assert not contains_any_call_fn_target_op(gm, {torch.ops.aten.tanh.default})


def test_constants_that_a_pass_computes_are_in_the_code_under_upstreams_names() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.exir.passes.constant_prop_pass import constant_prop_pass

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(torch.arange(12.0).reshape(3, 2, 2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.cat([x, torch.slice_copy(self.a, 0, 1, 2)]), self.a[2:] * 3

    x = torch.zeros(2, 2, 2)
    program = export(Part(), (x,))
    expected = program.module()(x)
    again = constant_prop_pass(program)
    assert again is program
    assert set(program.constants) == {"_prop_tensor_constant0", "_prop_tensor_constant1"}
    first, second, _ = (spec.arg.name for spec in program.graph_signature.input_specs)
    assert [first, second] == list(program.constants) and "a" not in program.state_dict
    assert "slice" not in program.graph_module.code and first in program.graph_module.code
    program.validate()
    torch.testing.assert_close(program.module()(x), expected)
    assert constant_prop_pass(program).constants.keys() == program.constants.keys()
    torch.testing.assert_close(to_edge(program).to_executorch().run(x), expected)


def test_out_variants_need_no_pass_before_them() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.exir.passes import ToOutVarPass

    class Top(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.topk(x, 2).values

    graph = to_edge(export(Top(), (torch.arange(5.0),))).exported_program().graph_module
    changed = ToOutVarPass()(graph).graph_module
    (top,) = (n for n in changed.graph.nodes if n.target is torch.ops.aten.topk.values)
    assert [n.meta["spec"].shape for n in (top.kwargs["values"], top.kwargs["indices"])] == [
        [2]
    ] * 2
