"""Hand-written models equal eager torch at every size that they allow.

The models are convolutions over time, U-Nets, graphs, caches, loops, experts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

from executorch_py.testing import assert_parity

BATCH = Dim("batch", min=1, max=4)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class WaveNet(nn.Module):
    """Causal dilated convolutions with gates and skips."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(1, 8, 1), nn.Conv1d(8, 4, 1)
        self.dilated = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2**k) for k in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        skips = torch.zeros_like(x)
        for layer in self.dilated:
            a, b = layer(functional.pad(x, (layer.dilation[0], 0))).chunk(2, 1)
            gated = a.tanh() * b.sigmoid()
            skips, x = skips + gated, x + gated
        return self.last(skips.relu())


class UNet(nn.Module):
    """Down, up by transposed convolution and by interpolation, skips between."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (
            nn.Conv2d(i, o, 3, padding=1) for i, o in ((3, 8), (8, 16), (16, 32))
        )
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.d, self.e = nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x).relu()
        b = self.b(functional.max_pool2d(a, 2)).relu()
        c = self.c(functional.max_pool2d(b, 2)).relu()
        d = self.d(torch.cat([self.up(c), b], 1)).relu()
        d = functional.interpolate(d, size=a.shape[-2:], mode="bilinear")
        return self.e(torch.cat([d, a], 1))


class GraphConvolution(nn.Module):
    """Mean over the neighbours of each node, edges as pairs of indices."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        h = self.a(x).relu()
        total = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
        degree = torch.zeros(x.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
        return self.b(total / degree.clamp(min=1)[:, None])


class RingCache(nn.Module):
    """Attention over the last eight keys, kept in a buffer that wraps around."""

    keys: torch.Tensor
    position: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(2, self.position % 8, key)
        self.position += 1
        scores = query @ self.keys.transpose(-1, -2)
        seen = torch.arange(8) < self.position
        return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ self.keys


class Experts(nn.Module):
    """Two of four experts per token, their weights gathered."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(8, 4), nn.Parameter(randn(4, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        each = torch.einsum("btd,btkdh->btkh", x, self.experts[chosen])
        return (functional.silu(each) * weights[..., None]).sum(2)


class Suppression(nn.Module):
    """Greedy non-maximum suppression as a while loop."""

    def forward(self, overlap: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        n = overlap.shape[0]

        def more(i: torch.Tensor, alive: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
            return (i < 6) & alive.any()

        def step(i: torch.Tensor, alive: torch.Tensor, kept: torch.Tensor) -> Any:
            best = torch.where(alive, scores, torch.full_like(scores, -1.0)).argmax()
            one = torch.arange(n) == best
            row = overlap.index_select(0, best[None])[0]
            return i + 1, alive & (row < 0.5) & ~one, kept | one

        none = torch.zeros(n, dtype=torch.bool)
        start = (torch.zeros((), dtype=torch.int64), ~none, none)
        loop: Callable[..., Any] = torch._higher_order_ops.while_loop
        kept: torch.Tensor = loop(more, step, start)[2]
        return kept


class AttentionSeenAsRows(nn.Module):
    """A view of attention's result, which has another layout in torch's decomposition."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = x.view(batch, length, 4, 8).transpose(1, 2)
        shown = mask[:, None, None, :].expand(batch, 4, length, length)
        y = functional.scaled_dot_product_attention(q, q, q, attn_mask=shown)
        return y.transpose(1, 2).reshape(batch, length, -1).view(-1, 32) * 2


SEQUENCE = {0: BATCH, 1: Dim("length", min=2, max=9)}
EDGES = torch.randint(0, 10, (2, 30), generator=torch.Generator().manual_seed(0))
SYMMETRIC = torch.rand(12, 12, generator=torch.Generator().manual_seed(0))
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...], Any]] = {
    "WaveNet": (WaveNet, (randn(1, 1, 32),), ({2: Dim("samples", min=12, max=50)},)),
    "U-Net": (
        UNet,
        (randn(1, 3, 16, 16),),
        ({2: 4 * Dim("rows", min=2, max=6), 3: 4 * Dim("columns", min=2, max=6)},),
    ),
    "graph convolution": (
        GraphConvolution,
        (randn(10, 4), EDGES),
        ({0: Dim("nodes", min=10, max=20)}, {1: Dim("edges", min=2, max=60)}),
    ),
    "ring cache": (RingCache, (randn(1, 2, 1, 4), randn(1, 2, 1, 4) + 1), None),
    "experts": (Experts, (randn(2, 5, 8),), ({1: Dim("tokens", min=2, max=12)},)),
    "suppression": (Suppression, ((SYMMETRIC + SYMMETRIC.T) / 2, SYMMETRIC[0]), None),
    "attention seen as rows": (
        AttentionSeenAsRows,
        (randn(2, 7, 32), torch.ones(2, 7).bool()),
        (SEQUENCE, SEQUENCE),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_hand_written_model_equals_eager_torch(name: str) -> None:
    build, inputs, dynamic_shapes = CASES[name]
    torch.manual_seed(0)
    assert_parity(build().eval(), inputs, dynamic_shapes=dynamic_shapes)
