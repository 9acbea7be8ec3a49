"""Listings of programs and graphs: their contents, not their exact layout."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.export import Dim, export

from executorch_py.backends.reference import ReferencePartitioner
from executorch_py.exir import schema, to_edge, to_edge_transform_and_lower
from executorch_py.exir.error import ExportError
from executorch_py.exir.inspect import (
    get_delegation_info,
    operator_counts,
    print_delegation_info,
    print_ops,
)
from executorch_py.exir.print_program import (
    add_cursor_to_graph,
    inspect_node,
    pretty_print,
    print_program,
)


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor, mode: str) -> Any:
        self.count.add_(1)
        return torch.cond(self.count.sum() > 2, torch.neg, torch.abs, (self.linear(x),)), mode


@pytest.fixture(scope="module")
def program() -> Any:
    shapes = ({0: Dim("rows", min=1, max=8)}, None)
    with torch.no_grad():
        exported = export(Counting(), (torch.ones(2, 4), "fast"), dynamic_shapes=shapes)
    return to_edge(exported).to_executorch()


@pytest.fixture(scope="module")
def delegated() -> Any:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumsum(x + x, 0)

    exported = export(Model(), (torch.ones(2, 4),))
    return to_edge_transform_and_lower(exported, partitioner=[ReferencePartitioner()])


def text_of(printer: Any, *args: Any, **kwargs: Any) -> str:
    stream = io.StringIO()
    printer(*args, out=stream, **kwargs)
    return stream.getvalue()


def test_a_listing_has_values_instructions_and_the_interface(program: Any) -> None:
    lines = text_of(program.dump_executorch_program).splitlines()
    assert lines[0].startswith("method forward: planned bytes [")
    (plan,) = program.executorch_program.execution_plan
    assert sum(line.startswith("  %") for line in lines) == len(plan.values)
    numbered = [line for line in lines if line[:5].strip(" :").isdigit()]
    assert len(numbered) == len(plan.chains[0].instructions)
    text = "\n".join(lines)
    assert "float[8, 4]~ at 1:" in text  # dynamic, so marked, and planned
    assert "aten::addmm.out %" in text
    assert "unless %" in text and " jump to " in text
    assert "= 'fast'" in text
    inputs = " ".join(f"%{i}" for i in plan.inputs)
    assert f"  inputs {inputs}" in lines
    assert lines[-1].startswith("  outputs %")


def test_a_buffer_with_a_start_value_says_where_both_are() -> None:
    tensor = schema.Tensor(
        schema.ScalarType.FLOAT, 0, [2], [0], False, 0, 3, schema.AllocationDetails(1, 64, 0),
        schema.TensorShapeDynamism.STATIC, None,
    )  # fmt: skip
    plan = schema.ExecutionPlan(
        "forward",
        schema.ContainerMetadata("", ""),
        [schema.EValue(tensor)],
        [],
        [],
        [],
        [],
        [],
        [0],
    )
    program = schema.Program(0, [plan], [], [], [], schema.SubsegmentOffsets(0, []))
    assert "%0 = float[2] at 1:64 from data 3" in text_of(print_program, program)
    assert "%0 = float[2]\n" in text_of(print_program, program, show_meminfo=False)


def test_a_verbose_dump_shows_the_tables_one_to_one(program: Any) -> None:
    text = text_of(program.dump_executorch_program, verbose=True)
    assert text.startswith("Program(")
    for part in (
        "execution_plan=[",
        "ExecutionPlan(",
        "scalar_type=FLOAT",
        "instr_args=KernelCall(",
    ):
        assert part in text


def test_listings_go_to_standard_output_by_default(
    program: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    program.dump_executorch_program()
    assert capsys.readouterr().out == text_of(program.dump_executorch_program)


def test_delegates_are_listed_with_their_backend(delegated: Any) -> None:
    text = text_of(delegated.to_executorch().dump_executorch_program)
    assert "delegate 0 (ReferenceBackend) %" in text


def test_long_bytes_are_cut_and_graphs_are_refused(delegated: Any) -> None:
    assert "… 100 bytes" in text_of(pretty_print, schema.Buffer(bytes(100)))
    with pytest.raises(ExportError, match="GraphModule"):
        pretty_print(delegated.exported_program().graph_module)


def test_a_cursor_stands_before_the_node_and_its_facts_follow(delegated: Any) -> None:
    graph = delegated.exported_program().graph
    node = next(n for n in graph.nodes if "cumsum" in n.name)
    (marked,) = [n for n in add_cursor_to_graph(graph, node).splitlines() if n.startswith("--> ")]
    assert node.name in marked
    text = inspect_node(graph, node)
    assert marked in text
    assert f"node {node.name}: call_function" in text
    assert "val: FakeTensor" in text
    assert "test_print_program.py" in text


def test_operators_are_counted_in_bodies_too(program: Any) -> None:
    with torch.no_grad():
        edge = to_edge(export(Counting(), (torch.ones(2, 4), "fast"))).exported_program()
    counts = operator_counts(edge)
    assert counts["aten.neg"] == counts["aten.abs"] == counts["cond"] == 1
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert text_of(print_ops, edge).splitlines()[0].split() == [
        str(next(iter(counts.values()))),
        next(iter(counts)),
    ]


def test_delegation_is_counted_by_operator(delegated: Any) -> None:
    info = get_delegation_info(delegated.exported_program().graph_module)
    assert info.num_delegated_subgraphs == 1
    assert (info.num_delegated_nodes, info.num_non_delegated_nodes) == (1, 2)
    assert info.delegation_by_operator["aten_add_tensor"].delegated == 1
    assert info.delegation_by_operator["aten_cumsum_default"].non_delegated == 1
    assert info.delegation_by_operator["getitem"].non_delegated == 1
    assert "Number of delegated nodes: 1" in info.get_summary()
    text = text_of(print_delegation_info, delegated.exported_program().graph_module)
    assert text.startswith(info.get_summary())
    assert text.splitlines()[-1].split() == ["Total", "1", "2"]
