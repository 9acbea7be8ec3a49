"""Upstream's tutorials on delegates, passes and memory plans, under this package's name.

Expected texts are upstream's output for the same program.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tolerance import F32_NEAR_ONE, assert_near
from torch.export import export


class Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


class MulAdd(torch.nn.Module):
    def forward(self, a: torch.Tensor, x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        z = torch.mm(a, x) + b
        a = z - a
        return torch.mm(a, x) + b


SQUARES = tuple(torch.randn(2, 2, generator=torch.Generator().manual_seed(i)) for i in range(3))


def _lowered_sine() -> Any:
    import executorch_py.exir.backend.test.backend_with_compiler_demo  # noqa: F401
    from executorch_py.exir import to_edge
    from executorch_py.exir.backend.backend_api import to_backend

    edge = to_edge(export(Sine(), (torch.ones(1),), strict=True))
    return to_backend("BackendWithCompilerDemo", edge.exported_program(), [])


def test_a_whole_program_is_lowered_to_the_demo_backend() -> None:
    lowered = _lowered_sine()
    assert lowered.backend_id == "BackendWithCompilerDemo"
    assert lowered.processed_bytes == (
        b"1version:0#op:demo::aten.sin.default, numel:1, dtype:torch.float32<debug_handle>1#"
    )
    assert lowered.meta == {"debug_handle_map": {1: (1,)}, "_delegate_info_meta": "test"}
    code = str(lowered.original_module)
    assert "executorch_exir_dialects_edge__ops_aten_sin_default" in code
    assert isinstance(lowered.buffer(), bytes)


@pytest.mark.parametrize("strict", [True, False])
def test_a_lowered_module_is_a_part_of_another_model(strict: bool) -> None:
    from executorch_py.exir import to_edge

    class Composed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = torch.ones(1) * 0.3
            self.lowered = _lowered_sine()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a = self.lowered(x)
            b = self.lowered(a)
            return a, b, a + b + self.bias

    x = torch.ones(1)
    edge = to_edge(export(Composed(), (x,), strict=strict))
    program = edge.exported_program()
    assert program.graph_module.lowered_module_0.backend_id == "BackendWithCompilerDemo"
    assert "torch.ops.higher_order.executorch_call_delegate(lowered_module_0, x)" in str(program)
    plan = edge.to_executorch().executorch_program.execution_plan[0]
    assert [d.id for d in plan.delegates] == ["BackendWithCompilerDemo"] * 2
    a = torch.sin(x)
    expected = (a, torch.sin(a), a + torch.sin(a) + 0.3)
    assert_near(program.module()(x), expected, F32_NEAR_ONE)


def test_delegates_of_a_partitioned_program_are_numbered_as_they_are_called() -> None:
    from executorch_py.exir import to_edge
    from executorch_py.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo
    from executorch_py.exir.backend.utils import format_delegated_graph, get_delegates

    edge = to_edge(export(MulAdd(), SQUARES)).to_backend(AddMulPartitionerDemo())
    program = edge.exported_program()
    graph = program.graph
    assert [n.name for n in get_delegates(graph)] == ["lowered_module_0", "lowered_module_1"]
    calls = [n for n in graph.nodes if "call_delegate" in n.name]
    assert [n.name for n in calls] == ["executorch_call_delegate", "executorch_call_delegate_1"]
    first = program.graph_module.lowered_module_0.original_module
    assert [n.name for n in first.graph.nodes if n.op == "call_function"] == [
        "aten_mm_default",
        "aten_add_tensor",
    ]
    assert "backend_id: BackendWithCompilerDemo" in format_delegated_graph(program.graph_module)
    torch.testing.assert_close(program.module()(*SQUARES), MulAdd()(*SQUARES))


def test_delegates_of_a_second_partitioner_leave_the_names_of_the_first_alone() -> None:
    from executorch_py.backends.reference import ReferencePartitioner
    from executorch_py.exir import to_edge
    from executorch_py.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo

    edge = to_edge(export(MulAdd(), SQUARES)).to_backend(AddMulPartitionerDemo())
    edge = edge.to_backend(ReferencePartitioner())
    gm = edge.exported_program().graph_module
    assert [getattr(gm, f"lowered_module_{i}").backend_id for i in range(3)] == [
        "BackendWithCompilerDemo",
        "BackendWithCompilerDemo",
        "ReferenceBackend",
    ]
    torch.testing.assert_close(edge.exported_program().module()(*SQUARES), MulAdd()(*SQUARES))


def test_the_demo_backend_names_an_operator_it_lacks() -> None:
    import executorch_py.exir.backend.test.backend_with_compiler_demo  # noqa: F401
    from executorch_py.exir import to_edge
    from executorch_py.exir.backend.backend_api import to_backend

    edge = to_edge(export(torch.nn.ReLU(), (torch.ones(1),))).exported_program()
    with pytest.raises(RuntimeError, match=r"aten\.relu\.default is not supported in backend"):
        to_backend("BackendWithCompilerDemo", edge, [])
    with pytest.raises(NotImplementedError, match="Backend NoSuchBackend was not found"):
        to_backend("NoSuchBackend", edge, [])


def test_the_delegation_report_counts_as_upstream_does() -> None:
    from executorch_py.devtools.backend_debug import get_delegation_info
    from executorch_py.exir import to_edge
    from executorch_py.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo

    edge = to_edge(export(MulAdd(), SQUARES)).to_backend(AddMulPartitionerDemo())
    info = get_delegation_info(edge.exported_program().graph_module)
    assert info.get_summary() == (
        "Total delegated subgraphs: 2\n"
        "Number of delegated nodes: 4\n"
        "Number of non-delegated nodes: 3\n"
    )
    by_operator = {
        name: (entry.delegated, entry.non_delegated)
        for name, entry in info.delegation_by_operator.items()
    }
    assert by_operator == {
        "aten_mm_default": (2, 0),
        "aten_add_tensor": (2, 0),
        "aten_sub_tensor": (0, 1),
        "getitem": (0, 2),
    }


def test_a_memory_planning_pass_chooses_memories_by_operator() -> None:
    from executorch_py import exir
    from executorch_py.exir.memory_planning import greedy
    from executorch_py.exir.passes import MemoryPlanningPass

    class Pools(MemoryPlanningPass):
        def run(self, graph_module: Any, graph_signature: Any = None) -> Any:
            for node in graph_module.graph.nodes:
                if node.op == "placeholder" or node.target == torch.ops.aten.mul.out:
                    node.meta["spec"].mem_id = 1
                elif node.target == torch.ops.aten.add.out:
                    node.meta["spec"].mem_id = 2
            return super().run(graph_module, graph_signature)

    class M(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (x + y) * y + x

    inputs = (torch.randn(4), torch.randn(4))
    config = exir.ExecutorchBackendConfig(memory_planning_pass=Pools(memory_planning_algo=greedy))
    program = exir.to_edge(export(M(), inputs)).to_executorch(config)
    plan = program.executorch_program.execution_plan[0]
    assert plan.non_const_buffer_sizes == [0, 48, 16]
    torch.testing.assert_close(program.run(*inputs), M()(*inputs))


def test_a_memory_trace_shows_every_planned_tensor_in_every_step(tmp_path: Path) -> None:
    from executorch_py.exir import to_edge
    from executorch_py.util.activation_memory_profiler import generate_memory_trace

    program = to_edge(export(MulAdd(), SQUARES)).to_executorch()
    path = tmp_path / "memory.json"
    generate_memory_trace(
        executorch_program_manager=program,
        chrome_trace_filename=str(path),
        enable_memory_offsets=True,
    )
    events = json.loads(path.read_text())["traceEvents"]
    assert {"a", "x", "b", "aten_mm_default"} <= {event["name"] for event in events}
    assert all(event["dur"] == 16 and event["args"]["Memory ID"] == 1 for event in events)
    for step in {event["tid"] for event in events}:
        starts = [event["ts"] for event in events if event["tid"] == step]
        assert len(starts) == len(set(starts))
    with pytest.raises(ValueError, match="ExecutorchProgramManager"):
        generate_memory_trace(object(), str(path))  # type: ignore[arg-type]


def test_short_cuts_export_and_save(tmp_path: Path) -> None:
    from executorch_py.exir.capture import EdgeCompileConfig, ExecutorchBackendConfig
    from executorch_py.extension.export_util.utils import (
        export_to_edge,
        export_to_exec_prog,
        save_pte_program,
    )
    from executorch_py.runtime import Runtime

    x = torch.randn(2, 3)
    linear = torch.nn.Linear(3, 4)
    config = EdgeCompileConfig(_check_ir_validity=False)
    edge = export_to_edge(linear, (x,), edge_compile_config=config, strict=False)
    assert edge.methods == {"forward"}
    program = export_to_exec_prog(
        linear, (x,), backend_config=ExecutorchBackendConfig(external_constants=True)
    )
    name = save_pte_program(program, "linear", str(tmp_path))
    assert name == str(tmp_path / "linear.pte")
    data = tmp_path / "_default_external_constant.ptd"
    method = Runtime.get().load_program(name, data_path=data).load_method("forward")
    torch.testing.assert_close(method.execute([x])[0], linear(x))


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    from executorch_py.extension.export_util import export_to_exec_prog, save_pte_program

    program = export_to_exec_prog(Sine(), (torch.ones(1),))
    with pytest.raises(FileNotFoundError):
        save_pte_program(program, "sine", str(tmp_path / "missing"))
