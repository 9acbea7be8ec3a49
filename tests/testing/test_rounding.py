"""Verification of quantized programs: right files pass whatever they amplify, wrong ones never.

Right files: outputs behind float operators, loops, several outputs, and a deep network that turns
one rounding into a tenth of its output. Wrong files: weights, zero points and outputs that are
damaged in the bytes, of a small and of the deep network, with the first node named.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.damaged_files import change_weight, shift_output, shift_zero_points
from support.quantized_models import SmallNet
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
    get_weight_only_quantization_config,
    prepare_pt2e,
)
from executorch_py.testing import ParityError
from executorch_py.testing.sensitivity import sqnr_db

LOWERINGS = ("xnnpack", "portable", "integers")
IMAGE = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
# The deep network moves this far, in decibels of its output, when its input moves by 1e-4.
CHAOTIC_DB = 25.0


class Block(nn.Module):
    """A convolution whose result is brought back to the size of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.InstanceNorm2d(8, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x))) - 0.5 * x


class Deep(nn.Module):
    """Untrained and deep: one rounding at the start becomes a tenth of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(*(Block() for _ in range(16)))
        self.last = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.adaptive_avg_pool2d(self.blocks(self.first(x)), 4)
        return self.last(y.flatten(1))


class Recurrent(nn.Module):
    """A GRU, whose cells round the same state again and again; both results are given."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(12, 24, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> Any:
        y, _ = self.cells(x)
        return self.head(y[:, -1]), y


class Attention(nn.Module):
    """Attention with a bias for each pair of tokens and a hard swish, as in LevIT."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.bias = nn.Parameter(torch.randn(4, 16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).reshape(1, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2) * 8**-0.5 + self.bias).softmax(-1)
        return x + self.out(
            nn.functional.hardswish((scores @ v).transpose(1, 2).reshape(1, 16, 32))
        )


class Several(nn.Module):
    """Outputs that end in a quantized layer, in float operators, and in sums of both."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.a(x).relu()
        z = self.b(y)
        return z, z.softmax(-1), torch.exp(z) + y.sum(-1, keepdim=True), z.norm(dim=-1)


STATIC = get_symmetric_quantization_config(is_per_channel=True)
DYNAMIC = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
GROUPS = get_groupwise_quantization_config(4, 32)
SEQUENCE, TOKENS = torch.randn(2, 9, 12), torch.randn(1, 16, 32)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "small": (SmallNet, IMAGE),
    "deep": (Deep, IMAGE),
    "gru": (Recurrent, SEQUENCE),
    "attention": (lambda: nn.Sequential(*(Attention() for _ in range(4))), TOKENS),
    "several": (Several, TOKENS),
}


@functools.cache
def quantized(name: str, config: Any = STATIC) -> tuple[nn.Module, torch.Tensor]:
    make, x = NETWORKS[name]
    torch.manual_seed(0)
    exported = torch.export.export(make().eval(), (x,)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
    calibrate(prepared, [x, torch.randn_like(x), torch.randn_like(x)], progress=False)
    return convert_pt2e(prepared), x


def lowered(model: nn.Module, x: torch.Tensor, lowering: str) -> ExecutorchProgramManager:
    """A program whose bytes a test may change."""
    return copy.copy(_lowered(model, x, lowering))


@functools.cache
def _lowered(model: nn.Module, x: torch.Tensor, lowering: str) -> ExecutorchProgramManager:
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
    partitioner = [XnnpackPartitioner()] if lowering == "xnnpack" else []
    edge = to_edge_transform_and_lower(exported, partitioner=partitioner)
    own = ExecutorchBackendConfig(own_operators=lowering == "integers")
    return edge.to_executorch(own)


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
    assert lowered(model, x, lowering).verify(model, x).ok


@pytest.mark.parametrize("config", [DYNAMIC, GROUPS], ids=["dynamic", "groups"])
@pytest.mark.parametrize("name", ["attention", "several"])
def test_a_right_file_with_scales_found_at_run_time_verifies(name: str, config: Any) -> None:
    model, x = quantized(name, config)
    for lowering in LOWERINGS:
        assert lowered(model, x, lowering).verify(model, x).ok


def test_a_deep_networks_deviation_and_its_own_sensitivity_are_both_said() -> None:
    model, x = quantized("deep")
    program = lowered(model, x, "xnnpack")
    (found,) = program.verify(model, x).comparisons
    assert found.rule == "rounding" and found.ok
    with torch.no_grad():
        assert found.sqnr_db == pytest.approx(sqnr_db(program.run(x), model(x)))
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
        moved = sqnr_db(model(x * (1 + 1e-4 * noise)), model(x))
    assert found.moved_sqnr_db is not None and found.moved_sqnr_db <= moved < CHAOTIC_DB
    text = str(found)
    assert f"SQNR {found.sqnr_db:.1f} dB against eager torch" in text
    assert f"{found.moved_sqnr_db:.1f} dB when its input moves by 0.0001" in text
    assert "it follows from the file's own integers" in text


class Chaos(nn.Module):
    """Sines of sines, which turn the rounding of one float into the whole result."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(32, 32) for _ in range(n_layers)))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.sin(layer(x) * 2)
        return x


def test_quantized_weights_in_a_chaotic_network_of_floats_are_judged_by_its_sensitivity() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 32)
    for n_layers, rule in ((30, "sensitivity"), (1, "tolerance")):
        exported = torch.export.export(Chaos(n_layers).eval(), (x,)).module()
        config = get_weight_only_quantization_config(8)
        model = convert_pt2e(prepare_pt2e(exported, XNNPACKQuantizer().set_global(config)))
        program = lowered(model, x, "portable")
        (found,) = program.verify(model, x).comparisons
        assert found.rule == rule
        if rule == "sensitivity":
            assert "dB when its input moves by 1.19e-07" in str(found)
    change_weight(program, int8_weights(model)[0], row=1, change=8)
    assert "elements differ" in failure(program, model, x)


# ---- wrong files


def int8_weights(model: nn.Module) -> list[torch.Tensor]:
    tensors = [*model.parameters(), *model.buffers()]
    return [t.detach() for t in tensors if t.dtype == torch.int8 and t.dim() > 1]


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


@pytest.mark.parametrize("lowering", ["xnnpack", "portable"])
def test_a_wrong_weight_of_a_dynamic_layer_is_found_and_its_node_named(lowering: str) -> None:
    model, x = quantized("several", DYNAMIC)
    program = lowered(model, x, lowering)
    change_weight(program, int8_weights(model)[0], row=3, change=40)
    line = named(failure(program, model, x))
    assert "'linear' (aten::linear, a)" in line or "'relu' (aten::relu)" in line


def test_a_file_whose_delegate_cannot_run_alone_is_judged_by_the_sensitivity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from executorch_py.testing import parity

    def fails(*_: Any) -> Any:
        raise RuntimeError("closed\nTraceback (most recent call last)")

    monkeypatch.setattr(parity, "file_values", fails)
    model, x = quantized("deep")
    program = lowered(model, x, "xnnpack")
    report = program.verify(model, x)
    assert report.comparisons[0].rule == "sensitivity"
    assert report.explanation == [
        "nodes of the file are not compared: RuntimeError: closed (at the given sizes)"
    ]
    change_weight(program, int8_weights(model)[0], row=1, change=100)
    assert "SQNR" in failure(program, model, x)
