"""Products with weights in groups that read the same rows, in one call
(csrc/kernels/op/quantized/qlinear_groups.c).

joint_qlinear_groups has a result for each weight. gated_qlinear_groups has two weights and one
result: element-wise steps (own_ops.py) begin with the first product, and the second one is their
tensor 0. Rows of f32 are quantized as in qlinear_groups; where norm_eps is a number, they are
divided by their root mean square before, times norm_weight. Only this project's runtime has these
operators. Importing this module defines them in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library, register_fake

from executorch_py.exir.dialects import norm_ops
from executorch_py.exir.dialects.integer_ops import LIBRARY
from executorch_py.exir.dialects.own_ops import apply_epilogue

# The greatest number of weights of a call (csrc/kernels/lib/qgroups_job.h).
MAX_PRODUCTS = 8

_Tensors = Sequence[torch.Tensor]
_OPERANDS = (
    "Tensor input, Tensor? norm_weight, float? norm_eps, Tensor[] weights, Tensor[] scales, "
    "Tensor?[] minimums, Tensor[] sums, Tensor[] addends, int group"
)
_JOINT = f"{_OPERANDS}, int[] channels"
_GATED = f"{_OPERANDS}, int channels, str chain, float[] numbers"


def _joint(
    input: torch.Tensor,
    norm_weight: torch.Tensor | None,
    norm_eps: float | None,
    weights: _Tensors,
    scales: _Tensors,
    minimums: Sequence[torch.Tensor | None],
    sums: _Tensors,
    addends: _Tensors,
    group: int,
    channels: Sequence[int],
) -> list[torch.Tensor]:
    rows = input if norm_eps is None else norm_ops.RMS_NORM(input, norm_weight, norm_eps)
    product = torch.ops.executorch_py.qlinear_groups
    operands = zip(weights, scales, minimums, sums, addends, channels, strict=True)
    return [
        product(rows, None, None, weight, scale, None, least, total, addend, group, n)
        for weight, scale, least, total, addend, n in operands
    ]


def _gated(*operands: Any) -> torch.Tensor:
    channels, chain, numbers = operands[9:]
    both: list[Any] = [*operands[:9], [channels, channels]]
    first, second = _joint(*both)
    return apply_epilogue(first, chain, numbers, [second])


def _joint_out(*operands: Any, out: Sequence[torch.Tensor]) -> None:
    for result, to in zip(_joint(*operands), out, strict=True):
        to.resize_(result.shape).copy_(result)


def _gated_out(*operands: Any, out: torch.Tensor) -> torch.Tensor:
    result = _gated(*operands)
    return out.resize_(result.shape).copy_(result)


def _shape(input: torch.Tensor, channels: int) -> torch.Tensor:
    return input.new_empty((*input.shape[:-1], channels))


def _joint_shapes(input: torch.Tensor, *operands: Any) -> list[torch.Tensor]:
    return [_shape(input, n) for n in operands[8]]


def _gated_shape(input: torch.Tensor, *operands: Any) -> torch.Tensor:
    return _shape(input, operands[8])


def _define() -> Library:
    library = Library(LIBRARY, "FRAGMENT")
    library.define(f"joint_qlinear_groups({_JOINT}) -> Tensor[]")
    library.define(f"joint_qlinear_groups.out({_JOINT}, *, Tensor(a!)[] out) -> ()")
    library.define(f"gated_qlinear_groups({_GATED}) -> Tensor")
    library.define(f"gated_qlinear_groups.out({_GATED}, *, Tensor(a!) out) -> Tensor(a!)")
    runs: dict[str, Callable[..., Any]] = {
        "joint_qlinear_groups": _joint,
        "joint_qlinear_groups.out": _joint_out,
        "gated_qlinear_groups": _gated,
        "gated_qlinear_groups.out": _gated_out,
    }
    for name, function in runs.items():
        library.impl(name, function, "CPU")
    register_fake(f"{LIBRARY}::joint_qlinear_groups", _joint_shapes, lib=library)
    register_fake(f"{LIBRARY}::gated_qlinear_groups", _gated_shape, lib=library)
    return library


_LIBRARY = _define()
JOINT = torch.ops.executorch_py.joint_qlinear_groups.default
GATED = torch.ops.executorch_py.gated_qlinear_groups.default
