"""Joint graphs of attention and of batch norm: loss, gradients and state equal eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tolerance import F32_LAYERS, F32_MODEL, assert_near
from torch import nn
from torch.export.experimental import _export_forward_backward

from executorch_py.exir import to_edge
from executorch_py.extension.training import (
    _load_for_executorch_for_training_from_buffer,
    get_sgd_optimizer,
)


class Attention(nn.Module):
    """Scaled dot-product attention between projections, with options of torch's function."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project = nn.Linear(8, 24)
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(q, k, v, **self.options)
        return found.square().mean()


class Normed(nn.Module):
    """A convolution and a batch norm in training mode."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4 * 16, 3)

    def forward(
        self, x: torch.Tensor, label: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features = torch.relu(self.norm(self.conv(x))).flatten(1)
        loss = nn.functional.cross_entropy(self.last(features), label)
        return loss, self.norm.running_mean.clone(), self.norm.running_var.clone()


def joint(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Any:
    return to_edge(_export_forward_backward(torch.export.export(model, inputs))).to_executorch()


BANNED = torch.tensor([[True, False], [True, True]]).repeat(3, 3)
MASKS = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.7},
    "added": {"attn_mask": torch.linspace(-2, 2, 36).reshape(6, 6)},
    "masked": {"attn_mask": BANNED},
    "row without a key": {"attn_mask": torch.ones(6, 6).tril(-1).bool()},
}


@pytest.mark.parametrize("name", MASKS)
def test_gradients_of_attention_equal_eager(name: str) -> None:
    model, x = Attention(MASKS[name]), torch.randn(2, 6, 8)
    outputs = joint(model, (x,)).run(x)
    model.zero_grad()
    loss = model(x)
    loss.backward()
    expected = [loss, model.project.weight.grad, model.project.bias.grad]
    assert_near(outputs[:3], [value.detach() for value in expected], F32_LAYERS)


def test_batch_norm_trains_its_weights_and_statistics() -> None:
    inputs = (torch.randn(5, 1, 4, 4), torch.tensor([0, 1, 2, 0, 1]))
    module = _load_for_executorch_for_training_from_buffer(joint(Normed(), inputs).buffer)
    optimizer = get_sgd_optimizer(module.named_parameters(), 0.1)
    model = Normed()
    reference = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        found = module.forward_backward("forward", inputs)
        reference.zero_grad()
        expected = model(*inputs)
        expected[0].backward()
        assert_near(found, [value.detach() for value in expected], F32_MODEL)
        for name, parameter in model.named_parameters():
            assert_near(module.named_gradients()[name], parameter.grad, F32_MODEL)
        optimizer.step(module.named_gradients())
        reference.step()
    for name, parameter in model.named_parameters():
        assert_near(module.named_parameters()[name], parameter.detach(), F32_MODEL)
