"""Scripts for upstream run after renaming the package in their imports.

Each test is such a script: the same names from the same module paths, the same keywords, the same
way of reading results.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.relu(self.conv(x)).mean((2, 3)))


INPUTS = (torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)


def test_export_lower_save_and_run_through_the_runtime_api(tmp_path: Path) -> None:
    from executorch_py.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch_py.runtime import Runtime, Verification

    net = Net().eval()
    edge = to_edge(
        torch.export.export(net, INPUTS), compile_config=EdgeCompileConfig(_check_ir_validity=True)
    )
    assert edge.methods == {"forward"}
    program = edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=True))
    path = tmp_path / "net.pte"
    with path.open("wb") as file:
        program.write_to_file(file)
    assert path.read_bytes() == program.buffer

    runtime = Runtime.get()
    loaded = runtime.load_program(path, verification=Verification.Minimal)
    assert loaded.method_names == {"forward"}
    method = loaded.load_method("forward")
    outputs = method.execute(INPUTS)
    torch.testing.assert_close(outputs[0], net(*INPUTS))
    meta = method.metadata
    assert (meta.name(), meta.num_inputs(), meta.num_outputs()) == ("forward", 1, 1)
    info = meta.input_tensor_meta(0)
    assert (info.sizes(), info.dtype(), info.nbytes()) == ((1, 3, 8, 8), 6, 768)
    assert info.is_memory_planned()
    with pytest.raises(IndexError):
        meta.input_tensor_meta(1)
    with pytest.raises(KeyError):
        loaded.load_method("missing")
    assert "aten::convolution.out" in runtime.operator_registry.operator_names


def test_portable_lib_loads_buffers_and_runs_methods() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.extension.pybindings.portable_lib import (
        _load_for_executorch_from_buffer,
    )

    net = Net().eval()
    module = _load_for_executorch_from_buffer(
        to_edge(torch.export.export(net, INPUTS)).to_executorch().buffer
    )
    for outputs in (
        module.forward(INPUTS),
        module.run_method("forward", INPUTS),
        module.run_method("forward", INPUTS, clone_outputs=False),
        module(INPUTS),
    ):
        torch.testing.assert_close(outputs[0], net(*INPUTS))
    assert module.method_names() == ["forward"]
    assert module.method_meta("forward").num_inputs() == 1
    with pytest.raises(RuntimeError, match="0x12"):
        module.forward((INPUTS[0].double(),))


def test_memory_planning_options_and_custom_algorithms() -> None:
    from executorch_py.exir import ExecutorchBackendConfig, to_edge
    from executorch_py.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive
    from executorch_py.exir.passes import MemoryPlanningPass

    exported = torch.export.export(Net().eval(), INPUTS)
    for planning in (
        MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
        MemoryPlanningPass(memory_planning_algo=naive),
        MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([naive, greedy])),
    ):
        program = to_edge(exported).to_executorch(
            ExecutorchBackendConfig(memory_planning_pass=planning)
        )
        for outputs in (program.run(*INPUTS), program.run(INPUTS)):
            torch.testing.assert_close(outputs, Net().eval()(*INPUTS))


def test_a_users_export_pass_rewrites_operators() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.exir.dialects._ops import ops as exir_ops
    from executorch_py.exir.pass_base import ExportPass

    class ReluToSigmoid(ExportPass):
        def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
            if op == exir_ops.edge.aten.relu.default:
                op = exir_ops.edge.aten.sigmoid.default
            return super().call_operator(op, args, kwargs, meta)

    class M(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) + 1.0

    x = torch.randn(3)
    edge = to_edge(torch.export.export(M(), (x,))).transform([ReluToSigmoid()])
    targets = [n.target for n in edge.exported_program().graph.nodes if n.op == "call_function"]
    assert exir_ops.edge.aten.sigmoid.default in targets
    torch.testing.assert_close(edge.to_executorch().run(x), torch.sigmoid(x) + 1.0)


def test_a_users_partitioner_and_backend_lower_nodes() -> None:
    from executorch_py.exir import to_edge, to_edge_transform_and_lower
    from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
    from executorch_py.exir.backend.compile_spec_schema import CompileSpec
    from executorch_py.exir.backend.partitioner import (
        DelegationSpec,
        Partitioner,
        PartitionResult,
    )
    from executorch_py.exir.dialects._ops import ops as exir_ops
    from executorch_py.exir.lowered_backend_module import LoweredBackendModule

    seen: list[tuple[int, bytes]] = []

    class SineDemoBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program: Any, compile_specs: list[CompileSpec]) -> PreprocessResult:
            calls = [n for n in edge_program.graph.nodes if n.op == "call_function"]
            seen.append((len(calls), compile_specs[0].value))
            return PreprocessResult(processed_bytes=b"sine")

    class SinePartitioner(Partitioner):
        def partition(self, exported_program: Any) -> PartitionResult:
            spec = DelegationSpec("SineDemoBackend", [CompileSpec("level", b"7")])
            tags = {}
            for node in exported_program.graph.nodes:
                if node.op == "call_function" and node.target == exir_ops.edge.aten.sin.default:
                    node.meta["delegation_tag"] = "tag0"
                    tags["tag0"] = spec
            return PartitionResult(exported_program, tags)

    class M(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x) + 1.0

    x = torch.randn(3)
    exported = torch.export.export(M(), (x,))
    for edge in (
        to_edge(exported).to_backend(SinePartitioner()),
        to_edge_transform_and_lower(exported, partitioner=[SinePartitioner()]),
    ):
        lowered = [
            module
            for module in edge.exported_program().graph_module.children()
            if isinstance(module, LoweredBackendModule)
        ]
        assert [m.backend_id for m in lowered] == ["SineDemoBackend"]
        assert lowered[0].processed_bytes == b"sine"
        program = edge.to_executorch()
        delegates = program.executorch_program.execution_plan[0].delegates
        assert [d.id for d in delegates] == ["SineDemoBackend"]
        with pytest.raises(RuntimeError, match="SineDemoBackend"):
            program.run(x)
    assert seen == [(1, b"7"), (1, b"7")]


def test_several_methods_and_constant_methods() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.runtime import Runtime

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    x = torch.randn(3)
    program = to_edge(
        {
            "double": torch.export.export(Double(), (x,)),
            "net": torch.export.export(Net().eval(), INPUTS),
        },
        constant_methods={"get_max_seq_len": 128, "get_name": "net", "use_cache": True},
    ).to_executorch()
    assert program.methods == {"double", "net"}
    assert program.config_methods == {"get_max_seq_len", "get_name", "use_cache"}
    loaded = Runtime.get().load_program(program.buffer)
    assert loaded.load_method("get_max_seq_len").execute([]) == [128]
    assert loaded.load_method("get_name").execute([]) == ["net"]
    assert loaded.load_method("use_cache").execute([]) == [True]
    torch.testing.assert_close(loaded.load_method("double").execute([x])[0], x * 2)


def test_exported_edge_programs_survive_save_and_load() -> None:
    from executorch_py import exir

    x = torch.randn(2, 3)
    edge = exir.to_edge(torch.export.export(torch.nn.Linear(3, 4).eval(), (x,)))
    buffer = io.BytesIO()
    exir.save(edge.exported_program(), buffer)
    buffer.seek(0)
    again = exir.load(buffer)
    torch.testing.assert_close(again.module()(x), edge.exported_program().module()(x))


def test_external_constants_go_to_a_ptd_file(tmp_path: Path) -> None:
    from executorch_py.exir import ExecutorchBackendConfig, to_edge
    from executorch_py.runtime import Runtime

    net = Net().eval()
    program = to_edge(torch.export.export(net, INPUTS)).to_executorch(
        ExecutorchBackendConfig(external_constants=True)
    )
    torch.testing.assert_close(program.run(*INPUTS), net(*INPUTS))
    assert program.verify(net, *INPUTS).ok
    program.save(str(tmp_path / "net.pte"))
    program.write_tensor_data_to_file(str(tmp_path))
    (ptd,) = tmp_path.glob("*.ptd")
    assert ptd.name == "_default_external_constant.ptd"
    loaded = Runtime.get().load_program(tmp_path / "net.pte", data_path=ptd)
    torch.testing.assert_close(loaded.load_method("forward").execute(INPUTS)[0], net(*INPUTS))
    with pytest.raises(RuntimeError, match=r"conv\.weight"):
        Runtime.get().load_program(tmp_path / "net.pte").load_method("forward")
