"""Two small networks that learn scikit-learn's handwritten digits within seconds.

One network is a CNN with depthwise layers, the other a residual network. Their data is real, so
that the accuracy loss of quantization is measured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import nn

TRAINING = 1200  # of 1797 digits; the others are held out


@functools.cache
def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Images [1797, 1, 8, 8] of 0 to 1, and labels, shuffled in a fixed order."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    return images[order], torch.tensor(digits.target)[order]


def _block(channels: int, out: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, out, 3, stride, padding=1, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(out), nn.ReLU()]


def small() -> nn.Module:
    return nn.Sequential(
        *_block(1, 16),
        *_block(16, 16, groups=16),
        *_block(16, 32, stride=2),
        *_block(32, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


class Residual(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_block(channels, out, stride), *_block(out, out)[:2])
        self.beside = nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.body(x) + self.beside(x))


def residual() -> nn.Module:
    return nn.Sequential(
        *_block(1, 16),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {"small": small, "residual": residual}


def learn(model: nn.Module, epochs: int, rate: float) -> None:
    """Train with Adam on shuffled batches of 50; the caller sets the model's training mode."""
    images, labels = data()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)
    generator = torch.Generator().manual_seed(1)
    for _ in range(epochs):
        for batch in torch.randperm(TRAINING, generator=generator).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


@functools.cache
def trained(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = NETWORKS[name]()
    learn(model.train(), 8, 3e-3)
    return model.eval()


def accuracy(run: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Percentage of the held-out digits that are classified right, in one batch."""
    images, labels = data()
    with torch.no_grad():
        found = run(images[TRAINING:]).argmax(1)
    return float((found == labels[TRAINING:]).float().mean()) * 100


def calibration() -> list[torch.Tensor]:
    return list(data()[0][:TRAINING].split(100))
