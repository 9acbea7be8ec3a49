"""Models that change values in place, quantized: no change is lost, and no calibration refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tolerance import assert_near, steps
from torch import nn

from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.quantizer import (
    XNNPACKQuantizer,
    calibrate,
    convert_pt2e,
    get_symmetric_quantization_config,
    left_float,
    prepare_pt2e,
)
from executorch_py.quantizer.annotate import mark, quantize_input, quantize_output
from executorch_py.quantizer.in_place import WHY
from executorch_py.quantizer.spec import QuantizationConfig

STATIC: QuantizationConfig = get_symmetric_quantization_config(is_per_channel=True)
X = torch.randn(1, 3, 5, 5, generator=torch.Generator().manual_seed(0))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)
        self.register_buffer("kept", torch.ones(1, 4, 5, 5))


class AssignedSlice(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y[:, :2] = 3
        return self.last(y)


class AddedSlice(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y[:, :2] += 3
        return self.last(y)


class Transposed(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y.transpose(0, 1).add_(y.transpose(0, 1) * 2)
        return y


class Input(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x.add_(x))


class ReadBefore(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return y.add_(self.last(y)).mul_(y)


class ViewedBefore(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        seen = y.view(1, 4, 25)
        return torch.relu_(y).flatten(2) + seen


class KeptBuffer(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.mul_(self.first(x))
        return self.last(self.kept)


class Returned(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        nn.functional.dropout(y, training=False)[:, :1].mul_(9)
        return self.last(y)


MODELS = [
    AssignedSlice,
    AddedSlice,
    Transposed,
    Input,
    ReadBefore,
    ViewedBefore,
    KeptBuffer,
    Returned,
]
# Models of which nothing else reads the changed memory.
FREE = {ReadBefore}


class WithAnother(nn.Module):
    """A model beside a layer that is quantized in any case."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.model, self.other = model, nn.Conv2d(3, 4, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.model(x), self.other(y)


def prepared(model: nn.Module, *inputs: torch.Tensor) -> Any:
    exported = torch.export.export(model, tuple(x.clone() for x in inputs))
    return prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(STATIC))


def start_again(model: nn.Module) -> None:
    for name, buffer in model.named_buffers():
        if name == "model.kept":
            buffer.fill_(1)


def assert_some_steps_away(found: torch.Tensor, expected: torch.Tensor) -> None:
    """A few steps of int8 apart: several roundings, of values no larger than the result."""
    assert_near(found, expected, steps(8 / 255 * float(expected.detach().abs().max())))


@pytest.mark.parametrize("model", MODELS)
def test_a_change_in_place_is_not_lost(model: type[Layers]) -> None:
    expected = WithAnother(model())(X.clone(), X)
    observed = prepared(WithAnother(model()), X, X)
    for _ in range(2):
        start_again(observed)
        calibrate(observed, [(X.clone(), X)], progress=False)
    reasons = {row.reason for row in left_float(observed).rows}
    assert (WHY in reasons) == (model not in FREE)
    start_again(observed)
    made = convert_pt2e(observed)
    for found, wanted in zip(made(X.clone(), X), expected, strict=True):
        assert_some_steps_away(found, wanted)


class Biased(nn.Module):
    """A sum in place to constants that a buffer indexes, as of positions, of which torchao
    inserts no observer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(7, 4))
        self.register_buffer("places", torch.arange(5))
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = self.table[self.places].transpose(0, 1)
        bias += self.linear(x).transpose(0, 1)
        return bias * 2


def test_a_sum_in_place_to_constants_is_quantized() -> None:
    x = torch.randn(5, 4)
    observed = prepared(Biased(), x)
    calibrate(observed, [(x,), (-x,)], progress=False)
    made = convert_pt2e(observed)
    expected = Biased()(x)
    assert_some_steps_away(made(x), expected)
    program = to_edge_transform_and_lower(torch.export.export(made, (x,))).to_executorch()
    assert program.verify(made, x)


def test_values_with_many_paths_to_constants_are_prepared_at_once() -> None:
    """torchao follows each path from the operand that is changed: here 2 to the power of 60."""

    class Paths(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x
            for _ in range(60):
                y = y + y.abs()
            return y.mul_(0.5)

    assert prepared(Paths(), torch.rand(2, 3) / 2**60)


def test_writes_to_values_with_many_paths_are_converted_at_once() -> None:
    """torchao follows each path from the operand of a copy_ or put_: here 2 to the power of 60."""

    class Paths(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            for _ in range(60):
                y = (y + y.abs()) * 0.5
            y[:, :2].copy_(x[:, 2:])
            return y

    x = torch.randn(5, 4)
    observed = prepared(Paths(), x)
    calibrate(observed, [(x,), (-x,)], progress=False)
    made = convert_pt2e(observed)
    assert torch.ops.aten.copy_.default in {node.target for node in made.graph.nodes}
    assert_some_steps_away(made(x), Paths()(x))


class AddsInPlace:
    """A quantizer without the marks of others: it annotates a buffer that is changed in place."""

    def __init__(self) -> None:
        self.under = XNNPACKQuantizer()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)

    def annotate(self, model: Any) -> Any:
        for node in model.graph.find_nodes(op="call_function", target=torch.ops.aten.mul_.Tensor):
            mark(node)
            for operand in node.all_input_nodes:
                quantize_input(node, operand, STATIC.input_activation)
            quantize_output(node, STATIC.output_activation)
        return model


def test_an_observer_that_the_graph_does_not_call_needs_no_data() -> None:
    exported = torch.export.export(KeptBuffer(), (X,))
    observed = prepare_pt2e(exported.module(), AddsInPlace())
    calibrate(observed, [(X,), (-X,)], progress=False)
    assert convert_pt2e(observed)
