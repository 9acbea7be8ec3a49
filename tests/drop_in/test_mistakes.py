"""Usual mistakes: each message says what was expected, what was given, and what to do."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export

from executorch_py import exir
from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch_py.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch_py.exir.error import ExportError, InternalError
from executorch_py.exir.passes import MemoryPlanningPass
from executorch_py.exir.passes.user.pass_manager import ExportedProgramPassManager, PassManager
from executorch_py.runtime import Runtime

X = torch.ones(2, 3)


class Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@pytest.fixture(scope="module")
def exported() -> ExportedProgram:
    return export(Sum(), (X,))


@pytest.fixture(scope="module")
def edge(exported: ExportedProgram) -> EdgeProgramManager:
    return to_edge(exported)


class Tagger(Partitioner):
    """A partitioner that tags every operator with 't' and returns the given tags."""

    def __init__(self, tags: Any) -> None:
        super().__init__()
        self.tags = tags

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                node.meta["delegation_tag"] = "t"
        if self.tags is None:
            return None  # type: ignore[return-value]
        return PartitionResult(exported_program, self.tags)


@pytest.mark.parametrize(
    ("partitioner", "kind", "message"),
    [
        (3, TypeError, r"a Partitioner object, got 3; pass an object of a class"),
        (Tagger, TypeError, r"a Partitioner object, got .*; call it: Tagger\(\)"),
        (
            Tagger(None),
            TypeError,
            r"Tagger.partition\(\): expected PartitionR.*, got NoneType",
        ),
        (Tagger({"t": "NoBackend"}), TypeError, r"DelegationSpec\(.*\) for tag 't', got a str"),
        (
            Tagger({"u": DelegationSpec("NoBackend", [])}),
            ValueError,
            r"tagged 'dim_order\w+' with 't', .* they are \['u'\]; map every tag",
        ),
        (
            Tagger({"t": DelegationSpec("NoBackend", [])}),
            NotImplementedError,
            "Backend NoBackend was not found. Import the module that defines it",
        ),
    ],
)
def test_an_object_that_is_no_partitioner_is_an_error_that_names_it(
    exported: ExportedProgram,
    edge: EdgeProgramManager,
    partitioner: Any,
    kind: type[Exception],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        edge.to_backend(partitioner)
    with pytest.raises(kind, match=message):
        to_edge_transform_and_lower(exported, partitioner=[partitioner])


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: {"segment_alignment": 100}, ValueError, "segment_alignment: expected a power"),
        (lambda: {"constant_tensor_alignment": 5}, ValueError, "expected a power of two, got 5"),
        (
            lambda: {"own_operators": True, "target": "executorch-1.5"},
            ValueError,
            "own_operators=True: expected target 'executorch_py'",
        ),
        (lambda: {"external_constants": "yes"}, TypeError, "True, False or a func.*, got 'yes'"),
        (
            lambda: {"own_operators": True, "math": "quick"},
            ValueError,
            "math: expected one of 'exact', 'fast', got 'quick'",
        ),
        (lambda: {"math": "fast"}, ValueError, "math='fast': expected own_operators=True, .*"),
        (lambda: {"target": "phone"}, ValueError, "expected one of executorch_py, .*, got 'phone'"),
        (
            lambda: {"memory_planning_pass": MemoryPlanningPass(alignment=0)},
            ValueError,
            "alignment: expected a power of two, got 0",
        ),
        (
            lambda: {"memory_planning_pass": MemoryPlanningPass("greedy")},  # type: ignore[arg-type]
            TypeError,
            "expected a function such as .*greedy, got 'greedy'",
        ),
    ],
)
def test_wrong_settings_are_errors_that_name_them(
    make: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        ExecutorchBackendConfig(**make())


@pytest.mark.parametrize("value", ["yes", 3, None, [3]])
@pytest.mark.parametrize("kind", [EdgeCompileConfig, ExecutorchBackendConfig, MemoryPlanningPass])
def test_every_setting_refuses_values_of_another_kind_by_name(kind: Any, value: Any) -> None:
    """Each parameter, given a value of a kind that it does not take."""
    taken = {
        "passes": [None],
        "external_constants": [],
        "constant_tensor_alignment": [None],
        "delegate_alignment": [None],
        "reinplace_extra_ops": [None],
        "_core_aten_ops_exception_list": [None],
        "memory_planning_algo": [None],
    }
    for name in inspect.signature(kind).parameters:
        if value in taken.get(name, []):
            continue
        with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected .*, got ") as caught:
            kind(**{name: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ExecutorchBackendConfig(memory_planing_pass=None),  # type: ignore[call-arg]
            "ExecutorchBackendConfig: expected one of memory_planning_pass, .*got 'memory_planing",
        ),
        (
            lambda: EdgeCompileConfig(skip_dim_order=True),  # type: ignore[call-arg]
            "EdgeCompileConfig: expected one of _skip_dim_order, .*; got 'skip_dim_order'",
        ),
        (
            lambda: XnnpackPartitioner(per_op_modes=True),
            "XnnpackPartitioner: expected 'per_op_mode', got 'per_op_modes'",
        ),
        (lambda: XnnpackPartitioner(verbose="x"), "verbose: expected True or False"),  # type: ignore[arg-type]
        (lambda: XnnpackPartitioner(enable_bf16=3), "enable_bf16: expected True or False, got 3"),
        (lambda: XnnpackPartitioner(configs="x"), "configs: expected a list of classes"),  # type: ignore[arg-type]
        (
            lambda: XnnpackPartitioner(config_precisions="FP32"),  # type: ignore[arg-type]
            "config_precisions: expected some of ConfigPrecisionType.FP32.*, got 'FP32'",
        ),
    ],
)
def test_an_unknown_keyword_is_named_with_the_known_ones(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_wrong_methods_constants_and_passes_are_named(
    exported: ExportedProgram, edge: EdgeProgramManager
) -> None:
    wrong: Any
    with pytest.raises(ExportError, match="expected at least one method, got none"):
        to_edge({})
    with pytest.raises(ExportError, match="expected names of methods as keys, got 3"):
        wrong = {3: exported}
        to_edge(wrong)
    for wrong in ([1], {3: 1}, 5):
        with pytest.raises(TypeError, match="constant_methods: expected a dict from names"):
            to_edge(exported, constant_methods=wrong)
    with pytest.raises(ExportError) as caught:
        to_edge(exported, constant_methods={"a": object()}).to_executorch()
    assert str(caught.value).count("ExportErrorType") == 1
    for wrong, message in (
        (3, "expected a list of passes, got 3"),
        ("passes", "expected a list of passes, got 'passes'"),
        ([3], "expected a pass, an object to call, got 3"),
        (["passes"], "expected a pass, an object to call, got 'passes'"),
        ([Tagger(None)], r"got the partitioner Tagger: give it as partitioner=\[…\]"),
    ):
        with pytest.raises(TypeError, match=message):
            edge.transform(wrong)
        with pytest.raises(TypeError, match=message):
            to_edge_transform_and_lower(exported, wrong)
        for manager in (PassManager, ExportedProgramPassManager):
            with pytest.raises(TypeError, match=message):
                manager(wrong)


def test_settings_of_another_class_are_refused(
    exported: ExportedProgram, edge: EdgeProgramManager
) -> None:
    wrong: Any = {"preserve_ops": []}
    with pytest.raises(TypeError, match=r"compile_config: expected EdgeCompile.*, got a dict"):
        to_edge(exported, compile_config=wrong)
    with pytest.raises(TypeError, match=r"compile_config: .*got a dict"):
        to_edge_transform_and_lower(exported, compile_config=wrong)
    with pytest.raises(TypeError, match=r"config: expected ExecutorchB.*, got a EdgeCompileConfig"):
        edge.to_executorch(EdgeCompileConfig())  # type: ignore[arg-type]


def test_the_first_capture_path_names_its_replacement() -> None:
    with pytest.raises(ExportError, match=r"call torch\.export\.export\(model, args\)"):
        exir.capture(Sum(), (X,))


def test_absent_files_and_unknown_levels_are_refused(
    edge: EdgeProgramManager, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file '.*absent\.pt2'"):
        exir.load(tmp_path / "absent.pt2")
    data = edge.to_executorch().buffer
    with pytest.raises(TypeError, match=r"expected Verification\.InternalConsistency .* got 7"):
        Runtime.get().load_program(data, verification=7)  # type: ignore[arg-type]


def test_an_out_variant_registered_after_the_error_is_found() -> None:
    with torch.library._scoped_library("late_ops", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

        class Custom(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                result: torch.Tensor = torch.ops.late_ops.twice(x)
                return result

        program = to_edge(export(Custom(), (X,)))
        with pytest.raises(ExportError, match=r"no out variant.*(?s:.)*register `<name>.out`"):
            program.to_executorch()
        library.define("twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        with pytest.raises(ExportError, match=r"late_ops::twice\.out.*no kernel") as refused:
            program.to_executorch()
        assert "executorch_py build-ops my_op.c -o my_op.so" in str(refused.value)
        assert 'executorch_py.load_ops("my_op.so")' in str(refused.value)


def test_a_list_of_exceptions_may_be_none(exported: ExportedProgram) -> None:
    settings = EdgeCompileConfig(_core_aten_ops_exception_list=None)  # type: ignore[arg-type]
    assert to_edge(exported, compile_config=settings).to_executorch().run(X).equal(X + 1)


def test_a_partitioner_that_tags_an_input_is_named(edge: EdgeProgramManager) -> None:
    class TagsInput(Partitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            for node in exported_program.graph.nodes:
                if node.op == "placeholder":
                    node.meta["delegation_tag"] = "t"
            return PartitionResult(exported_program, {"t": DelegationSpec("NoBackend", [])})

    with pytest.raises(
        RuntimeError, match=r"TagsInput: expected tags .*, got tag 't' on the input 'x'"
    ):
        edge.to_backend(TagsInput())


def test_what_a_file_cannot_hold_is_caught_as_upstreams_error() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.total.add_(x) * 2

    unplanned = MemoryPlanningPass(alloc_mutable_buffers=False)
    for kind in (InternalError, ExportError):
        with pytest.raises(kind, match="'total' has no planned memory"):
            to_edge(export(Counter(), (X,))).to_executorch(
                ExecutorchBackendConfig(memory_planning_pass=unplanned)
            )

    class ChannelsLast(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(memory_format=torch.channels_last).contiguous()

    old = EdgeCompileConfig(_skip_dim_order=True)
    image = to_edge(export(ChannelsLast(), (torch.ones(1, 2, 3, 3),)), compile_config=old)
    for kind in (InternalError, ExportError):
        with pytest.raises(kind, match="channels_last: the program format has no such value"):
            image.to_executorch()
