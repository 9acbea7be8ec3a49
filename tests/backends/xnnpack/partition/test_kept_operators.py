"""Operators that the partitioner keeps whole beside others of their kind that it refuses."""

from __future__ import annotations

import torch
from torch import nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower


class TwoAttentions(nn.Module):
    """Attention in float32, which XNNPACK computes, and in float64, with views of both results."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for rows in (x, y):
            heads = rows.view(1, 6, 4, 8).transpose(1, 2)
            mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads)
            found.append(mixed.transpose(1, 2).reshape(1, 6, 32))
        return found


def test_views_of_a_kept_result_whose_layout_changes_become_copies() -> None:
    model, x = TwoAttentions(), torch.randn(1, 6, 32)
    y = x.double()
    exported = torch.export.export(model, (x, y))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    attention = "aten::scaled_dot_product_attention"
    records = edge.delegation_summary().records
    assert [r.delegate is None for r in records if r.operator == attention] == [False]
    assert edge.to_executorch().verify(model, x, y).ok
