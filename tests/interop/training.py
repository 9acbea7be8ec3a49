"""A classifier and its training program, which either exporter writes and either runtime runs.

`package` is `executorch` or `executorch_py`: the names are the same. The program is joint: it
returns the loss, then gradients, then the weights, whose memory the next run reads.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export.experimental import _export_forward_backward

STEPS, RATE = 3, 0.1
# Options of SGD, each with the learning rate RATE.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "dampening": {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01},
    "nesterov": {"momentum": 0.5, "nesterov": True},
}


class Classifier(nn.Module):
    """A convolution, optionally pooled, a frozen layer, and one to train; returns the loss."""

    def __init__(self, pool: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, stride=1 if pool else 2, padding=1)
        self.pool = nn.MaxPool2d(2) if pool else nn.Identity()
        self.frozen = nn.Linear(4 * 4 * 4, 6).requires_grad_(False)
        self.last = nn.Linear(6, 3)
        nn.init.zeros_(self.last.bias)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        features = self.pool(torch.relu(self.conv(x))).flatten(1)
        loss: torch.Tensor = self.loss(self.last(torch.tanh(self.frozen(features))), label)
        return loss


class Counting(Classifier):
    """The classifier with a buffer that counts the runs, which are added to the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        self.runs.add_(1.0)
        return super().forward(x, label) + self.runs.sum()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "strided": Classifier,
    "pooled": partial(Classifier, pool=True),
    "counting": Counting,
}


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 3, 8, 8, generator=generator), torch.tensor([0, 2])


def joint(model: str = "strided") -> Any:
    """The training program, before it is an edge program."""
    exported = torch.export.export(MODELS[model](), inputs(), strict=True)
    return _export_forward_backward(exported)


def write(package: str, folder: Path, model: str = "strided") -> None:
    exir = importlib.import_module(f"{package}.exir")
    exir.to_edge(joint(model)).to_executorch().save(str(folder / "training.pte"))


def run(package: str, folder: Path) -> None:
    """Writes training.pt: the outputs of some steps of training with SGD."""
    portable = importlib.import_module(f"{package}.extension.pybindings.portable_lib")
    module = portable._load_for_executorch(str(folder / "training.pte"))
    (start,) = module.run_method("__et_training_gradients_index_forward", ())
    (end,) = module.run_method("__et_training_parameters_index_forward", ())
    steps = []
    for _ in range(STEPS):
        outputs = module.run_method("forward", inputs(), clone_outputs=False)
        steps.append([value.clone() for value in outputs])
        for gradient, weight in zip(outputs[start:end], outputs[end:], strict=True):
            weight.sub_(gradient, alpha=RATE)
    torch.save(steps, folder / "training.pt")


def train(package: str, name: str, folder: Path) -> None:
    """Writes training.pt with the training module: loss, gradients, weights before each update."""
    training = importlib.import_module(f"{package}.extension.training")
    module = training._load_for_executorch_for_training(str(folder / "training.pte"))
    optimizer = None
    steps = []
    for _ in range(STEPS):
        (loss,) = module.forward_backward("forward", inputs())
        gradients, weights = module.named_gradients(), module.named_parameters()
        # Upstream's optimizer writes over the gradients, this project's does not.
        kept = [value.clone() for value in (*gradients.values(), *weights.values())]
        steps.append([loss, *kept])
        optimizer = optimizer or training.get_sgd_optimizer(weights, RATE, **OPTIMIZERS[name])
        optimizer.step(gradients)
    torch.save(steps, folder / "training.pt")


def expected(model: str = "strided", name: str = "plain") -> list[list[torch.Tensor]]:
    """Eager's loss, gradients and weights of each step."""
    eager = MODELS[model]()
    trained = [p for p in eager.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, RATE, **OPTIMIZERS[name])
    steps = []
    for _ in range(STEPS):
        loss = eager(*inputs())
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in trained if p.grad is not None]
        steps.append([t.detach().clone() for t in (loss, *gradients, *trained)])
        optimizer.step()
    return steps
