"""to_edge and its process: the garbage collector, and operators that are registered late."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from executorch_py.exir import to_edge
from executorch_py.exir.error import ExportError


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


@pytest.fixture
def collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.usefixtures("collector")
def test_the_garbage_collector_is_left_as_it_was() -> None:
    program = torch.export.export(Add(), (torch.ones(2),))
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        to_edge(program).to_executorch()
        assert gc.isenabled() is enabled
        with pytest.raises(ExportError):
            to_edge({"forward": "no program"})
        assert gc.isenabled() is enabled


def test_operators_registered_after_a_first_export_are_decomposed_too() -> None:
    to_edge(torch.export.export(Add(), (torch.ones(2),)))
    library = torch.library.Library("late_operators", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")

    class Late(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.ops.late_operators.twice(x)
            return result

    exported = torch.export.export(Late(), (torch.ones(2),))
    assert any("late_operators" in str(n.target) for n in exported.graph.nodes)
    edge = to_edge(exported).exported_program()
    assert not any("late_operators" in str(n.target) for n in edge.graph.nodes)


SCRIPT = """
import sys
import torch
from executorch_py.backends.reference import ReferencePartitioner
from executorch_py.exir import load, save, to_edge, to_edge_transform_and_lower
from executorch_py.runtime import Runtime

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)
    def forward(self, x):
        return {"y": self.norm(self.linear(x)).relu()}

folder = sys.argv[1]
model, inputs = Model().eval(), (torch.randn(2, 4),)
rows = torch.export.Dim("rows", min=1, max=8)
exported = torch.export.export(model, inputs, dynamic_shapes=({0: rows},))
edge = to_edge(exported)
program = edge.to_executorch()
program.run(*inputs)
program.verify(model, *inputs)
program.save(folder + "/model.pte")
save(exported, folder + "/model.pt2")
load(folder + "/model.pt2")
method = Runtime.get().load_program(folder + "/model.pte").load_method("forward")
method.execute([inputs[0].numpy()])
method(inputs[0])
lowered = to_edge_transform_and_lower(exported, partitioner=[ReferencePartitioner()])
lowered.to_executorch().run(*inputs)
"""


def test_a_plain_script_prints_nothing_and_warns_of_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
