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


class TimesInverse(nn.Module):
    """Products with matrices whose columns lie one after the other, in memory and by a view."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        inverse = torch.linalg.inv(y)
        return [x @ inverse, x @ (inverse + 1), x @ torch.linalg.inv(y.t()), x @ (y.t() + 1)]


def test_a_product_with_an_inverse_is_decomposed_and_one_with_a_view_is_kept() -> None:
    model, x, y = TimesInverse(), torch.randn(3, 4), torch.eye(4) + 0.1 * torch.randn(4, 4)
    exported = torch.export.export(model, (x, y))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    records = edge.delegation_summary().records
    outside = [r.operator for r in records if r.delegate is None]
    assert "aten::matmul" not in outside
    assert [r.operator for r in records if r.delegate is not None].count("aten::matmul") == 1
    assert edge.to_executorch().verify(model, x, y).ok


def test_a_product_with_an_input_in_another_order_is_decomposed() -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x @ y

    model, x, y = Product(), torch.randn(3, 4), torch.randn(5, 4).t()
    exported = torch.export.export(model, (x, y))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert edge.to_executorch().verify(model, x, y).ok
