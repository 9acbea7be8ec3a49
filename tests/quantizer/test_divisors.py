"""Divisors far below a quantization step are read as floats, so that nothing is divided by 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import fx, nn

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    left_float,
    prepare_pt2e,
)
from executorch_py.testing.sensitivity import sqnr_of

pytestmark = pytest.mark.filterwarnings(  # the squares are small on purpose
    "ignore::executorch_py.quantizer.CalibrationWarning"
)
EPSILON = 5e-5  # below half of the least step, 2 ** -12
X = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
DIVISIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "div": lambda x, square: x / square.sqrt().expand_as(x),
    "div of a mode": lambda x, square: torch.div(x, square, rounding_mode="floor"),
    "reciprocal": lambda x, square: x * square.reciprocal(),
    "rsqrt": lambda x, square: x * torch.rsqrt(square),
    "pow": lambda x, square: x * square.abs().pow(-0.5),
}


class Norm(nn.Module):
    """Inputs over a magnitude of at least `epsilon`, which a layer of integers may read, too."""

    def __init__(self, how: str, epsilon: float = EPSILON, is_read: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.divide, self.epsilon, self.is_read = DIVISIONS[how], epsilon, is_read
        self.layer = nn.Linear(1, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        square = (x * 1e-3).square().mean(-1, keepdim=True) + self.epsilon
        result = self.divide(x, square)
        return result + self.layer(square) if self.is_read else result


def quantized(model: nn.Module) -> fx.GraphModule:
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(model, (X,)).module(), quantizer)
        calibrate(prepared, [X, X.flip(0)], progress=False)
        return convert_pt2e(prepared)


def kinds_of_readers(graph: fx.GraphModule, name: str) -> set[str]:
    (node,) = [n for n in graph.graph.nodes if n.name == name]
    return {str(user.target).split(".")[1] for user in node.users}


@pytest.mark.parametrize("how", DIVISIONS)
def test_a_magnitude_below_a_quantization_step_is_divided_by_as_a_float(how: str) -> None:
    model = Norm(how)
    converted = quantized(model)
    rows = {r.name: r for r in left_float(converted).rows if "divisor of" in r.reason}
    assert set(rows) == {"add", "mean", "_tensor_constant_1"}
    assert rows["add"].operator == "add.Tensor"
    step = "a quantization step of 0.000244 would round numbers of 5.08e-05 to 0"
    assert rows["add"].reason.endswith(step)
    assert "quantize_per_tensor" not in kinds_of_readers(converted, "add")
    with torch.no_grad():
        result, exact = converted(X), model(X)
    assert sqnr_of(result, exact) > 20
    exported = torch.export.export(converted, (X,))
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert program.to_executorch().verify(converted, X).ok


def test_other_readers_of_such_a_divisor_keep_its_integers() -> None:
    readers = kinds_of_readers(quantized(Norm("rsqrt", is_read=True)), "add")
    assert readers == {"rsqrt", "quantize_per_tensor"}


@pytest.mark.parametrize("how", DIVISIONS)
def test_a_divisor_that_no_rounding_makes_zero_is_quantized(how: str) -> None:
    converted = quantized(Norm(how, epsilon=0.5))
    assert kinds_of_readers(converted, "add") == {"quantize_per_tensor"}
    assert not any("divisor of" in r.reason for r in left_float(converted).rows)
