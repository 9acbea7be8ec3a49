"""torchvision's models with seeded weights: tests compare arithmetic, not accuracy."""

from __future__ import annotations

from types import ModuleType

import torch
from support.torchvision_path import add_torchvision


def torchvision_models() -> ModuleType:
    add_torchvision()
    from torchvision import models

    return models


def build(name: str, **kwargs: object) -> torch.nn.Module:
    """An eval-mode torchvision model with seeded random weights and non-trivial batch-norm
    statistics.
    """
    torch.manual_seed(0)
    model: torch.nn.Module = getattr(torchvision_models(), name)(weights=None, **kwargs).eval()
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 1.5, generator=generator)  # type: ignore[union-attr]
    return model
