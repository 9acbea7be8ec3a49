"""to_edge, to_edge_transform_and_lower and EdgeProgramManager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.infra.pass_base import PassResult
from torch.fx.passes.infra.pass_manager import PassManager

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.decompose import core
from executorch_py.exir.decompose.keep_ops import decompose_for, keepable
from executorch_py.exir.dialects._ops import ops as exir_ops
from executorch_py.exir.error import ExportError
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.program_constants import create_mutable_buffer
from executorch_py.exir.pass_base import (
    ExportedProgramPassBase,
    ExportedProgramPassResult,
    ExportPass,
)
from executorch_py.exir.pass_manager import ExportedProgramPassManager
from executorch_py.exir.passes.quantized.quantize_io import QuantizeInputs, QuantizeOutputs
from executorch_py.runtime import Runtime

aten = torch.ops.aten
edge = exir_ops.edge.aten


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.hardswish(torch.relu(self.linear(x)))


X = (torch.randn(2, 4, generator=torch.Generator().manual_seed(0)),)


def exported() -> ExportedProgram:
    return torch.export.export(Net(), X)


def names(program: ExportedProgram) -> list[str]:
    return [str(n.target.__name__) for n in program.graph.nodes if n.op == "call_function"]


def no_change(gm: torch.fx.GraphModule) -> PassResult:
    return PassResult(gm, False)


class SinForRelu(ExportPass):
    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        return super().call_operator(
            edge.sin.default if op is edge.relu.default else op, args, kwargs, meta
        )


def test_one_program_is_the_method_forward() -> None:
    manager = to_edge(exported())
    assert manager.methods == {"forward"}
    assert manager.config_methods == set()
    torch.testing.assert_close(manager.exported_program().module()(*X), Net()(*X))


def test_several_methods_and_constant_methods() -> None:
    manager = to_edge({"a": exported(), "b": exported()}, constant_methods={"size": 4})
    assert (manager.methods, manager.config_methods) == ({"a", "b"}, {"size"})
    with pytest.raises(KeyError, match=r"method_name: expected one of .*, got 'c'"):
        manager.exported_program("c")


def test_the_callers_program_is_left_as_it_was() -> None:
    ep = exported()
    before, state = str(ep.graph), dict(ep.state_dict)
    to_edge(ep)
    to_edge_transform_and_lower(ep, transform_passes=[SinForRelu()])
    assert str(ep.graph) == before
    assert ep.state_dict.keys() == state.keys()


def test_the_same_model_gives_the_same_edge_program() -> None:
    assert str(to_edge(exported()).exported_program()) == str(
        to_edge(exported()).exported_program()
    )


def test_operators_can_be_preserved() -> None:
    config = EdgeCompileConfig(preserve_ops=[aten.hardswish.default, aten.linear.default])
    kept = ["aten.linear.default", "aten.relu.default", "aten.hardswish.default"]
    assert names(to_edge(exported(), compile_config=config).exported_program()) == kept
    lowered = to_edge_transform_and_lower(exported(), compile_config=config)
    assert names(lowered.exported_program()) == kept


def test_an_operator_without_decomposition_is_refused_with_its_source_line() -> None:
    class Bessel(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(x)

    ep = torch.export.export(Bessel(), X)
    with pytest.raises(Exception, match=r"special_bessel_j0.*\n.*test_edge_manager"):
        to_edge(ep)
    op = aten.special_bessel_j0.default
    allowed = EdgeCompileConfig(_core_aten_ops_exception_list=[op])
    assert names(to_edge(ep, compile_config=allowed).exported_program()) == [
        "aten.special_bessel_j0.default"
    ]


def test_argument_mistakes_are_named() -> None:
    with pytest.raises(AssertionError, match="compile_config"):
        to_edge(exported(), EdgeCompileConfig())  # type: ignore[arg-type]
    with pytest.raises(ExportError, match=r"expected the ExportedProgram .*, got a Net"):
        to_edge(Net())  # type: ignore[arg-type]
    with pytest.raises(ExportError, match=r"expected methods of .*, got \['backward'\]"):
        to_edge_transform_and_lower(exported(), partitioner={"backward": []})
    with pytest.raises(ExportError, match=r"expected methods of .*, got \['backward'\]"):
        to_edge(exported()).transform({"backward": []})


class Renamer(ExportedProgramPassBase):
    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        for node in exported_program.graph.find_nodes(op="call_function", target=edge.relu.default):
            node.target = edge.sin.default
        return ExportedProgramPassResult(exported_program, True)


def in_place(gm: torch.fx.GraphModule) -> PassResult:
    for node in gm.graph.find_nodes(op="call_function", target=edge.relu.default):
        node.target = edge.sin.default
    return PassResult(gm, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [SinForRelu()],
        lambda: [in_place],
        lambda: [Renamer()],
        lambda: {"forward": [SinForRelu()]},
        lambda: PassManager([in_place]),
        lambda: ExportedProgramPassManager([SinForRelu(), Renamer()]),
    ],
    ids=["retracing", "function", "program pass", "dict", "graph manager", "program manager"],
)
def test_transform_takes_passes_in_every_form(make: Callable[[], Any]) -> None:
    manager = to_edge(exported())
    changed = manager.transform(make())
    assert "aten.sin.default" in names(changed.exported_program())
    assert "aten.relu.default" in names(manager.exported_program())
    lowered = to_edge_transform_and_lower(exported(), transform_passes=make())
    assert "aten.sin.default" in names(lowered.exported_program())


@pytest.mark.parametrize(
    "step",
    [
        lambda manager: manager.transform([no_change]),
        lambda manager: manager.transform({"named": [no_change]}),
        lambda manager: manager.transform({}),
        lambda manager: manager.transform(PassManager([no_change])),
        lambda manager: manager.to_backend({}),
    ],
    ids=["list", "dict", "no method", "graph manager", "backends of no method"],
)
def test_every_method_after_a_step_has_the_code_of_its_graph(step: Callable[..., Any]) -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    programs = {name: torch.export.export(Branches(), X) for name in ("named", "other")}
    changed = step(to_edge(programs))
    for name in programs:
        modules = list(graph_modules(changed.exported_program(name).graph_module))
        assert len(modules) == 3
        for module in modules:
            code = module.code
            module.recompile()
            assert code == module.code


@pytest.mark.parametrize("make", [QuantizeInputs, QuantizeOutputs])
def test_quantizing_no_inputs_or_outputs_reports_no_change(make: Callable[..., Any]) -> None:
    manager = to_edge(exported())
    program = manager.exported_program()
    assert not make(manager, [])(program).modified
    assert not make(manager, [])(program.graph_module).modified
    assert manager.config_methods == set()


class Remember(ExportPass):
    """Adds a buffer to a program that it has, and writes the last sum to it in place."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.program = program

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        buffer = create_mutable_buffer(self.program, "b_last", torch.zeros(2))
        graph = graph_module.graph
        (add,) = graph.find_nodes(op="call_function", target=edge.add.Tensor)
        (index,) = (n for n in graph.find_nodes(op="placeholder") if n.name == "index")
        with graph.inserting_after(add):
            put = graph.call_function(edge.index_put_.default, (buffer, [index], add))
        add.replace_all_uses_with(put, lambda reader: reader.op == "output")
        self.program.graph_signature.replace_all_uses(add.name, put.name)
        return PassResult(super().call(graph_module).graph_module, True)


