"""Verification of quantized programs: right files pass whatever they amplify, wrong ones never.

Right files: outputs behind float operators, loops, several outputs, and a deep network that turns
one rounding into a tenth of its output. Wrong files: weights, zero points and outputs that are
damaged in the bytes, of a small and of the deep network, with the first node named.
"""

from __future__ import annotations

import copy
import functools
import re
from typing import Any

import pytest
import torch
from support import amplifying_networks
from support.amplifying_networks import LOWERINGS, NETWORKS
from support.damaged_files import change_weight, int8_weights, shift_output, shift_zero_points
from torch import nn
from torch.utils import _pytree as pytree

from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.quantizer import (
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
)
from executorch_py.testing import ParityError, file_values
from executorch_py.testing.comparison import compare_tensors
from executorch_py.testing.file_values import TracedFile
from executorch_py.testing.graph_values import model_graph
from executorch_py.testing.nearest import TIE
from executorch_py.testing.reference import NotComparable
from executorch_py.testing.rounding import Rounded, rounded
from executorch_py.testing.sensitivity import sqnr_of

# The deep network moves this far, in decibels of its output, when its input moves by 1e-4.
CHAOTIC_DB = 25.0

STATIC = get_symmetric_quantization_config(is_per_channel=True)
DYNAMIC = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
GROUPS = get_groupwise_quantization_config(4, 32)


@functools.cache
def quantized(name: str, config: Any = STATIC) -> tuple[nn.Module, torch.Tensor]:
    _, (x,) = NETWORKS[name]
    return amplifying_networks.quantized(NETWORKS[name], config), x


def lowered(model: nn.Module, x: torch.Tensor, lowering: str) -> ExecutorchProgramManager:
    """A program whose bytes a test may change."""
    return copy.copy(_lowered(model, x, lowering))


@functools.cache
def _lowered(model: nn.Module, x: torch.Tensor, lowering: str) -> ExecutorchProgramManager:
    return amplifying_networks.lowered(model, [x], lowering)


def in_lockstep(program: ExecutorchProgramManager, model: nn.Module, x: torch.Tensor) -> Rounded:
    """The graph in lockstep with the file, also where the outputs are within the tolerances."""
    ours = pytree.tree_leaves(program.run(x))
    with torch.no_grad():
        eager = pytree.tree_leaves(model(x))
    values = TracedFile(program, "forward").values([x])
    found = rounded(model_graph(model, [x], {}, [x]), lambda: values, ours, eager)
    for result, output in zip(ours, found.outputs, strict=True):
        exact = compare_tensors("", "", result, output.expected, None, None)
        assert exact.ok or output.is_rounding(result)
    return found


def failure(program: ExecutorchProgramManager, model: nn.Module, x: torch.Tensor) -> str:
    with pytest.raises(ParityError) as caught:
        program.verify(model, x)
    text = str(caught.value)
    assert len(text.splitlines()) <= 12 and "Traceback" not in text
    return text


def named(text: str) -> str:
    """The line about the first node that differs."""
    (line,) = [line for line in text.splitlines() if "first difference" in line]
    return line


# ---- right files


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_right_file_verifies(name: str, lowering: str) -> None:
    model, x = quantized(name)
    program = lowered(model, x, lowering)
    assert program.verify(model, x).ok
    found = in_lockstep(program, model, x)
    assert not found.is_wrong and not found.is_hidden
    (line,) = found.explanation
    words = r"results agree: (\d+) of (\d+); each integer of the file there is within (\S+) steps"
    agree = re.search(words, line)
    assert agree and agree[1] == agree[2] and int(agree[1]) > 5
    assert float(agree[3]) < TIE


@pytest.mark.parametrize("config", [DYNAMIC, GROUPS], ids=["dynamic", "groups"])
@pytest.mark.parametrize("name", ["attention", "several"])
def test_a_right_file_with_scales_found_at_run_time_verifies(name: str, config: Any) -> None:
    model, x = quantized(name, config)
    for lowering in LOWERINGS:
        program = lowered(model, x, lowering)
        assert program.verify(model, x).ok
        found = in_lockstep(program, model, x)
        assert not found.is_wrong and not found.is_hidden
        assert not any("first difference" in line for line in found.explanation)


