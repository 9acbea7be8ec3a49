"""One row of the models table: a name, its library, and how to build the model and its inputs.

The libraries are imported when a model is built, so that the names are known without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Architecture:
    """A model with seeded random weights, of a size that a test can afford."""

    name: str
    library: str
    kind: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]

    def build(self) -> nn.Module:
        torch.manual_seed(0)
        model = self.make().eval()
        settle_batch_norms(model)
        return model

    def batched(self, size: int) -> Architecture:
        """The same model with inputs of several different samples."""
        return replace(self, inputs=lambda: tuple(batch_of(x, size) for x in self.inputs()))


def batch_of(sample: torch.Tensor, size: int) -> torch.Tensor:
    """A sample and others made of it; a tensor whose first dimension is not 1 stays as it is.

    The numbers of an integer tensor keep their places in the last dimensions, for boxes and
    pairs; all other samples are the first one's elements in another order.
    """
    if sample.dim() < 2 or sample.shape[0] != 1:
        return sample
    one = sample if sample.is_floating_point() else sample[0]
    shifts = range(0, 7 * size, 7)
    moved = [one.roll(i) if one is sample else one.roll(i, 0)[None] for i in shifts]
    return torch.cat(moved)


def settle_batch_norms(model: nn.Module) -> None:
    """Gives batch norms statistics that are not the trivial ones, so that folding them shows."""
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        mean, variance = getattr(module, "running_mean", None), getattr(module, "running_var", None)
        if isinstance(mean, torch.Tensor) and isinstance(variance, torch.Tensor):
            mean.normal_(0, 0.1, generator=generator)
            variance.uniform_(0.5, 1.5, generator=generator)


class Outputs(nn.Module):
    """A model called by the names of its inputs, reduced to the tensors of its result."""

    def __init__(
        self,
        model: nn.Module,
        names: tuple[str, ...] = (),
        options: dict[str, Any] | None = None,
        pick: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.names, self.options = model, names, options or {}
        self.pick = pick or first

    def forward(self, *inputs: torch.Tensor) -> Any:
        positional = inputs[: len(inputs) - len(self.names)]
        named = dict(zip(self.names, inputs[len(positional) :], strict=True))
        return self.pick(self.model(*positional, **named, **self.options))


def first(result: Any) -> Any:
    """The result itself if it is a tensor, else the first of its parts."""
    if isinstance(result, torch.Tensor):
        return result
    parts = list(result.values()) if isinstance(result, dict) else list(result)
    return first(parts[0])


def every(result: Any) -> Any:
    """All tensors of a result, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    parts = list(result.values()) if isinstance(result, dict) else list(result)
    return [x for part in parts if part is not None for x in every(part)]


def floats(*shape: int) -> Callable[[], Inputs]:
    """Inputs of one random tensor."""
    return lambda: (torch.randn(shape, generator=torch.Generator().manual_seed(0)),)


def several(*makers: Callable[[], Inputs]) -> Callable[[], Inputs]:
    return lambda: tuple(x for make in makers for x in make())


def integers(*shape: int, below: int = 99, least: int = 3) -> Callable[[], Inputs]:
    """Inputs of one tensor of random token numbers."""
    generator = torch.Generator().manual_seed(0)
    found = torch.randint(least, below, shape, generator=generator)
    return lambda: (found.clone(),)


def image(size: int, batch: int = 1) -> Callable[[], Inputs]:
    return floats(batch, 3, size, size)
