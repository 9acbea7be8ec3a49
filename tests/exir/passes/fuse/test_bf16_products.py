"""With precision bf16, products with constant weights round their operands, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tolerance import BF16_OPERANDS, F32_LAYERS, assert_near
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir.dialects.bf16_ops import rounded

BF16 = ExecutorchBackendConfig(own_operators=True, precision="bf16")


def lowered(model: nn.Module, inputs: tuple[Any, ...], **kwargs: Any) -> Any:
    with torch.no_grad():
        return to_edge(torch.export.export(model.eval(), inputs, **kwargs)).to_executorch(BF16)


def operators(program: Any) -> list[str]:
    return [op.name for op in program.executorch_program.execution_plan[0].operators]


class Perceptron(nn.Module):
    """Layers with and without bias, activations, a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(33, 70)
        self.narrow = nn.Linear(70, 33, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(F.gelu(self.wide(x)))

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.linear(rounded(x), rounded(self.wide.weight), self.wide.bias)
        return x + F.linear(rounded(F.gelu(hidden)), rounded(self.narrow.weight))


@pytest.mark.parametrize("shape", [(1, 33), (3, 7, 33)], ids=str)
def test_linear_layers_and_their_epilogues_compute_in_bf16(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model, x = Perceptron(), torch.randn(shape)
    program = lowered(model, (x,))
    assert operators(program) == ["executorch_py::linear_bf16"]
    with torch.no_grad():
        assert_near(program.run(x), model.rounded(x), BF16_OPERANDS)


def test_weights_take_half_the_bytes() -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    x = torch.randn(1, 512)
    plain = to_edge(torch.export.export(model.eval(), (x,))).to_executorch()
    assert len(lowered(model, (x,)).buffer) < 0.52 * len(plain.buffer)


def test_rows_may_vary_in_number() -> None:
    torch.manual_seed(0)
    model, x = Perceptron(), torch.randn(5, 33)
    program = lowered(model, (x,), dynamic_shapes=({0: Dim("rows", min=1, max=50)},))
    for rows in (1, 5, 50):
        y = torch.randn(rows, 33)
        with torch.no_grad():
            assert_near(program.run(y), model.rounded(y), BF16_OPERANDS)


def test_a_weight_that_two_layers_share_is_stored_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(torch.tanh(self.layer(x)))

    program = lowered(Tied(), (torch.randn(2, 64),))
    assert len(program.buffer) < 64 * 64 * 2 + 4096


class Images(nn.Module):
    """Convolutions with and without bias, activations, a residual sum, and a depthwise one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.body = nn.Conv2d(32, 32, 3, padding=2, dilation=2, bias=False)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.point = nn.Conv2d(32, 96, 1)
        self.last = nn.Conv2d(96, 64, (3, 1), padding=(1, 0))

    def conv(self, layer: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
        return layer(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv(self.stem, x))
        x = x + F.hardswish(self.conv(self.body, x))
        x = F.relu6(self.depthwise(x))
        return self.conv(self.last, torch.tanh(self.conv(self.point, x)))


class RoundedImages(Images):
    def conv(self, layer: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
        geometry = (layer.stride, layer.padding, layer.dilation)
        return F.conv2d(rounded(x), rounded(layer.weight), layer.bias, *geometry)


def test_convolutions_of_one_group_and_their_epilogues_compute_in_bf16() -> None:
    torch.manual_seed(0)
    model, reference = Images(), RoundedImages()
    reference.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 40, 37).to(memory_format=torch.channels_last)
    program = lowered(model, (x,))
    names = operators(program)
    assert "executorch_py::convolution_bf16" in names
    assert names.count("executorch_py::packed_convolution") == 1  # the depthwise one
    assert "aten::convolution" not in names
    with torch.no_grad():
        assert_near(program.run(x), reference(x), BF16_OPERANDS)


def test_a_convolution_alone_is_worth_copies_of_its_images_if_it_is_large() -> None:
    x = torch.randn(1, 3, 64, 64)
    patches, few = nn.Conv2d(3, 768, 16, 16), nn.Conv2d(3, 8, 3)
    copy = "dim_order_ops::_to_dim_order_copy"
    program = lowered(patches, (x,))
    assert sorted(operators(program)) == [copy, "executorch_py::convolution_bf16"]
    wanted = F.conv2d(rounded(x), rounded(patches.weight), patches.bias, 16)
    with torch.no_grad():
        assert_near(program.run(x), wanted, F32_LAYERS)
    assert operators(lowered(few, (x,))) == ["aten::convolution"]


def test_grouped_and_transposed_convolutions_stay_in_f32() -> None:
    x = torch.randn(1, 64, 24, 24)
    for model in (nn.Conv2d(64, 64, 3, groups=2), nn.ConvTranspose2d(64, 64, 3)):
        program = lowered(model, (x,))
        assert not any("bf16" in name for name in operators(program))
        assert program.verify(model, x).ok


class Mixed(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def test_products_of_two_inputs_stay_in_f32() -> None:
    program = lowered(Mixed(), (torch.randn(5, 7), torch.randn(7, 3)))
    assert operators(program) == ["aten::mm"]


def test_products_in_f64_stay_in_f64() -> None:
    model = nn.Linear(8, 8).double()
    assert not any(
        "bf16" in name for name in operators(lowered(model, (torch.randn(2, 8).double(),)))
    )


def test_a_scaled_sum_stays_in_f32() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 6))
            self.bias = nn.Parameter(torch.randn(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.addmm(self.bias, x, self.weight, beta=0.5)

    model, x = Scaled(), torch.randn(3, 8)
    program = lowered(model, (x,))
    assert not any("bf16" in name for name in operators(program))
    assert program.verify(model, x).ok


def test_precision_is_checked_against_its_choices_and_needs_own_operators() -> None:
    with pytest.raises(ValueError, match="precision: expected one of 'f32', 'bf16', got 'fp16'"):
        ExecutorchBackendConfig(own_operators=True, precision="fp16")
    with pytest.raises(
        ValueError, match="precision='bf16': expected own_operators=True, got False"
    ):
        ExecutorchBackendConfig(precision="bf16")
    assert ExecutorchBackendConfig(own_operators=True).precision == "f32"
