"""Programs that upstream's partitioner gives to XNNPACK, for our runtime: networks of the catalogue
and of real size, in float32, float16 and quantized to 8 and 4 bits.

Imported by both virtual environments. A case's tolerance is a share of the greatest value that
eager gives, since quantized results differ by a step of their scale.
"""

from __future__ import annotations

from collections.abc import Callable
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


def _halved(case: Case) -> Case:
    def inputs(given: Callable[[], Any]) -> Callable[[], Inputs]:
        return lambda: tuple(x.half() if x.is_floating_point() else x for x in given())

    return replace(
        case,
        name=f"{case.name}_f16",
        build=lambda: case.build().half(),
        inputs=inputs(case.inputs),
        more=None,
    )


def _four_bits() -> nn.Module:
    """Linear layers with 4-bit weights in groups of 32, activations quantized as they come."""
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


def _vision(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from models import vision

        return vision.build(name)

    return build


def _picture() -> Inputs:
    return (torch.randn(1, 3, 224, 224),)


_KNOWN = {case.name: case for case in MODELS + QUANTIZED}
_SMALL = [
    Delegated(_KNOWN["mobilenet_v2"], "f32"),
    Delegated(_KNOWN["vit"], "f32"),
    Delegated(_halved(_KNOWN["vit"]), "f16"),
    Delegated(_KNOWN["quantized_cnn"], "int8"),
    Delegated(_KNOWN["quantized_linear_dynamic"], "int8"),
    Delegated(Case("four_bits", _four_bits, lambda: (torch.randn(5, 64),)), "int4"),
    Delegated(Case("argmax", Argmax, lambda: (torch.randn(1, 3, 8, 8),)), "f32"),
]
SMALL: dict[str, Delegated] = {d.case.name: d for d in _SMALL}

_REAL_NAMES = ["mobilenet_v2", "mobilenet_v3_large", "resnet18", "vit_b_16", "swin_t"]
_REAL_CASES = [Case(f"real_{name}", _vision(name), _picture) for name in _REAL_NAMES]
_REAL = [
    *(Delegated(case, "f32") for case in _REAL_CASES),
    *(Delegated(_halved(case), "f16") for case in _REAL_CASES),
    Delegated(_KNOWN["quantized_mobilenet_v2"], "int8"),
    *(Delegated(_KNOWN[name], "f32") for name in ("bidirectional_lstm", "transformer", "llama")),
    Delegated(_KNOWN["decoder_with_cache"], "f32"),
]
REAL: dict[str, Delegated] = {d.case.name: d for d in _REAL}
ALL = {**SMALL, **REAL}
