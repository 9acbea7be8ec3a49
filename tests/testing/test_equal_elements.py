"""Verification of files whose equal elements are in another order than eager torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.amplifying_networks import lowered, quantized, randn
from torch import nn

from executorch_py.quantizer import get_symmetric_quantization_config
from executorch_py.testing import ParityError
from executorch_py.testing.equal_elements import in_stable_order


class Best(nn.Module):
    """The places of the largest elements, most of which are 0."""

    def __init__(self, is_turned: bool = False) -> None:
        super().__init__()
        self.is_turned = is_turned

    def forward(self, x: torch.Tensor) -> Any:
        y = x.flip(-1).relu() if self.is_turned else x.relu()
        return *torch.topk(y, 3), torch.sort(y).indices, torch.kthvalue(y, 50).indices


class Routed(nn.Module):
    """Rows with the weights of the expert whose score, of few different ones, is best."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 64)
        nn.init.normal_(self.router.weight, std=1e-3)
        nn.init.zeros_(self.router.bias)
        with torch.no_grad():
            self.router.bias[0] = 8.0  # the scale is large, so that scores below are equal
        self.experts = nn.Parameter(torch.randn(64, 32))
        self.head = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.router(x).topk(4).indices
        return self.head((x.unsqueeze(1) * self.experts[chosen]).sum(1))


@pytest.mark.parametrize("lowering", ["portable", "xnnpack"])
def test_places_of_equal_elements_in_another_order_pass(lowering: str) -> None:
    model, x = Best(), -torch.rand(2, 100)
    assert model(x)[1].tolist() != [[0, 1, 2]] * 2, "eager torch has the runtime's order"
    report = lowered(model, [x], lowering).verify(model, x)
    assert report.ok and "lockstep" in {c.rule for c in report.comparisons}


def test_places_of_other_elements_are_found() -> None:
    x = torch.cat([-torch.rand(2, 99), torch.ones(2, 1)], 1)
    with pytest.raises(ParityError, match=r"output 1 at the given sizes: .* elements differ"):
        lowered(Best(), [x], "portable").verify(Best(is_turned=True), x)


def test_a_quantized_router_may_take_another_of_equal_experts() -> None:
    x = randn(16, 32)
    model = quantized((Routed, (x,)), get_symmetric_quantization_config())
    report = lowered(model, [x], "xnnpack").verify(model, x)
    assert [c.rule for c in report.comparisons] == ["rounding"]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("sort.default", ()),
        ("sort.default", (0, True)),
        ("argsort.default", (1,)),
        ("topk.default", (2, 1, False)),
        ("topk.default", (2, 0)),
        ("kthvalue.default", (2, 1, True)),
        ("kthvalue.default", (1, 0)),
    ],
)
def test_elements_that_differ_are_as_in_eager_torch(name: str, args: tuple[Any, ...]) -> None:
    packet, overload = name.split(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    for x in (randn(3, 5), torch.tensor([[1.0, torch.nan, 3.0], [torch.inf, 0.0, -torch.inf]])):
        for found, wanted in zip(
            in_stable_order(operator)(x, *args), operator(x, *args), strict=True
        ):
            assert torch.equal(found.nan_to_num(), wanted.nan_to_num())
