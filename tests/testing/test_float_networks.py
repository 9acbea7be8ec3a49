"""Verification of float networks that float64 does not decide: their floats in lockstep.

A network that amplifies rounding leaves a right file further from float64 than eager torch is by
chance. Models get one other weight than their files, at the beginning, in the middle and at the
end.
"""

from __future__ import annotations

import copy
import functools
import math

import pytest
import torch
from support.amplifying_networks import Chaos, lowered, randn
from torch import nn

from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.testing import ParityError, comparison, verdicts
from executorch_py.testing.operator_rounding import rounding_of

LOWERINGS = ("portable", "xnnpack")
X = randn(4, 32)
IMAGE = randn(1, 8, 12, 12)


class Normed(nn.Module):
    """Convolutions of 512 channels with batch norms and sums behind them, which backends fuse."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(8, 512, 1)
        self.convs = nn.ModuleList(nn.Conv2d(512, 512, 3, padding=1) for _ in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(512) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = y + norm(conv(y)).relu()
        return y


@functools.cache
def chaotic() -> nn.Module:
    torch.manual_seed(0)
    return Chaos(30).eval()


@functools.cache
def program_of(lowering: str) -> ExecutorchProgramManager:
    return lowered(chaotic(), [X], lowering)


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_a_right_file_of_a_chaotic_network_passes(lowering: str) -> None:
    report = program_of(lowering).verify(chaotic(), X)
    (found,) = report.comparisons
    assert found.rule == "lockstep" and found.ok
    assert found.max_abs_error > 1.0, "the network is not chaotic"


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("nth", [0, 15, 29])
def test_one_weight_that_is_a_thousandth_off_is_found_and_its_node_named(
    nth: int, lowering: str
) -> None:
    program, model = program_of(lowering), copy.deepcopy(chaotic())
    weight = model.get_submodule(f"layers.{nth}").weight
    with torch.no_grad():
        weight.view(-1)[int(weight.abs().argmax())] *= 1.001
    with pytest.raises(ParityError) as caught:
        program.verify(model, X)
    (line,) = [line for line in str(caught.value).splitlines() if "first difference" in line]
    assert f"(aten::linear, layers.{nth})" in line


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_a_right_file_passes_however_near_to_float64_eager_torch_comes(
    lowering: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "FLOAT64_FACTOR", 0.0)
    for dtype in comparison.MODEL_TOLERANCE:
        monkeypatch.setitem(comparison.MODEL_TOLERANCE, dtype, comparison.EXACT)
    torch.manual_seed(0)
    model = Normed().eval()
    program = lowered(model, [IMAGE], lowering)
    monkeypatch.setattr(verdicts, "LOCKSTEP_FACTOR", math.inf)
    report = program.verify(model, IMAGE)
    (found,) = report.comparisons
    assert found.rule == "lockstep" and found.ok
    (line,) = report.explanation
    assert line.startswith("operators whose floats agree")


@pytest.mark.parametrize("factor", [3.0, 9.0])
def test_lockstep_decides_up_to_four_times_the_distance_of_eager_torch(factor: float) -> None:
    found = comparison.Comparison("output 0", "", 1.0, 1.0, 1, 1, "", "float64", factor, 1.0)
    assert not found.ok
    assert verdicts._is_far(found) == (factor > 4)


@pytest.mark.parametrize("k", [16, 512, 4608, 65536])
def test_sums_in_another_order_are_within_the_limit_and_wrong_products_are_not(k: int) -> None:
    generator = torch.Generator().manual_seed(k)
    a, b = (torch.randn(s, generator=generator) for s in ((64, k), (k, 64)))
    mm = torch.ops.aten.mm.default
    limit, inherited = rounding_of(mm, (a, b), {}, a @ b)
    assert inherited is not None and torch.equal(limit, limit.maximum(inherited))
    one_by_one = torch.zeros(64, 64)
    for row, column in zip(a.T, b, strict=True):
        one_by_one += torch.outer(row, column)
    exact = a.double() @ b.double()
    for result in (a @ b, one_by_one):
        assert ((result - exact).abs() <= limit).all()
    wrong = a.clone()
    wrong[:, 0] *= 1.5  # one of k products is wrong
    share = ((wrong @ b - exact).abs() > limit).double().mean()
    assert share > 0.5, f"{share:.3g} of the elements are beyond the limit"


def test_arithmetic_that_rounds_once_is_compared_to_the_last_bit_but_one() -> None:
    x = torch.linspace(1.0, 2.0, 100)
    y = x * 3.0
    limit, inherited = rounding_of(torch.ops.aten.mul.Tensor, (x, 3.0), {}, y)
    assert inherited is not None
    assert (limit / y).max() <= 1.01 * torch.finfo(torch.float32).eps
    of_sine, nothing = rounding_of(torch.ops.aten.sin.default, (x,), {}, x.sin())
    assert nothing is None and (of_sine > limit / 10).all()
