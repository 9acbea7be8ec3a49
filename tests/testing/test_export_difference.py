"""A graph of torch.export with other numbers than its model is named before the difference."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from executorch_py.exir import to_edge
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.testing import ParityError
from executorch_py.testing.export_difference import export_difference

X = torch.arange(1.0, 5.0)


class AsksIfTraced(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_exporting() else x * 2


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Tripled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def lowered(model: nn.Module) -> ExecutorchProgramManager:
    return to_edge(torch.export.export(model, (X,))).to_executorch()


def test_verify_says_that_the_graph_already_differs() -> None:
    model = AsksIfTraced()
    with pytest.raises(ParityError) as failure:
        lowered(model).verify(model, X)
    head, cause, *rest = str(failure.value).splitlines()
    assert head == "method 'forward' differs from eager torch"
    assert cause.startswith("The graph that torch.export makes of this model does not give its")
    assert "output 0 differs by 3" in cause
    assert "torch.compiler.is_exporting()" in cause
    assert rest[0].startswith("output 0 at the given sizes")


def test_the_file_passes_against_the_exported_graph() -> None:
    model = AsksIfTraced()
    exported = torch.export.export(model, (X,))
    assert to_edge(exported).to_executorch().verify(exported.module(), X).ok


def test_another_model_is_not_blamed_on_torch_export() -> None:
    with pytest.raises(ParityError) as failure:
        lowered(Doubled()).verify(Tripled(), X)
    assert "torch.export" not in str(failure.value)


def test_a_function_and_a_model_that_cannot_be_traced_have_no_graph() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if bool((x > 0).all()) else x

    assert export_difference(lambda x: x, (X,), {}) == ""
    assert export_difference(Branches(), (X,), {}) == ""
    assert export_difference(Doubled(), (X,), {}) == ""
