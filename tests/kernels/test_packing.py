"""Constant weights are packed by the first run: later runs, of any size, use all of them."""

from __future__ import annotations

import pytest
import torch
from support.tolerance import F32_LAYERS, assert_near

from executorch_py.exir import to_edge
from executorch_py.runtime import Runtime

SIZES = (1, 5, 3, 8, 8)


class Weights(torch.nn.Module):
    """Every way in which a constant becomes panels."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Conv2d(6, 20, 3, padding=1)
        self.grouped = torch.nn.Conv2d(20, 40, (3, 2), groups=4, bias=False)
        self.pointwise = torch.nn.Conv2d(40, 33, 1, stride=2)
        self.depthwise = torch.nn.Conv2d(33, 33, 3, groups=33)
        self.turned = torch.nn.ConvTranspose2d(33, 7, 2, stride=2)
        self.linear = torch.nn.Linear(7, 50)
        self.table = torch.nn.Parameter(torch.randn(2, 50, 9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pointwise(self.grouped(self.dense(x)))
        x = self.linear(self.turned(self.depthwise(x)).permute(0, 2, 3, 1))
        return x.flatten(1, 2).mean(1) @ self.table[0]


class Batched(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Parameter(torch.randn(3, 17, 40) / 6)
        self.right = torch.nn.Parameter(torch.randn(3, 40, 35) / 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(torch.bmm(self.left, x), torch.bmm(x.transpose(1, 2), self.right))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("channels_last", [False, True], ids=["planes", "channels last"])
def test_every_run_equals_eager_whatever_the_size_of_the_first(
    n_threads: int, channels_last: bool
) -> None:
    torch.manual_seed(5)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = Weights().eval()
    example = torch.randn(4, 6, 14, 14).to(memory_format=layout)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    data = to_edge(program).to_executorch().buffer
    method = Runtime.get().load_program(data, n_threads=n_threads).load_method("forward")
    for size in SIZES:
        x = torch.randn(size, 6, 14, 14).to(memory_format=layout)
        assert_near(method.execute([x])[0], model(x), F32_LAYERS)


def test_batched_constants_are_packed_for_every_product() -> None:
    torch.manual_seed(6)
    model = Batched().eval()
    x = torch.randn(3, 40, 40)
    data = to_edge(torch.export.export(model, (x,))).to_executorch().buffer
    method = Runtime.get().load_program(data).load_method("forward")
    for _ in range(2):
        assert_near(method.execute([x])[0], model(x), F32_LAYERS)
        x = torch.randn(3, 40, 40)
