"""torchvision's model definitions on CPU-only torch.

The PyPI wheel of torchvision carries compiled operators for another torch build; the model
definitions need none of them, but importing the package registers shape functions for two, so those
are declared first. The wheel is in a separate folder (.venv/vision, made by .ci/setup.sh), because
transformers imports torchvision whenever it can find it. Weights are seeded: tests compare
arithmetic, not accuracy. A checkout without .venv has the folder beside its interpreter.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType

import torch

_OF_CHECKOUT = Path(__file__).resolve().parent.parent.parent / ".venv"
FOLDER = (_OF_CHECKOUT if _OF_CHECKOUT.exists() else Path(sys.prefix)) / "vision"
DECLARED = ("nms", "qnms")


@functools.cache
def torchvision_models() -> ModuleType:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in DECLARED:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torchvision_models.library = library  # type: ignore[attr-defined]  # keeps the declarations alive
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
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
