"""Convolutions to a few pixels: XNNPACK chooses kernels of one row for some of them."""

from __future__ import annotations

import pytest
import torch
from support.tolerance import F32_LAYERS, assert_near
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.runtime import Runtime


@pytest.mark.parametrize("channels", [1, 2, 16, 17, 33])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_every_pixel_of_a_small_result_is_that_of_eager_torch(channels: int, batch: int) -> None:
    torch.manual_seed(channels)
    model = nn.Conv2d(2, channels, 3, padding=1).eval()
    given = torch.randn(batch, 2, 3, 20)
    width = torch.export.Dim("width", min=1, max=20)
    exported = torch.export.export(model, (given,), dynamic_shapes=({3: width},))
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    loaded = Runtime.get().load_program(program.to_executorch().buffer, n_threads=2)
    method = loaded.load_method("forward")
    for n in [*range(1, 12), 20]:
        x = torch.randn(batch, 2, 3, n)
        (y,) = method.execute([x])
        assert_near(torch.as_tensor(y), model(x).detach(), F32_LAYERS)


@pytest.mark.parametrize("length", range(2, 20))
def test_every_element_of_a_short_line_is_that_of_eager_torch(length: int) -> None:
    torch.manual_seed(length)
    model, x = nn.Conv1d(2, 1, 3, 2, 1).eval(), torch.randn(1, 2, length)
    exported = torch.export.export(model, (x,))
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    program.to_executorch().verify(model, x)
