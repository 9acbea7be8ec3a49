"""A small network with an embedding and linear layers, and low-bit weights.

PT2E quantizes them after the export, or torchao before it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from executorch_py.quantizer import (
    QuantizationConfig,
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_groupwise_quantization_config,
    get_symmetric_quantization_config,
    get_weight_only_quantization_config,
    prepare_pt2e,
)
from support.processor import processor

INDICES = torch.tensor([[1, 39, 5], [0, 3, 7]])


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(40, 64)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64, bias=False)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.table(indices))))


def indices(n: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 40, (2, 3), generator=generator) for _ in range(n)]


def by_pt2e(linear: Any = None, table: Any = None, samples: int = 0) -> Any:
    """The module that `convert_pt2e` gives."""
    quantizer = XNNPACKQuantizer().set_global(linear)
    if table is not None:
        quantizer.set_module_type(nn.Embedding, table)
    prepared = prepare_pt2e(torch.export.export(Words().eval(), (INDICES,)).module(), quantizer)
    if samples:
        calibrate(prepared, indices(samples))
    return convert_pt2e(prepared)


def by_torchao(name: str, of: type[nn.Module] = nn.Linear, **settings: Any) -> nn.Module:
    """The model after torchao's `quantize_` of a class of layers, by a configuration's name."""
    logging.disable(logging.WARNING)
    try:
        from torchao import quantization
        from torchao.quantization import granularity

        for key in ("granularity", "weight_granularity"):
            if key in settings:
                kind, *size = settings[key]
                settings[key] = getattr(granularity, kind)(*size)
        for key in ("act_mapping_type", "weight_mapping_type"):
            if key in settings:
                settings[key] = quantization.MappingType[settings[key]]
        model = Words().eval()
        config = getattr(quantization, name)(**settings)
        quantization.quantize_(model, config, lambda module, _: isinstance(module, of))
    finally:
        logging.disable(logging.NOTSET)
    return model


_GROUPS, _ALONE = get_groupwise_quantization_config, get_weight_only_quantization_config
PT2E: dict[str, Callable[[], nn.Module]] = {
    "4 bits in groups times 8": lambda: by_pt2e(_GROUPS(4, 32), _ALONE(8)),
    "4 bits in rows times 8": lambda: by_pt2e(_GROUPS(4, None)),
    "8 bits alone": lambda: by_pt2e(_ALONE(8)),
    "8 bits a tensor alone": lambda: by_pt2e(
        QuantizationConfig(None, None, get_symmetric_quantization_config().weight, None), samples=2
    ),
    "4 bits in rows alone": lambda: by_pt2e(_ALONE(4), _ALONE(2, 64)),
    "4 bits in groups alone": lambda: by_pt2e(_ALONE(4, 32)),
}
_DYNAMIC = functools.partial(by_torchao, "Int8DynamicActivationIntxWeightConfig")
_INTX = functools.partial(by_torchao, "IntxWeightOnlyConfig")
TORCHAO: dict[str, Callable[[], nn.Module]] = {
    "8da4w": lambda: _DYNAMIC(weight_dtype=torch.int4, weight_granularity=("PerGroup", 32)),
    "8da4w with zero points": lambda: _DYNAMIC(
        weight_dtype=torch.int4, weight_mapping_type="ASYMMETRIC"
    ),
    "8da8w in groups": lambda: _DYNAMIC(weight_dtype=torch.int8),
    "int8 times int8": lambda: by_torchao("Int8DynamicActivationInt8WeightConfig"),
    "int8 times int8 for VNNI": lambda: by_torchao("Int8DynamicActivationInt8WeightConfig"),
    "7 bits times 7 bits": lambda: by_torchao(
        "Int8DynamicActivationInt8WeightConfig", reduce_range=True
    ),
    "int8 alone": lambda: by_torchao("Int8WeightOnlyConfig"),
    "4 bits alone": lambda: _INTX(weight_dtype=torch.int4, granularity=("PerGroup", 32)),
    "table of 4 bits": lambda: _INTX(
        nn.Embedding, weight_dtype=torch.int4, granularity=("PerGroup", 32)
    ),
    "table of 2 bits": lambda: _INTX(
        nn.Embedding, weight_dtype=torch.int2, granularity=("PerGroup", 32)
    ),
}


def exported(name: str) -> tuple[nn.Module, ExportedProgram]:
    """The model of that name, and its exported program on the processor that it names."""
    with processor("VNNI" if "VNNI" in name else "no VNNI"), torch.no_grad():
        model = {**PT2E, **TORCHAO}[name]()
        return model, torch.export.export(model, (INDICES,))
