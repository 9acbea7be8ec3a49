"""`executorch_py::rms_norm`: rows divided by their root mean square (csrc/kernels/op/rms_norm.c).

Only this project's runtime has the operator. Importing this module defines it in torch.
"""

from __future__ import annotations

import torch
from torch.library import Library, register_fake

from executorch_py.exir.dialects.own_ops import LIBRARY

_NAME = "rms_norm"
_ARGUMENTS = "Tensor input, Tensor? weight, float eps"


def _run(input: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    scaled = input * torch.rsqrt(input.square().mean(-1, keepdim=True) + eps)
    return scaled if weight is None else scaled * weight


def _run_out(
    input: torch.Tensor, weight: torch.Tensor | None, eps: float, *, out: torch.Tensor
) -> torch.Tensor:
    result = _run(input, weight, eps)
    return out.resize_(result.shape).copy_(result)


def _shape(input: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _define() -> Library:
    library = Library(LIBRARY, "FRAGMENT")
    library.define(f"{_NAME}({_ARGUMENTS}) -> Tensor")
    library.define(f"{_NAME}.out({_ARGUMENTS}, *, Tensor(a!) out) -> Tensor(a!)")
    library.impl(_NAME, _run, "CPU")
    library.impl(f"{_NAME}.out", _run_out, "CPU")
    register_fake(f"{LIBRARY}::{_NAME}", _shape, lib=library)
    return library


_LIBRARY = _define()
RMS_NORM = torch.ops.executorch_py.rms_norm.default
