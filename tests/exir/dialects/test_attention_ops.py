"""Decoders whose caches are buffers in panels run on the C runtime as eager torch runs them."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch.export import Dim, export

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.exir.dialects import attention_ops
from executorch_py.runtime import Runtime

CAPACITY, DIM, HEADS, GROUP = 40, 12, 2, 3


class Decoder(torch.nn.Module):
    """One layer of attention over a cache, with half of each head rotated."""

    def __init__(self, kind: str, window: int) -> None:
        super().__init__()
        self.window = window
        shapes = attention_ops.cache_shapes(kind, 1, HEADS, CAPACITY, DIM)
        for name, (shape, dtype) in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))
        self.has_scales = kind == "i8"

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        n = x.size(1)
        start = position.item()
        torch._check(start >= 0)
        if self.window == 0:
            torch._check(start + n <= CAPACITY)
        q, k, v = x.split([GROUP * HEADS, HEADS, HEADS], 2)
        scales = (None, None, None)
        if self.has_scales:
            scales = (self.key_scales, self.key_sums, self.value_scales)
        y = torch.ops.executorch_py.cached_attention(
            q,
            k,
            v,
            cos,
            sin,
            start,
            self.key_cache,
            self.value_cache,
            *scales,
            CAPACITY,
            self.window,
            0.3,
            0.0,
            False,
        )
        return y * 2.0


def inputs(begin: int, end: int) -> tuple[torch.Tensor, ...]:
    made = torch.Generator().manual_seed(1)
    x = torch.randn(1, 60, (GROUP + 2) * HEADS, DIM, generator=made)
    angles = torch.randn(60, DIM // 4, generator=made).repeat(1, 2)
    return x[:, begin:end], angles[begin:end].cos(), angles[begin:end].sin(), torch.tensor(begin)


@pytest.mark.parametrize("window", [0, 9])
@pytest.mark.parametrize("kind", ["f32", "f16", "i8"])
def test_a_decoder_with_caches_in_panels_is_exported_and_runs_step_by_step(
    kind: str, window: int
) -> None:
    model = Decoder(kind, window).eval()
    n = Dim("n", min=1, max=32)
    shapes = ({1: n}, {0: n}, {0: n}, None)
    with torch.no_grad():
        program = export(model, inputs(0, 5), dynamic_shapes=shapes)
        lowered = to_edge(program).to_executorch(ExecutorchBackendConfig(own_operators=True))
    method = Runtime.get().load_program(lowered.buffer).load_method("forward")
    assert "executorch_py::cached_attention.out" in {
        op.name + "." + op.overload for op in lowered.executorch_program.execution_plan[0].operators
    }
    borders = [0, 7, 8, 9, 20, 38] + ([50, 51] if window else [39])
    for begin, end in pairwise(borders):
        given = inputs(begin, end)
        with torch.no_grad():
            wanted = model(*given)
        torch.testing.assert_close(method.execute(given)[0], wanted)
