"""torchvision's Python files on CPU-only torch.

The PyPI wheel of torchvision carries compiled operators for another torch build; the model
definitions need none of them, but importing the package registers shape functions for two, so those
are declared first. The wheel is in a separate folder (.venv/vision, made by .ci/setup.sh), because
transformers imports torchvision whenever it can find it. A checkout without .venv has the folder
beside its interpreter.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import torch

_OF_CHECKOUT = Path(__file__).resolve().parent.parent.parent / ".venv"
_FOLDER = (_OF_CHECKOUT if _OF_CHECKOUT.exists() else Path(sys.prefix)) / "vision"
_DECLARED = ("nms", "qnms")


@functools.cache
def add_torchvision() -> torch.library.Library:
    """Make `import torchvision` work; the declarations live as long as the cached result."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in _DECLARED:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    if str(_FOLDER) not in sys.path:
        sys.path.append(str(_FOLDER))
    return library
