"""The models that benchmarks lower and run, importable in every side's virtual environment (torch,
torchvision's definitions; MiniLM needs transformers).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from models import transformer_models, vision
from support.torchvision_path import add_torchvision


class OneAdd(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


class AddChain(torch.nn.Module):
    """A hundred one-element additions, one after another."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        for _ in range(100):
            a = a + b
        return a


def image() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(1, 3, 224, 224, generator=generator),)


def scalars() -> tuple[torch.Tensor, ...]:
    return (torch.ones(1), torch.full((1,), 0.5))


def tokens() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(1000, 30000, (1, 128), generator=generator), torch.ones(1, 128).long()


def sequence() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(128, 1, 128, generator=generator),)


class Outputs(torch.nn.Module):
    """A recurrent layer that returns the output of every step."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x)[0]
        return result


def vit() -> torch.nn.Module:
    """ViT-B/16 with normal weights (0.02, truncated), as ViT and DeiT are trained from.

    torchvision's initial weights are uniform. The speed of int8 with 7-bit weights depends on this:
    too few uniform weights are small enough for sums to fit 16 bits (gemm_q8_schedule.h).
    """
    model = vision.build("vit_b_16")
    generator = torch.Generator().manual_seed(5)
    for weight in model.parameters():
        if weight.dim() == 2:
            torch.nn.init.trunc_normal_(weight.data, std=0.02, generator=generator)
    return model


def linear_4_bits(n_k: int, n_cols: int, n_layers: int = 1) -> torch.nn.Module:
    """Weights of 4 bits in groups of 32, rows quantized at run time; layers one after another."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    torch.manual_seed(3)
    layers = [torch.nn.Linear(n_k, n_cols, bias=False) for _ in range(n_layers)]
    model = torch.nn.Sequential(*layers).eval()
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    )
    quantize_(model, config)
    return model


def rows(n_rows: int, n_k: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(n_rows, n_k, generator=torch.Generator().manual_seed(3)),)


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[], tuple[Any, ...]]]] = {
    "one_add": (OneAdd, scalars),
    "add_chain": (AddChain, scalars),
    "mobilenet_v2": (lambda: vision.build("mobilenet_v2"), image),
    "resnet18": (lambda: vision.build("resnet18"), image),
    "vit_b_16": (vit, image),
    "mobilenet_v3_large": (lambda: vision.build("mobilenet_v3_large"), image),
    "resnet50": (lambda: vision.build("resnet50"), image),
    "swin_t": (lambda: vision.build("swin_t"), image),
    "minilm": (transformer_models.minilm, tokens),
    "lstm": (lambda: Outputs(torch.nn.LSTM(128, 128)), sequence),
    "gru": (lambda: Outputs(torch.nn.GRU(128, 128)), sequence),
    **{
        f"8da4w_{m}x2048x{n}": (partial(linear_4_bits, 2048, n), partial(rows, m, 2048))
        for n in (2048, 8192)
        for m in (1, 128)
    },
    "8da4w_1x2048x2048x100": (partial(linear_4_bits, 2048, 2048, 100), partial(rows, 1, 2048)),
}


TABLE = "table: "  # begins the name of an architecture of the models table


def subject(name: str) -> tuple[Callable[[], torch.nn.Module], Callable[[], tuple[Any, ...]]]:
    """The functions that build a model and its inputs."""
    if not name.startswith(TABLE):
        return MODELS[name]
    from models.models_table import architectures

    if find_spec("torchvision") is not None:  # transformers imports it
        add_torchvision()
    row = architectures()[name.removeprefix(TABLE)]
    return row.build, row.inputs


def exported(name: str) -> torch.export.ExportedProgram:
    build, inputs = subject(name)
    with torch.no_grad():
        return torch.export.export(build().eval(), inputs())


def calibration_data(name: str) -> list[tuple[Any, ...]]:
    """Calibration data of quantized models: the inputs, and another sample like them."""
    inputs = MODELS[name][1]()
    generator = torch.Generator().manual_seed(7)
    other = tuple(
        torch.randn(value.shape, generator=generator) if value.is_floating_point() else value
        for value in inputs
    )
    return [inputs, other]


def quantized(name: str, prepare: Callable[[Any], Any]) -> torch.export.ExportedProgram:
    """The model quantized by PT2E: `prepare` inserts observers into the exported module."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    prepared = prepare(exported(name).module())
    with torch.no_grad():
        for sample in calibration_data(name):
            prepared(*sample)
        return torch.export.export(convert_pt2e(prepared), MODELS[name][1]())
