"""Delegation ahead of time: tagged nodes leave the graph, results stay, mistakes are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from executorch_py.backends.reference import ReferencePartitioner
from executorch_py.backends.reference.payload import Payload
from executorch_py.exir import schema as s
from executorch_py.exir import to_edge
from executorch_py.exir.backend import backend_api
from executorch_py.exir.backend.backend_api import (
    MethodProgramsPartitionerSpec,
    to_backend,
    validation_disabled,
)
from executorch_py.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch_py.exir.backend.canonical_partitioners.all_node_partitioner import (
    AllNodePartitioner,
)
from executorch_py.exir.backend.compile_spec_schema import CompileSpec
from executorch_py.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch_py.exir.backend.utils import (
    format_delegated_graph,
    get_delegated_payload,
    get_delegates,
    get_non_lowered_nodes,
    tag_constant_data,
    tag_mutated_buffer,
)
from executorch_py.exir.error import ExportError
from executorch_py.exir.ir.op_traits import op_key
from executorch_py.exir.lowered_backend_module import get_lowered_backend_modules
from executorch_py.exir.program.config import ExecutorchBackendConfig

UPSTREAM_KERNELS = ExecutorchBackendConfig(target="executorch-1.5")


class NamesBackend(BackendDetails):
    """A backend whose payload is the names of the operators in its partition."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        names = [op_key(n.target) for n in edge_program.graph.nodes if n.op == "call_function"]
        specs = "".join(f"{spec.key}={spec.value!r};" for spec in compile_specs)
        return PreprocessResult((specs + ",".join(names)).encode())