@pytest.mark.parametrize("make_list", [list, ExportedProgramPassManager])
def test_a_pass_that_has_the_managers_program_changes_it(make_list: Callable[..., Any]) -> None:
    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return x + x

    x, index = torch.tensor([1.0, 2.0]), torch.tensor([1, 0])
    config = EdgeCompileConfig(_check_ir_validity=False)
    manager = to_edge(torch.export.export(Sum(), (x, index)), compile_config=config)
    changed = manager.transform(make_list([Remember(manager.exported_program())]))
    for one in (changed, manager):
        signature = one.exported_program().graph_signature
        assert signature.buffers_to_mutate == {"b_last": "last"}
        method = Runtime.get().load_program(one.to_executorch().buffer).load_method("forward")
        assert method.execute([x, index])[0].tolist() == [4.0, 2.0]


def test_a_pass_that_breaks_the_dialect_is_refused() -> None:
    def break_it(gm: torch.fx.GraphModule) -> PassResult:
        for node in gm.graph.find_nodes(op="call_function", target=edge.relu.default):
            node.target = aten.relu.default
        return PassResult(gm, True)

    with pytest.raises(Exception, match=r"break_it|not an Edge operator"):
        to_edge(exported()).transform([break_it])


class Keeper:
    """A partitioner that keeps operators from decomposition and lowers nothing."""

    def __init__(self, *ops: Any, check: Callable[[Node], bool] | None = None) -> None:
        self.ops, self.check = list(ops), check

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Any]:
        return self.ops, self.check


