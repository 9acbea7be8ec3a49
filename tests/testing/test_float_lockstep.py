"""Verification of chaotic networks whose weights alone are quantized: their floats in lockstep.

The network turns the rounding of one float into its whole result, so a right file and a wrong one
are equally far from eager torch. Files are damaged by one step of one row of weights, at the
beginning, in the middle and at the end.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import pytest
import torch
from support.amplifying_networks import Chaos, lowered, quantized, randn
from support.damaged_files import change_weight, int8_weights
from torch import nn

from executorch_py.backends.xnnpack.preprocess import XnnpackBackend
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.quantizer import get_weight_only_quantization_config
from executorch_py.testing import ParityError, file_values, verdicts
from executorch_py.testing.graph_values import model_graph
from executorch_py.testing.rounding import RoundedOutput
from executorch_py.testing.sensitivity import moved_sqnr_db

X = randn(4, 32)
LOWERINGS = ("portable", "xnnpack")


@functools.cache
def chaotic(n_layers: int) -> nn.Module:
    return quantized((lambda: Chaos(n_layers), (X,)), get_weight_only_quantization_config(8))


@functools.cache
def _program(n_layers: int, lowering: str) -> ExecutorchProgramManager:
    return lowered(chaotic(n_layers), [X], lowering)


def program_of(n_layers: int, lowering: str) -> ExecutorchProgramManager:
    """A program whose bytes a test may change."""
    return copy.copy(_program(n_layers, lowering))


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_a_right_file_passes_since_each_operator_follows_from_the_files_floats(
    lowering: str,
) -> None:
    program, model = program_of(30, lowering), chaotic(30)
    report = program.verify(model, X)
    (found,) = report.comparisons
    assert found.rule == "lockstep" and found.ok
    assert found.max_abs_error > 1.0, "the network is not chaotic"
    assert "it follows from the file's own floats" in str(found)
    assert report.explanation == ["operators whose floats agree: 90 of 90 (at the given sizes)"]


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("nth", [0, 15, 29])
def test_a_weight_that_is_one_step_off_is_found_and_its_node_named(nth: int, lowering: str) -> None:
    program, model = program_of(30, lowering), chaotic(30)
    change_weight(program, int8_weights(model)[nth], row=1, change=1)
    with pytest.raises(ParityError) as caught:
        program.verify(model, X)
    (line,) = [line for line in str(caught.value).splitlines() if "first difference" in line]
    assert f"(aten::linear, layers.{nth})" in line


def test_a_network_that_amplifies_little_is_judged_by_the_tolerance() -> None:
    (found,) = program_of(1, "portable").verify(chaotic(1), X).comparisons
    assert found.rule == "tolerance"


def test_a_chaotic_file_that_shows_no_floats_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(XnnpackBackend, "opened", classmethod(lambda *_: None))
    with pytest.raises(ParityError, match="below 10 dB the sensitivity decides nothing"):
        program_of(30, "xnnpack").verify(chaotic(30), X)


def test_a_file_that_shows_no_floats_is_judged_by_a_sensitivity_that_says_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(XnnpackBackend, "opened", classmethod(lambda *_: None))
    model, program = chaotic(6), program_of(6, "xnnpack")
    (found,) = program.verify(model, X).comparisons
    assert found.rule == "sensitivity" and found.sqnr_db is not None and found.sqnr_db > 40
    assert "dB when its input moves by 1.19e-07" in str(found)
    change_weight(program, int8_weights(model)[0], row=1, change=1)
    with pytest.raises(ParityError, match="elements differ"):
        program.verify(model, X)


def test_a_model_is_exported_once_and_its_file_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*args: Any) -> Any:
            calls.append(name)
            return function(*args)

        monkeypatch.setattr(module, name, call)

    counted(verdicts, "model_graph")
    counted(file_values, "deserialize_pte_binary")
    monkeypatch.setattr(XnnpackBackend, "opened", classmethod(lambda *_: None))
    (found,) = program_of(6, "xnnpack").verify(chaotic(6), X).comparisons
    assert found.rule == "sensitivity"
    assert sorted(calls) == ["deserialize_pte_binary", "model_graph"]


class Masked(nn.Module):
    """Infinities and a buffer that is written, in a chaotic network."""

    def __init__(self) -> None:
        super().__init__()
        self.chaos = Chaos(30)
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> Any:
        self.runs.add_(1.0)
        y = self.chaos(x + self.runs)
        hidden = y.masked_fill(torch.ones(32, 32).triu(1)[:4] > 0, -torch.inf)
        return y, hidden.softmax(-1), y.argmax(-1)


def test_indices_infinities_and_written_buffers_are_in_lockstep_too() -> None:
    model = quantized((Masked, (X,)), get_weight_only_quantization_config(8))
    program = lowered(model, [X], "portable")
    report = program.verify(model, X)
    assert report.ok
    assert [c.rule for c in report.comparisons] == ["lockstep"] * 3


@pytest.mark.parametrize(
    ("sqnr_db", "moved_sqnr_db", "passes"),
    [
        (45.0, 50.0, True),
        (43.0, 50.0, False),
        (10.5, 5.0, True),
        (9.5, 5.0, False),
        (-2.7, -3.3, False),
        (0.0, -math.inf, False),
        (50.0, math.nan, False),
        (50.0, math.inf, False),
        (math.nan, 20.0, False),
        (None, None, False),
    ],
)
def test_the_sensitivity_decides_from_ten_decibels_on_and_if_it_is_finite(
    sqnr_db: float | None, moved_sqnr_db: float | None, passes: bool
) -> None:
    output = RoundedOutput("", torch.zeros(1), None, sqnr_db, moved_sqnr_db)
    assert output.is_as_sensitive == passes


def test_a_draw_without_a_ratio_leaves_the_sensitivity_without_one() -> None:
    class Roots(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sqrt(x - 1)  # NaN as soon as the input is less

    x = torch.ones(2)
    (found,) = moved_sqnr_db(model_graph(Roots(), [x], {}, [x]))
    assert found == -math.inf
