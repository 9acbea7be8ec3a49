"""The range of least error of a histogram equals torchao's, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchao.quantization.pt2e import HistogramObserver

from executorch_py.quantizer.observers import WatchedHistogram


def numbers(kind: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return {
        "normal": lambda: [torch.randn(2000), torch.randn(2000) * 2],
        "positive": lambda: [torch.randn(900).relu()],
        "with outliers": lambda: [torch.randn(3000) ** 3, torch.tensor([90.0])],
        "few values": lambda: [torch.randint(0, 3, (50,)).float()],
        "two": lambda: [torch.tensor([0.0, 3.0])],
        "large": lambda: [torch.randn(200) * 1e8],
        "small": lambda: [-torch.rand(200) * 1e-9],
    }[kind]()


@pytest.mark.parametrize(
    "kind", ["normal", "positive", "with outliers", "few values", "two", "large", "small"]
)
def test_it_is_the_range_of_torchaos_search(kind: str) -> None:
    settings: dict[str, Any] = {"dtype": torch.int8, "eps": 2**-12}
    theirs = HistogramObserver(qscheme=torch.per_tensor_affine, **settings)
    ours = WatchedHistogram(qscheme=torch.per_tensor_affine, **settings)
    for x in numbers(kind):
        theirs(x)
        ours(x)
    found, wanted = ours._non_linear_param_search(), theirs._non_linear_param_search()
    assert [float(t) for t in found] == [float(t) for t in wanted]
    if kind == "with outliers":
        assert float(found[1]) < 90
