"""Verification of files of precision bf16: a right file passes, and a wrong weight is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir.dialects import bf16_ops
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.testing import ParityError

BF16 = ExecutorchBackendConfig(own_operators=True, precision="bf16")


def deep() -> nn.Sequential:
    """Layers enough that a value which is rounded the other way moves the result."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(8):
        layers += [nn.Linear(96, 96), nn.GELU(), nn.LayerNorm(96)]
    return nn.Sequential(*layers, nn.Linear(96, 10)).eval()


def images() -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for c_in in (3, 32, 32, 32, 32):
        layers += [
            nn.Conv2d(c_in, 32, 3, padding=1, bias=c_in == 3),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
        ]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    for norm in net.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.uniform_(-0.1, 0.1)
            norm.running_var.uniform_(0.5, 1.5)
    return net.eval()


CASES: dict[str, tuple[Any, torch.Tensor]] = {
    "linear": (deep, torch.randn(4, 96, generator=torch.Generator().manual_seed(1))),
    "images": (
        images,
        torch.randn(1, 3, 20, 20, generator=torch.Generator().manual_seed(1)).to(
            memory_format=torch.channels_last
        ),
    ),
}


def lowered(model: nn.Module, x: torch.Tensor) -> ExecutorchProgramManager:
    with torch.no_grad():
        return to_edge(torch.export.export(model, (x,))).to_executorch(BF16)


@pytest.mark.parametrize("case", CASES)
def test_a_right_file_passes_beside_eager_torch_with_rounded_operands(case: str) -> None:
    make, x = CASES[case]
    model = make()
    report = lowered(model, x).verify(model, x)
    (found,) = report.comparisons
    assert report.ok and found.rule == "bf16"
    assert found.max_abs_error > 1e-4, "bf16 makes no difference"
    text = str(report)
    assert "products are rounded to bfloat16" in text
    assert "of eager torch in f32, SQNR" in text and "of eager torch with rounded operands" in text


@pytest.mark.parametrize("layer", [0, 12, 24])
def test_a_wrong_weight_is_found_however_deep_it_is(layer: int) -> None:
    make, x = CASES["linear"]
    model = make()
    program = copy.copy(lowered(model, x))
    weight = model[layer].weight.detach()
    packed = bf16_ops.packed_weight(weight)
    wrong = weight.clone()
    wrong[3] *= 1.02  # less than what rounding alone does to the whole result
    old, new = (
        t.view(torch.int16).numpy().tobytes() for t in (packed, bf16_ops.packed_weight(wrong))
    )
    data = bytes(program.buffer)
    assert data.count(old) == 1
    program._bytes = data.replace(old, new)
    with pytest.raises(ParityError, match="operators whose floats agree"):
        program.verify(model, x)


def test_a_given_tolerance_alone_counts() -> None:
    make, x = CASES["linear"]
    model = make()
    program = lowered(model, x)
    assert program.verify(model, x, rtol=0.05, atol=0.05).ok
    with pytest.raises(ParityError):
        program.verify(model, x, rtol=1e-6, atol=1e-6)


def test_sizes_that_vary_are_compared_too() -> None:
    make, x = CASES["linear"]
    model = make()
    rows = torch.export.Dim("rows", min=1, max=9)
    with torch.no_grad():
        exported = torch.export.export(model, (x,), dynamic_shapes=({0: rows},))
    report = to_edge(exported).to_executorch(BF16).verify(model, x)
    assert report.ok and len(report.comparisons) > 1
