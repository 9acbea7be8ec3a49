"""With own operators, x / √(mean of x² + eps) and its weight are one call; what only looks like it
is left as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.tolerance import F32_GROUPWISE, assert_near
from torch import nn
from torch.export import Dim

from executorch_py.exir import ExecutorchBackendConfig, to_edge

OWN = ExecutorchBackendConfig(own_operators=True)
EPS = 1e-5


class Weighted(nn.Module):
    """A function of the input and a weight."""

    def __init__(self, body: Callable[..., torch.Tensor], *sizes: int) -> None:
        super().__init__()
        self.body = body
        g = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter(torch.randn(sizes or (16,), generator=g))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x, self.weight)


def scale(x: torch.Tensor) -> torch.Tensor:
    return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)


def llama(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.float32)
    wide = wide * scale(wide)
    return weight * wide.to(x.dtype)


def gemma(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    normalized = x.float() * scale(x.float())
    return (normalized * (1.0 + weight.float())).type_as(x)


def products(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.rsqrt((x * x).mean(dim=x.dim() - 1, keepdim=True) + EPS) * x * weight


def by_eager(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (16,), weight, EPS)


def without_weight(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * scale(x) + weight


def names(program: Any) -> list[str]:
    return [op.name for op in program.executorch_program.execution_plan[0].operators]


def lowered(model: nn.Module, x: torch.Tensor) -> list[str]:
    """Operators of a program for any number of rows, whose results are eager's."""
    with torch.no_grad():
        shapes = ({0: Dim("rows", max=8)},)
        program = to_edge(torch.export.export(model, (x,), dynamic_shapes=shapes))
    own = program.to_executorch(OWN)
    for rows in (1, 5):
        assert_near(own.run(x[:rows]), model(x[:rows]), F32_GROUPWISE)
    assert not any("rms_norm" in name for name in names(program.to_executorch()))
    return names(own)


@pytest.mark.parametrize("body", [llama, gemma, products, by_eager, without_weight])
def test_a_norm_is_one_call(body: Callable[..., torch.Tensor]) -> None:
    found = lowered(Weighted(body), torch.randn(5, 3, 16))
    assert "executorch_py::rms_norm" in found
    assert not {"aten::rsqrt", "aten::mean", "aten::pow"} & set(found)


def over_all(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean((1, 2), keepdim=True) + EPS) * weight


def cubes(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + EPS) * weight


def of_another(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x + 1) * scale(x) * weight


def halves(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x.half() * scale(x.half())).float() * weight


@pytest.mark.parametrize("body", [over_all, cubes, of_another])
def test_what_only_looks_like_a_norm_is_kept(body: Callable[..., torch.Tensor]) -> None:
    assert "executorch_py::rms_norm" not in lowered(Weighted(body), torch.randn(5, 3, 16))


def test_a_norm_of_halves_is_kept() -> None:
    program = to_edge(torch.export.export(Weighted(halves), (torch.randn(5, 3, 16),)))
    assert "executorch_py::rms_norm" not in names(program.to_executorch(OWN))


def test_a_weight_of_another_shape_is_multiplied_afterwards() -> None:
    found = lowered(Weighted(llama, 3, 16), torch.randn(5, 3, 16))
    assert "executorch_py::rms_norm" in found
