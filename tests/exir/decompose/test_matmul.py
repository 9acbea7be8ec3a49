"""Batched products with one matrix become products of two matrices, in any memory layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from executorch_py.exir import to_edge
from executorch_py.exir.ir.op_traits import op_key


def operators(model: nn.Module, *inputs: torch.Tensor) -> set[str]:
    """Names of the edge operators, after the bytes proved equal to eager torch."""
    with torch.no_grad():
        edge = to_edge(export(model, inputs))
    edge.to_executorch().verify(model, *inputs)
    calls = edge.exported_program().graph.nodes
    return {op_key(node.target) for node in calls if node.op == "call_function"}


class Product(nn.Module):
    def __init__(self, how: Callable[..., torch.Tensor], *shape: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.how, self.matrix = how, nn.Parameter(torch.randn(*shape, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.how(x, self.matrix)


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return nn.functional.linear(x.transpose(0, 1), weight, weight[:, 0])


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        (linear, (9, 8)),
        (lambda x, m: nn.functional.linear(x.transpose(0, 1), m), (9, 8)),
        (lambda x, m: x.transpose(0, 1) @ m, (8, 9)),
        (lambda x, m: m @ x[:, :, :2], (70, 7)),  # the matrix is larger than what it multiplies
    ],
    ids=["linear", "linear without bias", "matmul", "matrix first"],
)
def test_a_matrix_is_multiplied_once_for_all_batches(
    how: Callable[..., torch.Tensor], shape: tuple[int, ...]
) -> None:
    found = operators(Product(how, *shape), torch.randn(5, 7, 8))
    assert found & {"aten::mm", "aten::addmm"}
    assert not found & {"aten::bmm", "aten::expand_copy"}


def test_products_of_every_rank_equal_eager_torch() -> None:
    class Ranks(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
            *many, vector, matrix = inputs
            results = [x @ m for x in many for m in (vector, matrix)]
            results += [nn.functional.linear(x, m.t()) for x in many for m in (vector, matrix)]
            return [*results, *(matrix.t() @ x.mT for x in many if x.ndim > 1)]

    shapes = ((8,), (2, 8), (0, 2, 8), (2, 3, 4, 8), (8,), (8, 3))
    operators(Ranks(), *(torch.randn(*shape) for shape in shapes))


def test_a_transformer_encoder_multiplies_rows_at_any_batch_and_length() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    x = torch.randn(3, 5, 16)
    sizes = {0: Dim("batch", min=2, max=4), 1: Dim("length", min=2, max=9)}
    with torch.no_grad():
        edge = to_edge(export(model, (x,), dynamic_shapes=(sizes,)))
    calls = [op_key(n.target) for n in edge.exported_program().graph.nodes]
    assert calls.count("aten::bmm") == 2  # scores and values
    assert len(edge.to_executorch().verify(model, x).comparisons) > 4