def test_a_deep_networks_deviation_and_its_own_sensitivity_are_both_said() -> None:
    model, x = quantized("deep")
    program = lowered(model, x, "xnnpack")
    (found,) = program.verify(model, x).comparisons
    assert found.rule == "rounding" and found.ok
    with torch.no_grad():
        assert found.sqnr_db == pytest.approx(sqnr_of(program.run(x), model(x)))
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
        moved = sqnr_of(model(x * (1 + 1e-4 * noise)), model(x))
    assert found.moved_sqnr_db is not None and found.moved_sqnr_db <= moved < CHAOTIC_DB
    text = str(found)
    assert f"SQNR {found.sqnr_db:.1f} dB against eager torch" in text
    assert f"{found.moved_sqnr_db:.1f} dB when its input moves by 0.0001" in text
    assert "it follows from the file's own values" in text


# ---- wrong files


@pytest.mark.parametrize("lowering", ["xnnpack", "portable"])
@pytest.mark.parametrize(
    ("name", "nth", "node"),
    [
        ("small", 1, "'relu_1' (aten::relu)"),
        ("small", 2, "'linear' (aten::linear, last)"),
        ("deep", 0, "'conv2d' (aten::conv2d, first)"),
        ("deep", 6, "blocks.5"),
        ("deep", -1, "'linear' (aten::linear, last)"),
    ],
)
def test_a_wrong_weight_in_the_file_is_found_and_its_node_named(
    name: str, nth: int, node: str, lowering: str
) -> None:
    model, x = quantized(name)
    program = lowered(model, x, lowering)
    change_weight(program, int8_weights(model)[nth], row=1, change=8)
    line = named(failure(program, model, x))
    assert node in line and "integers of the file" in line


@pytest.mark.parametrize("name", ["small", "deep"])
def test_a_wrong_weight_is_found_in_a_program_of_integer_kernels(name: str) -> None:
    model, x = quantized(name)
    program = lowered(model, x, "integers")
    model = copy.deepcopy(model)
    int8_weights(model)[-1][1] += 8
    assert "'linear' (aten::linear, last)" in named(failure(program, model, x))


@pytest.mark.parametrize("name", ["small", "deep"])
def test_a_zero_point_shifted_by_one_is_found_behind_the_last_integers(name: str) -> None:
    model, x = quantized(name)
    program = lowered(model, x, "portable")
    shift_output(program)
    line = named(failure(program, model, x))
    assert "behind integers that agree" in line and "dequantize_per_tensor" in line


def test_a_zero_point_shifted_in_a_delegate_is_found_where_integers_saturate() -> None:
    model, x = quantized("small")
    program = lowered(model, x, "xnnpack")
    shift_zero_points(program, 0, 100)
    assert "first difference: 'x' (placeholder)" in named(failure(program, model, x))


class Flipped(nn.Module):
    """A model with its outputs in reverse order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x).flip(-1)


@pytest.mark.parametrize("lowering", ["xnnpack", "portable"])
@pytest.mark.parametrize("name", ["small", "deep"])
def test_a_permuted_output_is_found_behind_the_last_integers(name: str, lowering: str) -> None:
    model, x = quantized(name)
    text = failure(lowered(Flipped(model), x, lowering), model, x)
    assert "behind integers that agree" in named(text)


@pytest.mark.parametrize(
    ("lowering", "change", "node"),
    [("xnnpack", 2, "'linear' (aten::linear, a)"), ("portable", 8, "'relu' (aten::relu)")],
)
def test_a_wrong_weight_of_a_dynamic_layer_is_found_and_its_node_named(
    lowering: str, change: int, node: str
) -> None:
    model, x = quantized("several", DYNAMIC)
    program = lowered(model, x, lowering)
    change_weight(program, int8_weights(model)[0], row=3, change=change)
    assert node in named(failure(program, model, x))


def test_a_weight_of_a_dynamic_layer_that_is_one_step_off_is_found() -> None:
    model, x = quantized("several", DYNAMIC)
    program = lowered(model, x, "portable")
    change_weight(program, int8_weights(model)[0], row=3, change=1)
    assert "elements differ" in failure(program, model, x)


def test_a_file_whose_delegate_cannot_run_alone_is_judged_by_the_sensitivity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("closed\nTraceback (most recent call last)")

    monkeypatch.setattr(file_values, "load_method", fails)
    model, x = quantized("deep")
    program = lowered(model, x, "xnnpack")
    report = program.verify(model, x)
    assert report.comparisons[0].rule == "sensitivity"
    assert report.explanation == [
        "nodes of the file are not compared: XnnpackBackend alone: RuntimeError: closed "
        "(at the given sizes)"
    ]
    change_weight(program, int8_weights(model)[0], row=1, change=12)
    with pytest.raises(ParityError, match="SQNR") as caught:
        program.verify(model, x)
    cause = caught.value.__cause__
    assert isinstance(cause, NotComparable) and isinstance(cause.__cause__, RuntimeError)
