"""What to_edge promises about its surroundings: the collector, and operators registered late."""

from __future__ import annotations

import gc
from collections.abc import Iterator

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
