"""A classifier of handwritten digits as a training program, and its training.

The loss comes first among its outputs, then the digits that it takes the images for, so that the
same program also measures accuracy. The size of the batch is dynamic.
"""

from __future__ import annotations

import functools

import torch
from models.digits import TRAINING, data
from torch import nn
from torch.export.experimental import _export_forward_backward

from executorch_py.exir import to_edge

BATCH = 50


class Classifier(nn.Module):
    """A convolution and two linear layers; returns the loss and the digits found."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.hidden = nn.Linear(8 * 8 * 8, 32)
        self.last = nn.Linear(32, 10)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = torch.relu(self.conv(x)).flatten(1)
        scores = self.last(torch.relu(self.hidden(features)))
        return self.loss(scores, label), scores.detach().argmax(1)


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    images, labels = data()
    return [(images[i : i + BATCH], labels[i : i + BATCH]) for i in range(0, TRAINING, BATCH)]


def held_out() -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = data()
    return images[TRAINING:], labels[TRAINING:]


@functools.cache
def program() -> bytes:
    """The training program with untrained weights."""
    size = torch.export.Dim("batch", min=2, max=1000)
    exported = torch.export.export(
        Classifier(), batches()[0], dynamic_shapes=({0: size}, {0: size}), strict=True
    )
    return bytes(to_edge(_export_forward_backward(exported)).to_executorch().buffer)
