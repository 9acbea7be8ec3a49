"""Layers of torch.nn that few models use, against eager torch.

The layers are recurrent cells, attention, convolutions of every rank and padding, normalisation,
resampling, activations.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.exir import to_edge
from executorch_py.testing import assert_parity


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


MASKS = {
    "attn_mask": torch.ones(5, 5).triu(1).bool(),
    "key_padding_mask": torch.tensor([[0] * 5, [0, 0, 0, 1, 1]]).bool(),
}
LAYERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LSTM, two layers, both directions": (
        lambda: nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True),
        (randn(2, 5, 4),),
    ),
    "LSTM with projection": (lambda: nn.LSTM(4, 6, proj_size=3), (randn(5, 2, 4),)),
    "LSTM with state": (lambda: nn.LSTM(4, 6), (randn(5, 2, 4), (randn(1, 2, 6), randn(1, 2, 6)))),
    "LSTMCell": (lambda: nn.LSTMCell(4, 6), (randn(2, 4), (randn(2, 6), randn(2, 6)))),
    "GRU, two layers, both directions": (
        lambda: nn.GRU(4, 6, 2, bidirectional=True),
        (randn(5, 2, 4),),
    ),
    "GRUCell": (lambda: nn.GRUCell(4, 6), (randn(2, 4), randn(2, 6))),
    "RNN with relu": (lambda: nn.RNN(4, 6, 2, nonlinearity="relu"), (randn(5, 2, 4),)),
    "Transformer": (
        lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
        (randn(2, 5, 16), randn(2, 4, 16)),
    ),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False
        ),
        (randn(2, 5, 16),),
    ),
    "Conv1d, same padding": (lambda: nn.Conv1d(3, 4, 4, padding="same"), (randn(1, 3, 8),)),
    "Conv2d, circular padding": (
        lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"),
        (randn(1, 3, 8, 8),),
    ),
    "Conv2d without batch": (lambda: nn.Conv2d(3, 4, 3), (randn(3, 8, 8),)),
    "Conv3d in groups": (
        lambda: nn.Conv3d(2, 4, 3, stride=2, padding=1, groups=2),
        (randn(1, 2, 5, 6, 7),),
    ),
    "ConvTranspose1d in groups": (
        lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2, output_padding=1),
        (randn(1, 4, 7),),
    ),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 3, 3, stride=2), (randn(1, 2, 3, 4, 5),)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (randn(2, 4, 5),)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), (randn(2, 4, 5, 5),)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(4), (randn(2, 4, 3, 3, 3),)),
    "RMSNorm": (lambda: nn.RMSNorm(8), (randn(2, 8),)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), (randn(2, 4, 5, 5),)),
    "MaxPool2d with indices": (
        lambda: nn.MaxPool2d(2, return_indices=True),
        (randn(1, 2, 6, 6),),
    ),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), (randn(1, 2, 4, 4, 4),)),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(2), (randn(1, 2, 5, 5, 5),)),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), (randn(1, 2, 6, 6),)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (randn(1, 8, 3, 3),)),
    "Unfold and Fold": (
        lambda: nn.Sequential(nn.Unfold(3, padding=1), nn.Fold((5, 5), 3, padding=1)),
        (randn(1, 2, 5, 5),),
    ),
    "parametrised weights": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
        (randn(2, 4),),
    ),
    "CosineSimilarity": (nn.CosineSimilarity, (randn(2, 4), randn(2, 4) + 1)),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, (randn(3, 5), torch.tensor([0, 2, 4]))),
}
UPSAMPLE = {"nearest": 4, "bilinear": 4, "bicubic": 4, "area": 4, "linear": 3, "trilinear": 5}
ACTIVATIONS = (
    "ELU",
    "SELU",
    "CELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "PReLU",
    "ReLU6",
    "SiLU",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanhshrink",
)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_equals_eager_torch(name: str) -> None:
    build, inputs = LAYERS[name]
    torch.manual_seed(0)
    assert_parity(build().eval(), inputs)


def test_attention_takes_both_kinds_of_mask() -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    assert_parity(layer, (randn(2, 5, 16),) * 3, kwargs=MASKS)


@pytest.mark.parametrize("mode", UPSAMPLE)
def test_upsampling_equals_eager_torch(mode: str) -> None:
    shape = (1, 2, 3, 4, 5)[: UPSAMPLE[mode]]

    class Upsample(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.interpolate(x, scale_factor=2, mode=mode)

    assert_parity(Upsample(), (randn(*shape),))


def test_bicubic_resampling_is_two_passes_and_equals_eager_torch() -> None:
    class Resample(nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            ways: list[dict[str, Any]] = [
                {"scale_factor": (1.7, 3.0)},
                {"scale_factor": 2.5, "recompute_scale_factor": True},
                {"size": (5, 19), "align_corners": True},
                {"size": (1, 1), "align_corners": True},
                {"size": (30, 4), "antialias": True},
                {"size": (3, 5), "antialias": True, "align_corners": True},
                {"scale_factor": 0.3, "antialias": True},
            ]
            resample = nn.functional.interpolate
            wide = [resample(x, mode="bicubic", **way) for way in ways]
            return [*wide, resample(x.half(), scale_factor=2, mode="bicubic")]

    x = randn(2, 3, 13, 11)
    assert_parity(Resample(), (x,))
    assert_parity(Resample(), (x.to(memory_format=torch.channels_last),))
    exported = torch.export.export(Resample(), (x,))
    calls = [str(node.target) for node in to_edge(exported).exported_program().graph.nodes]
    assert not any("aten.index.Tensor" in call for call in calls)  # which picks single elements


def test_activations_equal_eager_torch() -> None:
    layers = nn.ModuleList(getattr(nn, name)() for name in ACTIVATIONS)

    class All(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [layer(x) for layer in self.layers]

    assert_parity(All().eval(), (randn(3, 6) * 3,))
