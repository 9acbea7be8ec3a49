"""Weights of linear layers in few bits beside float activations, for both targets."""

from __future__ import annotations

from collections.abc import Collection

import torch

from executorch_py.extension.llm.export.quantize_model import replace_linear
from executorch_py.extension.llm.export.standard_quantized import WeightKind
from executorch_py.optimum.options import LinearMode


def quantize_weights(model: torch.nn.Module, mode: LinearMode, keep: Collection[str]) -> None:
    """Replaces linear layers that are not in `keep` and whose inputs the mode's group divides.

    The operators are those of every runtime. Scales of 4 bits are those of the least squared
    error, as export_llm's are by default.
    """
    kind = WeightKind(mode.bits, mode.group, search=mode.bits == 4)
    replace_linear(model, kind, is_dynamic=False, own=False, keep=keep)
