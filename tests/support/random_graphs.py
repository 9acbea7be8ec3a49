"""Random models: layers, sums, concatenations and moves of earlier values.

A model draws its steps once by running them, so that shapes fit; it computes the same function on
every call. Knows nothing of quantization.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import nn

Values = list[torch.Tensor]
Step = Callable[[Sequence[torch.Tensor]], torch.Tensor]

MAX_ELEMENTS, MAX_DIMS = 4000, 5
WIDTHS = (2, 3, 4, 6, 8, 12)


class Drawn(nn.Module, ABC):
    """A random model: runs the steps that a subclass draws, and returns some of their results."""

    def __init__(self, seed: int, inputs: Sequence[torch.Tensor], n_steps: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.random = random.Random(seed)
        self.make_layers()
        self.eval()
        self.steps: list[Step] = []
        values = list(inputs)
        while len(self.steps) < n_steps:
            step = self.draw(values)
            try:
                with torch.no_grad():
                    value = step(values)
            except (RuntimeError, IndexError):  # shapes that do not fit
                continue
            if value.numel() > MAX_ELEMENTS or value.dim() > MAX_DIMS:
                continue
            self.steps.append(step)
            values.append(value)
        made = range(len(inputs), len(values))
        self.results = sorted({made[-1], *self.random.sample(made, min(3, len(made)))})

    @abstractmethod
    def make_layers(self) -> None:
        """Set the layers that steps may call as attributes."""

    @abstractmethod
    def draw(self, values: Values) -> Step:
        """Draw a step over earlier values; its shapes need not fit."""

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        return tuple(values[i].clone() for i in self.results)


class Moves(Drawn):
    """Models of moves (slices, permutations, concatenations), with some layers and arithmetic."""

    def make_layers(self) -> None:
        self.linear = nn.ModuleDict({str(n): nn.Linear(n, n) for n in WIDTHS})
        self.conv = nn.ModuleDict({str(n): nn.Conv2d(n, n, 1) for n in WIDTHS})

    def draw(self, values: Values) -> Step:
        r = self.random
        i, j = r.randrange(len(values)), r.randrange(len(values))
        shape = values[i].shape
        d = r.randrange(max(len(shape), 1))
        n = shape[d] if len(shape) > 0 else 1
        start = r.randrange(n)
        length = r.randint(1, n - start)
        order = r.sample(range(len(shape)), len(shape))
        steps: list[Step] = [
            lambda v: v[i].select(d, start),
            lambda v: v[i].narrow(d, start, length),
            lambda v: v[i].permute(order),
            lambda v: v[i].flatten(d),
            lambda v: v[i].unsqueeze(d),
            lambda v: v[i].chunk(2, d)[-1],
            lambda v: torch.cat([v[i], v[j]], d),
            lambda v: torch.cat([v[i], v[j], v[i]], d),
            lambda v: v[i] + v[j],
            lambda v: v[i] * v[j],
            lambda v: F.relu(v[i]),
            lambda v: F.pad(v[i], (1, start)),
            lambda v: v[i].mean(d, keepdim=True),
        ]
        if str(shape[-1]) in self.linear:
            linear = self.linear[str(shape[-1])]
            steps += [lambda v: linear(v[i])] * 3
        if len(shape) == 4 and str(shape[1]) in self.conv:
            conv = self.conv[str(shape[1])]
            steps += [lambda v: conv(v[i])] * 2
        return r.choice(steps)


class Norms(Drawn):
    """Models of convolutions and batch norms that share layers, norms and values."""

    def make_layers(self) -> None:
        convs = [nn.Conv2d(4, 4, 3, padding=1, bias=n != 2, groups=n) for n in (1, 2, 4)]
        transposed = [nn.ConvTranspose2d(4, 4, 3, padding=1, groups=n) for n in (1, 2)]
        self.conv = nn.ModuleList([*convs, *transposed])
        self.norm = nn.ModuleList([nn.BatchNorm2d(4, affine=n > 0) for n in range(4)])
        for norm in self.norm:
            nn.init.normal_(norm.running_mean, 0, 0.3)
            nn.init.uniform_(norm.running_var, 0.5, 2)
            if norm.affine:
                nn.init.uniform_(norm.weight, 0.5, 1.5)
                nn.init.normal_(norm.bias, 0, 0.3)

    def draw(self, values: Values) -> Step:
        r = self.random
        i, j = r.choice(range(len(values))[-2:]), r.randrange(len(values))
        conv, norm = r.choice(list(self.conv)), r.choice(list(self.norm))
        steps: list[Step] = [
            *[lambda v: norm(conv(v[i]))] * 3,
            lambda v: conv(v[i]),
            lambda v: norm(v[i]),
            lambda v: F.relu(v[i]),
            lambda v: v[i] + v[j],
        ]
        return r.choice(steps)
