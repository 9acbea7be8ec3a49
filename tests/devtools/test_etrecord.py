"""ETRecords: made during an export or from its stages, saved, and read again."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import export

from executorch_py.backends.reference import ReferencePartitioner
from executorch_py.devtools import (
    BundledProgram,
    ETRecord,
    Inspector,
    generate_etrecord,
    parse_etrecord,
)
from executorch_py.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch_py.exir import to_edge, to_edge_transform_and_lower

X = torch.ones(2, 3)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x) + 1
        return result


def targets(program: Any) -> list[str]:
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def test_a_record_made_while_lowering_comes_back(tmp_path: Path) -> None:
    model, path = Net(), tmp_path / "net.etrecord"
    exported = export(model, (X,))
    edge = to_edge_transform_and_lower(
        exported, partitioner=[ReferencePartitioner()], generate_etrecord=True
    )
    program = edge.to_executorch()
    record = program.get_etrecord()
    assert record.exported_program is exported
    record.update_reference_outputs([model(X)])
    record.update_representative_inputs([X])
    record.save(path)
    found = parse_etrecord(path)
    assert targets(found.exported_program) == targets(exported)
    assert "executorch_call_delegate" not in targets(found.edge_dialect_program)
    torch.testing.assert_close(found.edge_dialect_program.module()(X), model(X))
    assert found._delegate_map["forward"].keys() == {
        str(k) for k in program.delegate_map["forward"]
    }
    torch.testing.assert_close(found._reference_outputs, {"forward": [model(X)]})
    torch.testing.assert_close(found._representative_inputs, [X])


def test_a_record_of_stages_at_hand_has_all_methods_and_test_data(tmp_path: Path) -> None:
    exported = {"forward": export(Net(), (X,)), "other": export(Net(), (X,))}
    edge = to_edge(exported)
    case = MethodTestCase([X], [X])
    bundle = BundledProgram(edge.to_executorch(), [MethodTestSuite("forward", [case])])
    generate_etrecord(tmp_path / "r", edge, bundle, exported, {"again": edge})
    found = parse_etrecord(tmp_path / "r")
    assert isinstance(found.edge_dialect_program, dict)
    assert set(found.edge_dialect_program) == {"forward", "other"}
    assert found.graph_map is not None and set(found.graph_map) == {"again/forward", "again/other"}
    assert found._reference_outputs is not None
    torch.testing.assert_close(found._reference_outputs["forward"], [[X]])


def test_mistakes_are_named(tmp_path: Path) -> None:
    edge = to_edge(export(Net(), (X,)))
    with pytest.raises(RuntimeError, match="generate_etrecord=True"):
        edge.to_executorch().get_etrecord()
    record = ETRecord()
    with pytest.raises(RuntimeError, match="has no edge program: add it"):
        record.save(tmp_path / "r")
    record.add_edge_dialect_program(edge)
    with pytest.raises(RuntimeError, match="has an edge program already"):
        record.add_edge_dialect_program(edge)
    with pytest.raises(RuntimeError, match="has no finished program"):
        record.save(tmp_path / "r")
    with pytest.raises(RuntimeError, match="'delegate_map', which is reserved"):
        record.add_extra_export_modules({"my_delegate_map": edge})
    (tmp_path / "text").write_text("no zip")
    with pytest.raises(RuntimeError, match="not a zip file"):
        parse_etrecord(tmp_path / "text")
    with zipfile.ZipFile(tmp_path / "zip", "w") as file:
        file.writestr("member", "")
    with pytest.raises(RuntimeError, match="no member ETRECORD_V0"):
        parse_etrecord(tmp_path / "zip")
    with pytest.raises(NotImplementedError, match=r"program\.verify"):
        Inspector(etdump_path="run.etdp")
