"""`llama::fallback`, which returns a copy of its argument, registered with torch on import.

The operator marks places to cut a graph. A runtime that cuts no graphs copies.
"""

from __future__ import annotations

import torch

from executorch_py.extension.llm.custom_ops.registry import Operator, register


def _fallback(input: torch.Tensor) -> torch.Tensor:
    return input.clone()


def _fallback_shape(input: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(input)


register(Operator("fallback", "Tensor input", "output", _fallback, _fallback_shape))
