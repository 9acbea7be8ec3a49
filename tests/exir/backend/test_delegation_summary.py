"""Summaries of delegation: delegated calls, other calls with reasons, shares of the time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import export

from executorch_py.backends.reference import ReferencePartitioner
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.devtools.backend_debug import get_delegation_info
from executorch_py.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch_py.exir.backend.cost import bytes_of, estimated_seconds, flops_of
from executorch_py.exir.backend.delegation_summary import summary_of_file
from executorch_py.exir.ir.op_traits import op_key

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
X = torch.rand(4, 16)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = torch.relu(self.first(x))
        result: Tensor = self.second(torch.cumsum(hidden, 1))
        return result


@pytest.fixture(scope="module")
def edge() -> EdgeProgramManager:
    program = export(Net().eval(), (X,))
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])


def test_every_call_is_delegated_or_left_with_its_reason(edge: EdgeProgramManager) -> None:
    summary = edge.delegation_summary()
    left = [record for record in summary.records if record.delegate is None]
    assert [(r.operator, r.reason) for r in left] == [("aten::cumsum", "no XNNPACK form written")]
    assert "cumsum(hidden, 1)" in left[0].source
    assert sorted(r.operator for r in summary.records if r.delegate is not None) == [
        "aten::linear",
        "aten::linear",
        "aten::relu",
    ]
    assert {r.backend for r in summary.records if r.delegate is not None} == {"XnnpackBackend"}
    assert sorted(d.operators or 0 for d in summary.delegates) == [1, 2]
    assert all(d.payload_bytes > 0 for d in summary.delegates)


def test_shares_of_the_time_add_up(edge: EdgeProgramManager) -> None:
    summary = edge.delegation_summary()
    rows = summary.rows()
    assert sum(row.share or 0.0 for row in rows) == pytest.approx(1.0)
    delegated = sum(row.share or 0.0 for row in rows if row.delegated)
    assert summary.delegated_share == pytest.approx(delegated)
    assert rows[0].operator == "aten::cumsum"  # calls that are left come first


def test_it_prints_a_table(edge: EdgeProgramManager) -> None:
    lines = str(edge.delegation_summary()).splitlines()
    assert lines[0].split() == ["operator", "delegated", "left", "share", "reason"]
    cumsum = next(line for line in lines if line.startswith("aten::cumsum"))
    assert cumsum.split()[1:3] == ["0", "1"]
    assert cumsum.endswith("no XNNPACK form written")
    assert lines[-1].startswith("2 delegates take 3 of 4 calls, ")


def test_a_finished_program_has_one_too(edge: EdgeProgramManager) -> None:
    summary = edge.to_executorch().delegation_summary()
    left = [(r.operator, r.reason) for r in summary.records if r.delegate is None]
    assert left == [("aten::cumsum.out", "no XNNPACK form written")]
    assert len(summary.delegates) == 2


def test_upstreams_delegation_info_agrees(edge: EdgeProgramManager) -> None:
    info = get_delegation_info(edge.exported_program().graph_module)
    assert info.num_delegated_subgraphs == 2
    assert info.delegation_by_operator["aten_linear_default"].delegated == 2


def test_other_partitioners_leave_no_reasons() -> None:
    program = export(Net().eval(), (X,))
    edge = to_edge_transform_and_lower(program, partitioner=[ReferencePartitioner()])
    summary = edge.delegation_summary()
    assert {d.backend for d in summary.delegates} == {"ReferenceBackend"}
    assert {r.reason for r in summary.records} == {None}


def test_of_a_file_counts_are_known_and_times_are_not() -> None:
    path = GOLDEN / "xnnpack.pte"
    for source in (path, path.read_bytes()):
        summary = summary_of_file(source)
        assert [d.backend for d in summary.delegates] == ["XnnpackBackend"]
        assert summary.delegated_share is None
        assert str(summary).splitlines()[0].split()[0] == "operator"


def test_costs_count_multiply_adds_and_bytes() -> None:
    program = export(nn.Conv2d(3, 8, 3, bias=False), (torch.rand(1, 3, 6, 6),))
    node = next(n for n in program.run_decompositions().graph.nodes if n.op == "call_function")
    assert op_key(node.target) == "aten::convolution"
    assert flops_of(node) == 2 * (8 * 4 * 4) * (3 * 3 * 3)
    assert bytes_of(node) == 4 * (3 * 6 * 6 + 8 * 3 * 3 * 3 + 8 * 4 * 4)
    assert estimated_seconds(node) > 0.1e-6


class Folded(nn.Module):
    """A convolution with fused operators, and a weight that is transposed at export."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6())
        self.weight = nn.Parameter(torch.rand(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) + self.block(x).mean() + torch.mm(x[0, 0], self.weight.t()).sum()


def test_what_is_folded_or_computed_at_export_costs_nothing() -> None:
    edge = to_edge(export(Folded().eval(), (torch.rand(1, 3, 4, 4),)))
    costs = {r.operator: r.seconds for r in edge.delegation_summary().records}
    free = ("aten::_native_batch_norm_legit_no_training", "aten::hardtanh", "aten::permute_copy")
    assert [costs.get(name, 0.0) for name in free] == [0.0, 0.0, 0.0]
    assert all(costs[f"aten::{name}"] for name in ("convolution", "relu", "mm"))


def test_a_loops_body_costs_all_its_turns() -> None:
    def step(total: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return total + torch.tanh(x), total * 2

    class Loop(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            total, _ = scan(step, x[0], x)
            return torch.tanh(total)

    edge = to_edge(export(Loop(), (torch.rand(7, 3),)))
    found = [r for r in edge.delegation_summary().records if r.operator == "aten::tanh"]
    once, turns = sorted(r.seconds or 0.0 for r in found)
    assert turns == pytest.approx(7 * once)
