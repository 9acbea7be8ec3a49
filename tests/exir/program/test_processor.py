"""Files do not depend on the exporting machine: here, on whether torch has oneDNN.

Torch decomposes recurrent layers and lays out the results of convolutions by it. Products of int8,
which torchao writes by instruction set, are in tests/exir/decompose/test_torchao_linear.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from executorch_py.exir import to_edge


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.spread = nn.ConvTranspose2d(8, 4, 3, groups=2)
        self.lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)

    def forward(self, image: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.spread(self.conv(image).relu()), self.lstm(words)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_a_file_is_the_same_with_onednn_and_without(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Layers().eval().to(dtype).to(memory_format=torch.channels_last)
    image = torch.randn(2, 4, 7, 7).to(dtype).to(memory_format=torch.channels_last)
    files = []
    for enabled in (True, False):
        with torch.backends.mkldnn.flags(enabled=enabled), torch.no_grad():
            program = torch.export.export(model, (image, torch.randn(2, 5, 8).to(dtype)))
            files.append(to_edge(program).to_executorch().buffer)
    assert files[0] == files[1]