class TakeOperators(Partitioner):
    """Tags the operators named, each list as one partition."""

    def __init__(self, *groups: list[str], constants: bool = False, state: bool = False) -> None:
        super().__init__()
        self.groups, self.constants, self.state = groups, constants, state

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags = {}
        for i, names in enumerate(self.groups):
            for node in exported_program.graph.nodes:
                if op_key(node.target) in names:
                    node.meta["delegation_tag"] = f"tag{i}"
                    tags[f"tag{i}"] = DelegationSpec("NamesBackend", [CompileSpec("k", b"v")])
        if self.constants:
            tag_constant_data(exported_program)
        if self.state:
            tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, tags)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4))
        self.register_buffer("c", torch.randn(3, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        a = torch.relu(x + self.w) * self.c
        b = torch.cumsum(a, 0)
        return a - y, b * self.c + self.w, b


INPUTS = (torch.randn(3, 4), torch.randn(3, 4))


def edge(model: nn.Module, inputs: tuple[Any, ...] = INPUTS, **kwargs: Any) -> Any:
    return to_edge(export(model.eval(), inputs, **kwargs))


def payloads(program: ExportedProgram) -> list[str]:
    return [data.decode() for _, _, data in get_delegated_payload(program.graph_module).values()]


@pytest.mark.parametrize("own_constants", [False, True])
def test_a_partitioned_program_computes_what_it_did(own_constants: bool) -> None:
    model = Small()
    manager = edge(model).to_backend(ReferencePartitioner(own_constants))
    program = manager.exported_program()
    assert len(get_delegates(program.graph)) == 2
    assert [op_key(n.target) for n in get_non_lowered_nodes(program.graph)] == ["aten::cumsum"]
    for found, wanted in zip(program.module()(*INPUTS), model(*INPUTS), strict=True):
        assert torch.equal(found, wanted)
    assert bool(program.state_dict) is not own_constants


def test_owned_constants_are_named_data_stored_once() -> None:
    manager = edge(Small()).to_backend(ReferencePartitioner(own_constants=True))
    modules = get_lowered_backend_modules(manager.exported_program().graph_module)
    keys = [{key for _, key in Payload.from_bytes(m.processed_bytes).constants} for m in modules]
    assert len(keys[0]) == 2 and keys[0] == keys[1]
    program = manager.to_executorch(UPSTREAM_KERNELS)
    assert set(program._named_data.pte_data) == keys[0]


def test_delegate_calls_are_emitted_with_inputs_then_outputs() -> None:
    program = edge(Small()).to_backend(ReferencePartitioner()).to_executorch(UPSTREAM_KERNELS)
    plan = program.executorch_program.execution_plan[0]
    assert [d.id for d in plan.delegates] == ["ReferenceBackend"] * 2
    calls = [i.instr_args for i in plan.chains[0].instructions]
    sizes = [len(c.args) for c in calls if isinstance(c, s.DelegateCall)]
    assert sorted(sizes) == [4, 7]


def test_sizes_of_delegates_may_be_dynamic() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + y) * x

    model, rows = Model(), Dim("rows", min=1, max=8)
    manager = edge(model, dynamic_shapes=({0: rows}, {0: rows}))
    program = manager.to_backend(ReferencePartitioner()).exported_program()
    other = (torch.randn(7, 4), torch.randn(7, 4))
    assert not get_non_lowered_nodes(program.graph)
    assert torch.equal(program.module()(*other), model(*other))


def test_bodies_of_control_flow_are_partitioned_too() -> None:
    class Model(nn.Module):
        def forward(self, p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(p, lambda t: t + t, lambda t: (t * t).sin(), (x,))

    model, x = Model(), torch.randn(3)
    program = edge(model, (torch.tensor(True), x)).to_backend(ReferencePartitioner())
    lowered = program.exported_program()
    assert "ReferenceBackend" in format_delegated_graph(lowered.graph_module.true_graph_0)
    for p in (torch.tensor(True), torch.tensor(False)):
        assert torch.equal(lowered.module()(p, x), model(p, x))


def test_tags_of_branches_without_a_specification_are_warned_of_and_left_to_kernels() -> None:
    class Forgets(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            for node in exported_program.graph_module.true_graph_0.graph.nodes:
                if node.op == "call_function":
                    node.meta["delegation_tag"] = "forgotten"
            return PartitionResult(exported_program, {})

    class Model(nn.Module):
        def forward(self, p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(p, lambda t: t + t, lambda t: t.sin(), (x,))

    model, x = Model(), torch.randn(3)
    manager = edge(model, (torch.tensor(True), x))
    with pytest.warns(UserWarning, match="with 'forgotten', .* Kernels compute this node"):
        lowered = manager.to_backend(Forgets()).exported_program()
    assert torch.equal(lowered.module()(torch.tensor(True), x), model(torch.tensor(True), x))


def test_tags_from_before_are_looked_up_for_unknown_tags_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    tags_of = backend_api._tags_of
    monkeypatch.setattr(
        backend_api,
        "_tags_of",
        lambda program, number: asked.append(number) or tags_of(program, number),
    )
    x = torch.randn(3)
    edge(nn.ReLU(), (x,)).to_backend(AllNodePartitioner("NamesBackend", []))
    assert asked == []


class NestsBackend(BackendDetails):
    """A backend that hands its multiplications on, and ignores the tags that led to it."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        inner = to_backend(edge_program, TakeOperators(["aten::mul.Tensor"]))
        return PreprocessResult(f"{len(get_delegates(inner.graph))} inside".encode())


def test_a_backend_may_partition_its_own_part() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * x).sin()

    outer = AllNodePartitioner(NestsBackend.__name__, [])
    program = edge(Model(), (torch.ones(3),)).to_backend(outer).exported_program()
    (lowered,) = get_lowered_backend_modules(program.graph_module)
    assert lowered.processed_bytes == b"1 inside"


def test_a_whole_program_is_lowered_without_a_partitioner() -> None:
    model = Small()
    program = edge(model).exported_program()
    module = to_backend("NamesBackend", program, [CompileSpec("a", b"1")])
    assert module.backend_id == "NamesBackend"
    assert module.processed_bytes.startswith(b"a=b'1';aten::add.Tensor,aten::relu")
    assert torch.equal(module(*INPUTS)[0], model(*INPUTS)[0])


def test_a_lowered_module_makes_a_program_of_its_own() -> None:
    module = to_backend("NamesBackend", edge(Small()).exported_program(), [])
    plan = module.program().execution_plan[0]
    assert len(plan.inputs) == 2 and len(plan.outputs) == 3 and len(plan.delegates) == 1
    assert module.processed_bytes in module.buffer()


def test_all_nodes_become_one_delegate() -> None:
    manager = edge(Small()).to_backend(AllNodePartitioner("NamesBackend", []))
    program = manager.exported_program()
    assert len(get_delegates(program.graph)) == 1 and not get_non_lowered_nodes(program.graph)
    assert not program.state_dict


def test_programs_given_are_not_changed() -> None:
    program = edge(Small()).exported_program()
    before = str(program.graph)
    lowered = to_backend(program, ReferencePartitioner(own_constants=True))
    assert str(program.graph) == before and len(program.state_dict) == 2
    assert len(get_delegates(lowered.graph)) == 2


def test_constants_used_by_two_partitions_are_copied_to_each() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x + self.w) * self.w

    model, x = Shared(), torch.randn(4)
    program = edge(model, (x,)).exported_program()
    taker = TakeOperators(["aten::add.Tensor"], ["aten::mul.Tensor"], constants=True)
    lowered = to_backend(program, taker)
    assert not lowered.state_dict
    modules = get_lowered_backend_modules(lowered.graph_module)
    assert [len(m.original_module.state_dict) for m in modules] == [1, 1]
    assert torch.equal(lowered.module()(x), model(x))


def test_a_partition_on_a_dependency_cycle_is_refused() -> None:
    program = edge(Small()).exported_program()
    with pytest.raises(ExportError, match="needs its own result"):
        to_backend(program, TakeOperators(["aten::add.Tensor", "aten::sub.Tensor"]))


def test_state_moves_into_the_delegate_that_writes_it() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n.add_(x)
            return self.n * 2

    program = edge(Counting(), (torch.ones(2),)).exported_program()
    names = ["aten::add.Tensor", "aten::mul.Tensor", "aten::copy"]
    lowered = to_backend(program, TakeOperators(names, constants=True, state=True))
    assert not lowered.graph_signature.buffers_to_mutate and "n" not in lowered.state_dict
    (module,) = get_lowered_backend_modules(lowered.graph_module)
    assert list(module.original_module.graph_signature.buffers_to_mutate.values()) == ["n"]


def test_a_backend_sees_the_partitions_of_all_methods_at_once() -> None:
    seen: list[dict[str, int]] = []

    class SharingBackend(BackendDetails):
        @staticmethod
        def preprocess(
            edge_program: ExportedProgram, compile_specs: list[CompileSpec]
        ) -> PreprocessResult:
            return PreprocessResult(b"one")

        @classmethod
        def preprocess_multimethod(cls, edge_programs: Any, compile_specs: Any) -> Any:
            seen.append({name: len(parts) for name, parts in edge_programs.items()})
            return super().preprocess_multimethod(edge_programs, compile_specs)

    manager = to_edge({name: export(Small(), INPUTS) for name in ("one", "two")})
    programs = {name: manager.exported_program(name) for name in ("one", "two")}
    partitioner = AllNodePartitioner("SharingBackend", [])
    spec = MethodProgramsPartitionerSpec(programs, dict.fromkeys(programs, partitioner))
    assert set(to_backend(spec)) == {"one", "two"}
    assert seen == [{"one": 1, "two": 1}]


def test_unknown_backends_are_named() -> None:
    with pytest.raises(NotImplementedError, match=r"NoSuchBackend.*NamesBackend"):
        to_backend("NoSuchBackend", edge(Small()).exported_program(), [])


def test_partitioners_must_not_change_the_graph() -> None:
    class Changing(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            out = exported_program.graph.output_node()
            out.args = (out.args[0][::-1],)
            return PartitionResult(exported_program, {})

    program = edge(Small()).exported_program()
    with pytest.raises(AssertionError, match="Changing"):
        to_backend(program, Changing())
    with validation_disabled(), pytest.raises(Exception, match="output"):
        to_backend(program, Changing())


def test_tags_without_a_backend_are_named() -> None:
    class Forgetful(TakeOperators):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            return PartitionResult(super().partition(exported_program).tagged_exported_program, {})

    with pytest.raises(ValueError, match="'tag0'"):
        to_backend(edge(Small()).exported_program(), Forgetful(["aten::relu"]))


def test_tagged_inputs_are_refused() -> None:
    class Greedy(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            for node in exported_program.graph.nodes:
                if node.op != "output":
                    node.meta["delegation_tag"] = "all"
            return PartitionResult(exported_program, {"all": DelegationSpec("NamesBackend", [])})

    with pytest.raises(RuntimeError, match="inputs must not be tagged"):
        to_backend(edge(Small()).exported_program(), Greedy())


def test_backends_are_final() -> None:
    with pytest.raises(TypeError, match="NamesBackend"):
        type("Derived", (NamesBackend,), {})
