"""Verification of files with Winograd convolutions: layers by their bound, outputs by lockstep."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from support.damaged_files import change_float
from torch import nn

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.testing import ParityError

FAST = ExecutorchBackendConfig(own_operators=True, math="fast")
X = torch.randn(1, 16, 96, 96, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Convolutions with norms, a residual sum, and a function that amplifies what is left."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.norm.running_var.fill_(0.3)  # type: ignore[union-attr, operator]
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.gain = gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return torch.sin(self.gain * torch.relu(self.second(y) + x))


@functools.cache
def _program(gain: float) -> ExecutorchProgramManager:
    with torch.no_grad():
        exported = torch.export.export(Net(gain).eval(), (X,))
    return to_edge(exported).to_executorch(FAST)


def program_of(gain: float) -> Any:
    """A program whose bytes a test may change."""
    return copy.copy(_program(gain))


CHAOTIC = 1e4


def test_the_report_has_the_error_and_the_bound_of_each_layer() -> None:
    report = program_of(1.0).verify(Net(1.0).eval(), X)
    output, first, second = report.comparisons
    assert output.rule == "tolerance"
    for layer in (first, second):
        assert layer.rule == "winograd" and layer.ok and layer.max_abs_error > 0
        assert "by Winograd's F(6x6, 3x3) at the given sizes" in str(layer)
        assert "rounding error from float64" in str(layer) and "of its bound" in str(layer)


def test_a_right_file_passes_however_far_its_rounding_is_amplified() -> None:
    report = program_of(CHAOTIC).verify(Net(CHAOTIC).eval(), X)
    output, *layers = report.comparisons
    assert output.rule == "lockstep" and output.ok
    assert output.max_abs_error > 1e-2, "the network amplifies little"
    assert len(layers) == 2 and all(layer.ok for layer in layers)


@pytest.mark.parametrize("gain", [1.0, CHAOTIC])
def test_a_model_with_another_weight_is_found(gain: float) -> None:
    model = Net(gain).eval()
    with torch.no_grad():
        model.second.weight[3, 5, 1, 1] += 0.01
    with pytest.raises(ParityError, match="output 0 at the given sizes"):
        program_of(gain).verify(model, X)


@pytest.mark.parametrize("gain", [1.0, CHAOTIC])
def test_a_layer_beyond_its_bound_is_found_and_named(gain: float) -> None:
    program, model = program_of(gain), Net(gain).eval()
    change_float(program, model.second.weight, 7, 1.05)
    with pytest.raises(ParityError, match=r"by Winograd's F\(6x6, 3x3\).* times its bound"):
        program.verify(model, X)


def test_layers_are_compared_at_every_size() -> None:
    model, x = nn.Conv2d(16, 16, 3, padding=1).eval(), X[:, :, :9, :9].expand(3, -1, -1, -1).clone()
    batch = torch.export.Dim("batch", min=1, max=4)
    with torch.no_grad():
        exported = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    report = to_edge(exported).to_executorch(FAST).verify(model, x)
    n_sizes = len({c.sizes for c in report.comparisons})
    assert n_sizes > 2 and len([c for c in report.comparisons if c.rule == "winograd"]) == n_sizes


def test_with_a_tolerance_nothing_else_counts() -> None:
    report = program_of(1.0).verify(Net(1.0).eval(), X, rtol=1e-3, atol=1e-3)
    assert [c.rule for c in report.comparisons] == ["tolerance"]
