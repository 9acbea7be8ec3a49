"""A product of which only parts are used becomes a product for each part, with the same bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from executorch_py.extension.llm.export.quantized_linear import PackedRows, QuantizedLinear
from executorch_py.extension.llm.export.split_products import split_products

PRODUCT = torch.ops.executorch_py.qlinear_groups.default
Use = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


class Parts(torch.nn.Module):
    """A product with a bias, and what is made of its columns."""

    def __init__(self, columns: int, use: Use, bits: int = 4) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        packed = PackedRows.quantized(torch.randn(columns, 64, generator=random), 32, bits)
        self.product = QuantizedLinear(packed, torch.randn(columns, generator=random))
        self.use = use

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.use(self.product(x))


def split(model: Parts) -> tuple[list[int], tuple[torch.Tensor, ...]]:
    """Columns of the products after the split, and the results."""
    x = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(1))
    exported = torch.export.export(model, (x,))
    split_products(exported.graph_module)
    found = exported.graph.find_nodes(op="call_function", target=PRODUCT)
    assert [node.meta["val"].shape[-1] for node in found] == [node.args[10] for node in found]
    results = exported.module()(x)
    for result, wanted in zip(results, model(x), strict=True):
        assert torch.equal(result, wanted)
    return [node.args[10] for node in found], results


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("columns", "use", "widths"),
    [
        (96, lambda y: (y[..., :64], y[..., 64:80], y[..., 80:]), [64, 16, 16]),
        (96, lambda y: tuple(t * 2 for t in y.chunk(2, -1)), [48, 48]),
        (70, lambda y: (y[..., 32:], y[..., :32]), [38, 32]),
        (64, lambda y: tuple(t + 1 for t in y.split([16, 48], dim=2)), [16, 48]),
        (64, lambda y: (y.split(16, -1)[2] + 1,), [16]),
        (64, lambda y: (y[..., -16:],), [16]),
        (64, lambda y: (y[..., :48], y[..., 16:]), [48, 48]),
    ],
    ids=["slices", "chunk", "last panel is not full", "sizes", "one of four", "end", "overlap"],
)
def test_parts_of_whole_panels_are_products(
    columns: int, use: Use, widths: list[int], bits: int
) -> None:
    found, _ = split(Parts(columns, use, bits))
    assert sorted(found) == sorted(widths)


@pytest.mark.parametrize(
    "use",
    [
        lambda y: (y[..., :24], y[..., 24:]),
        lambda y: (y[..., :32], y),
        lambda y: (y[..., ::2],),
        lambda y: (y[:, :1],),
        lambda y: tuple(t + 1 for t in y.chunk(2, 1)),
        lambda y: (y[..., 64:] + 1, y[..., :64] + 1),
    ],
    ids=["half a panel", "all", "steps", "rows", "chunks of rows", "nothing"],
)
def test_other_parts_stay_parts_of_one_product(use: Use) -> None:
    found, _ = split(Parts(64, use))
    assert found == [64]