@pytest.mark.parametrize(
    ("check", "kept"),
    [
        (None, {"aten.linear.default", "aten.hardswish.default"}),
        (lambda node: True, {"aten.linear.default", "aten.hardswish.default"}),
        (lambda node: node.target is aten.linear.default, {"aten.linear.default"}),
        (lambda node: False, set()),
    ],
)
def test_partitioners_keep_operators_node_by_node(check: Any, kept: set[str]) -> None:
    keeper: Any = Keeper(aten.linear.default, aten.hardswish.default, check=check)
    program, ops = decompose_for([keeper], exported(), [])
    found = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert found & {"aten.linear.default", "aten.hardswish.default"} == kept
    assert {str(op) for op in ops} == kept
    torch.testing.assert_close(program.module()(*X), Net()(*X))


def test_operators_outside_the_core_set_need_no_second_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch's trace of the graph is most of the time of lowering."""

    class Powers(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            low = torch.tril_indices(3, 3)
            return torch.nn.functional.hardswish(torch.ldexp(x, low[0, :4])).relu()

    tables = []
    run = core.run_decompositions

    def counted(program: ExportedProgram, table: Any) -> ExportedProgram:
        tables.append(table)
        return run(program, table)

    monkeypatch.setattr(core, "run_decompositions", counted)
    exported = torch.export.export(Powers().eval(), X)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert len(tables) == 1
    edge.to_executorch().verify(Powers(), *X)


def test_operators_that_cannot_be_kept_are_left_out() -> None:
    asked = [aten.add.Tensor, aten.relu_.default, aten.split.Tensor, aten.linear.default]
    assert keepable(asked) == [aten.linear.default]


def test_a_manager_verifies_what_it_is_given() -> None:
    with pytest.raises(Exception, match="not an Edge operator"):
        EdgeProgramManager(exported().run_decompositions())


def test_the_second_lowering_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Which kernels exist is another test's subject.
    monkeypatch.setattr("executorch_py.exir.target.manifest.check_against_kernels", lambda *a: None)
    manager = to_edge(exported(), constant_methods={"size": 4})
    before = str(manager.exported_program().graph)
    assert manager.to_executorch().buffer == manager.to_executorch().buffer
    assert str(manager.exported_program().graph) == before


class Steps(torch.nn.Module):
    """Sums, which a partitioner lowers one by one, between calls that it leaves."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.n):
            x = (x + 1).cumsum(0)
        return x


def test_graphs_are_compiled_equally_often_whatever_the_number_of_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recompile = torch.fx.GraphModule.recompile
    compiled: list[bool] = []
    counts = []

    def counted(gm: torch.fx.GraphModule) -> Any:
        compiled.append(any("call_delegate" in str(node.target) for node in gm.graph.nodes))
        return recompile(gm)

    monkeypatch.setattr(torch.fx.GraphModule, "recompile", counted)
    for n in (2, 6):
        programs = {name: torch.export.export(Steps(n), X) for name in ("lowered", "other")}
        manager = to_edge(programs)
        compiled.clear()
        lowered = manager.to_backend({"lowered": XnnpackPartitioner()})
        counts.append(sum(compiled))
        assert len(lowered.exported_program("lowered").graph.find_nodes(op="get_attr")) == n
        for name in programs:
            module = lowered.exported_program(name).graph_module
            code = module.code
            recompile(module)
            assert code == module.code
    assert counts[0] == counts[1]
