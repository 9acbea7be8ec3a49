"""Models that torchao quantizes after export: prepared, calibrated on random inputs, converted.

Relies on torchao's quantizer for tests, which both virtual environments have. The converted model
is a module of quantize and dequantize operators that eager torch runs: the oracle.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class SmallNet(nn.Module):
    """Convolutions of both kinds, a batch norm that folds, a sum, a pool, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, groups=8, padding=1)
        self.last = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + torch.relu(self.second(x))
        return self.last(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Torchao's warnings of optional libraries and of its test quantizer are silenced here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def quantized(
    model: nn.Module, inputs: tuple[torch.Tensor, ...], dynamic_shapes: Any = None, **settings: bool
) -> nn.Module:
    """The converted model; settings are is_per_channel, is_dynamic and is_qat."""
    with _quiet():
        from torchao.quantization.pt2e import allow_exported_model_train_eval
        from torchao.quantization.pt2e.quantize_pt2e import (
            convert_pt2e,
            prepare_pt2e,
            prepare_qat_pt2e,
        )
        from torchao.testing.pt2e._xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )

        quantizer = XNNPACKQuantizer()
        quantizer.set_global(get_symmetric_quantization_config(**settings))
        trained = settings.get("is_qat", False)
        model = model.train() if trained else model.eval()
        graph = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes).module()
        prepared = (prepare_qat_pt2e if trained else prepare_pt2e)(graph, quantizer)
        with torch.no_grad():
            for _ in range(3):
                prepared(*[torch.randn_like(x) for x in inputs])
        converted: nn.Module = allow_exported_model_train_eval(convert_pt2e(prepared))
        return converted
