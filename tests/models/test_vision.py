"""torchvision's models on the C runtime equal eager torch.

Images are small if the architecture allows it; every kind of layer is still tested.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from executorch_py.exir import to_edge
from executorch_py.testing import ParityError, assert_parity
from models.vision import build, torchvision_models

MODELS = {
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "resnet18": 64,
    "squeezenet1_1": 64,
    "shufflenet_v2_x0_5": 64,
    "densenet121": 64,
    "efficientnet_b0": 64,
    "regnet_y_400mf": 64,
    "mnasnet0_5": 64,
    "swin_t": 64,
}


def picture(size: int, batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", MODELS)
def test_a_vision_model_equals_eager_torch(name: str) -> None:
    assert_parity(build(name), (picture(MODELS[name]),))


def test_a_deep_random_network_verifies_as_it_is_and_fails_with_another_weight() -> None:
    torch.manual_seed(0)
    # Fifty layers with torchvision's initial statistics lose most of their digits.
    model, x = torchvision_models().resnet50(weights=None).eval(), picture(64)
    with torch.no_grad():
        program = to_edge(torch.export.export(model, (x,))).to_executorch()
    assert program.verify(model, x).ok
    with torch.no_grad():
        model.layer4[2].conv2.weight[5, 7] *= 1.01
    with pytest.raises(ParityError, match="elements differ"):
        program.verify(model, x)


def test_a_vision_transformer_equals_eager_torch() -> None:
    model = build("vit_b_16", image_size=32)
    torch.nn.init.xavier_uniform_(model.heads.head.weight)  # all zeros until it is trained
    assert_parity(model, (picture(32),))


def test_batch_and_picture_size_may_vary_together() -> None:
    dims = {
        0: Dim("batch", min=1, max=3),
        2: 32 * Dim("rows", min=1, max=3),
        3: 32 * Dim("columns", min=1, max=3),
    }
    report = assert_parity(
        build("mobilenet_v2"), (picture(64, batch=2),), dynamic_shapes={"x": dims}
    )
    assert len(report.comparisons) > 4


def test_channels_last_pictures_and_weights_give_the_same_numbers() -> None:
    model = build("mobilenet_v2").to(memory_format=torch.channels_last)
    assert_parity(model, (picture(64).to(memory_format=torch.channels_last),))


def test_channels_last_volumes_and_weights_give_the_same_numbers() -> None:
    class Volume(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv3d(3, 5, 3, padding=1)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            last = x.contiguous(memory_format=torch.channels_last_3d)
            features = self.convolution(x).relu()
            larger = nn.functional.interpolate(last, size=(5, 6, 7))
            return [nn.functional.max_pool3d(features, 2), larger, last * 2, x.double()]

    model = Volume().to(memory_format=torch.channels_last_3d)
    volume = torch.randn(2, 3, 4, 5, 6)
    for x in (volume, volume.to(memory_format=torch.channels_last_3d)):
        assert_parity(model, (x,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_model_runs_in_another_precision(dtype: torch.dtype) -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 8),
        torch.nn.LayerNorm(8),
        torch.nn.Softmax(-1),
    )
    assert_parity(model.to(dtype).eval(), (picture(8).to(dtype),))
