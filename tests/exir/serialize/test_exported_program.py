"""exir.save and exir.load: edge programs, ATen programs, delegates, handles, extra files."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram

from executorch_py import exir
from executorch_py.exir.error import ExportError


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        y = torch.cond(x.sum() > 0, lambda y: y.t() + 1, lambda y: y.t() * 2.5, (x,))
        values, _ = torch.topk(self.linear(y.t()) + 1, 2)
        return values + self.count[:2]


X = (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),)


def edge_program() -> ExportedProgram:
    shapes = ({0: Dim("n", min=2, max=9)},)
    return exir.to_edge(torch.export.export(Net(), X, dynamic_shapes=shapes)).exported_program()


def listing(ep: ExportedProgram) -> list[tuple[Any, ...]]:
    return [
        (n.op, n.name, str(n.target), str(n.kwargs), n.meta.get("debug_handle"))
        for module in ep.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for n in module.graph.nodes
    ]


def test_an_edge_program_comes_back_as_it_was(tmp_path: Path) -> None:
    ep = edge_program()
    before = listing(ep)
    exir.save(ep, tmp_path / "net.pt2")
    loaded = exir.load(tmp_path / "net.pt2")
    assert listing(loaded) == before == listing(ep)
    assert loaded.dialect == "EDGE"
    assert str(loaded.range_constraints) == str(ep.range_constraints)
    torch.testing.assert_close(loaded.module()(*X), Net()(*X))


def test_a_loaded_program_is_lowered_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Which kernels exist is another test's subject.
    monkeypatch.setattr("executorch_py.exir.target.manifest.check_against_kernels", lambda *a: None)
    file = io.BytesIO()
    ep = edge_program()
    exir.save(ep, file)
    file.seek(0)
    loaded = exir.EdgeProgramManager(exir.load(file)).to_executorch().buffer
    assert loaded == exir.EdgeProgramManager(ep).to_executorch().buffer


def test_an_aten_program_and_torchs_own_files_can_be_read() -> None:
    ep = torch.export.export(torch.nn.Linear(4, 2), X)
    for save in (exir.save, torch.export.save):
        file = io.BytesIO()
        save(ep, file)
        file.seek(0)
        loaded = exir.load(file)
        torch.testing.assert_close(loaded.module()(*X), ep.module()(*X))


def test_extra_files_are_the_callers_only() -> None:
    file = io.BytesIO()
    exir.save(edge_program(), file, extra_files={"note.txt": "hello"})
    file.seek(0)
    extra = {"note.txt": ""}
    exir.load(file, extra_files=extra)
    assert extra == {"note.txt": "hello"}


def test_delegates_come_back_with_payload_and_original_program() -> None:
    from executorch_py.backends.reference.partitioner import ReferencePartitioner

    class Relu(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.sin()).cos()

    manager = exir.to_edge_transform_and_lower(
        torch.export.export(Relu(), X), partitioner=[ReferencePartitioner()]
    )
    ep = manager.exported_program()
    file = io.BytesIO()
    exir.save(ep, file)
    file.seek(0)
    loaded = exir.load(file)
    assert listing(loaded) == listing(ep)
    before, after = ep.graph_module.lowered_module_0, loaded.graph_module.lowered_module_0
    assert after.backend_id == before.backend_id
    assert bytes(after.processed_bytes) == bytes(before.processed_bytes)
    assert listing(after.original_module) == listing(before.original_module)


def test_a_program_lowered_for_the_runtime_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executorch_py.exir.target.manifest.check_against_kernels", lambda *a: None)
    lowered = exir.EdgeProgramManager(edge_program()).to_executorch().exported_program()
    with pytest.raises(ExportError, match=r"save the edge program"):
        exir.save(lowered, io.BytesIO())
    with pytest.raises(TypeError, match="expected an ExportedProgram"):
        exir.save(Net(), io.BytesIO())  # type: ignore[arg-type]


def test_weights_without_numbers_are_refused() -> None:
    ep = exir.to_edge(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(2),)))
    program = ep.exported_program()
    mode = torch._subclasses.FakeTensorMode()
    program._state_dict = {name: mode.from_tensor(w) for name, w in program.state_dict.items()}
    with pytest.raises(ExportError, match="'weight': expected a tensor with numbers, got a fake"):
        exir.save(program, io.BytesIO())


def test_a_program_is_read_from_the_file_that_it_was_just_written_to() -> None:
    ep = edge_program()
    with tempfile.NamedTemporaryFile() as file:
        exir.save(ep, file)  # type: ignore[arg-type]
        assert listing(exir.load(file)) == listing(ep)  # type: ignore[arg-type]
