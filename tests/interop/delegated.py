"""Programs delegated to XNNPACK: small networks of the catalogue, in float32, float16 and quantized
to 8 and 4 bits; real_size.py has large ones.

Imported by both virtual environments. A case's tolerance is a share of the greatest value that
eager gives, since quantized results differ by a step of their scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from interop.cases import Case, Inputs
from interop.networks import MODELS, QUANTIZED

SHARE = {"f32": 2e-5, "f16": 1e-2, "int8": 4e-2, "int4": 2e-2}


@dataclass(frozen=True)
class Delegated:
    case: Case
    kind: str  # a key of SHARE


def worst_share(found: list[list[Any]], wanted: list[list[Any]]) -> float:
    """The greatest difference over all sets of outputs, as a share of the greatest value wanted.

    Integers differ by nothing or by everything.
    """
    worst = 0.0
    for ours, right in zip(found, wanted, strict=True):
        assert len(ours) == len(right)
        for x, y in zip(ours, right, strict=True):
            assert x.shape == y.shape, f"expected shape {y.shape}, got {x.shape}"
            assert y.dtype in (x.dtype, torch.float64), f"expected {y.dtype}, got {x.dtype}"
            if not y.dtype.is_floating_point:
                share = 0.0 if torch.equal(x, y) else math.inf
            else:
                share = float((x.double() - y.double()).abs().max() / y.double().abs().max())
            worst = max(worst, math.inf if math.isnan(share) else share)
    return worst


def in_type(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Inputs whose floats are converted to another type."""
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def halved(case: Case) -> Case:
    """The same network with weights and inputs in float16."""
    more = case.more
    return replace(
        case,
        name=f"{case.name}_f16",
        build=lambda: case.build().half(),
        inputs=lambda: in_type(case.inputs(), torch.float16),
        more=more and (lambda: [in_type(inputs, torch.float16) for inputs in more()]),
    )


def _four_bits() -> nn.Module:
    """Linear layers with 4-bit weights in groups of 32 and activations quantized at run time."""
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, quantize_

    model = nn.Sequential(nn.Linear(64, 96, bias=False), nn.ReLU(), nn.Linear(96, 32)).eval()
    for layer, granularity in ((model[0], PerGroup(32)), (model[2], PerAxis(0))):
        config = Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=granularity
        )
        quantize_(layer, config)
    from torchao.utils import unwrap_tensor_subclass

    unwrapped: nn.Module = unwrap_tensor_subclass(model)
    return unwrapped


class Argmax(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = torch.max(torch.sigmoid(x), dim=2, keepdim=True)
        return values, indices


_KNOWN = {case.name: case for case in MODELS + QUANTIZED}
_SMALL = [
    Delegated(_KNOWN["mobilenet_v2"], "f32"),
    Delegated(_KNOWN["vit"], "f32"),
    Delegated(halved(_KNOWN["vit"]), "f16"),
    Delegated(_KNOWN["quantized_cnn"], "int8"),
    Delegated(_KNOWN["quantized_linear_dynamic"], "int8"),
    Delegated(Case("four_bits", _four_bits, lambda: (torch.randn(5, 64),)), "int4"),
    Delegated(Case("argmax", Argmax, lambda: (torch.randn(1, 3, 8, 8),)), "f32"),
]
SMALL: dict[str, Delegated] = {d.case.name: d for d in _SMALL}
