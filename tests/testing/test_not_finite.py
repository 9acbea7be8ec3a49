"""NaN and infinite values are counted, and the node that makes the first is named before all else.

The division of quantized zeros is that of a norm whose magnitudes are below a quantization step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - the operators of Normed

from executorch_py.exir import to_edge
from executorch_py.testing import ParityError, assert_parity


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


class Normed(nn.Module):
    """Numbers over their magnitude, which is quantized with a step too large for it."""

    def __init__(self, is_last: bool) -> None:
        super().__init__()
        self.is_last = is_last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        library, numbers = torch.ops.quantized_decomposed, (0.25, 0, -128, 127, torch.int8)
        square = library.quantize_per_tensor(x * x, *numbers)
        magnitude = library.dequantize_per_tensor(square, *numbers).sqrt()
        quotient = x.round() / magnitude
        if self.is_last:
            return quotient
        return library.dequantize_per_tensor(
            library.quantize_per_tensor(quotient, *numbers), *numbers
        )


X = torch.tensor([0.0, 1.0, 2.0, 0.25])
BY_ZERO = "makes the first, in 2 of 4 elements; at [0] it divides 0 by 0"


def failure(exported: Callable[..., Any], model: Callable[..., Any], **how: Any) -> list[str]:
    """The lines about a file of one function that is compared with another."""
    with torch.no_grad():
        program = to_edge(torch.export.export(Calls(exported), (X.clone(),))).to_executorch()
    with pytest.raises(ParityError) as caught:
        program.verify(Calls(model), X, **how)
    return str(caught.value).splitlines()[1:]


@pytest.mark.parametrize("how", [{}, {"atol": 0.1}], ids=["rules", "given tolerance"])
def test_nan_of_eager_torch_alone_is_named_before_the_difference(how: dict[str, float]) -> None:
    count, origin, difference, *_ = failure(lambda x: x * 0, lambda x: x.sign() / x.sign(), **how)
    assert count == (
        "output 0: 1 of 4 elements are NaN in eager torch, 0 in the program (at the given sizes)"
    )
    assert origin == (
        "the model has NaN values in eager torch: 'div' (aten::div.Tensor) makes the first, in 1 of"
        " 4 elements; at [0] it divides 0 by 0"
    )
    assert "4 of 4 elements differ" in difference


def test_nan_of_the_program_alone_is_counted() -> None:
    count, difference, *_ = failure(lambda x: x / x, lambda x: x * 0 + 1)
    assert count.startswith("output 0: 0 of 4 elements are NaN in eager torch, 1 in the program (")
    assert "1 of 4 elements differ" in difference


def test_places_of_nan_that_differ_are_not_the_same_count() -> None:
    count, *_ = failure(lambda x: (x - x) / (x - 1), lambda x: (x - x) / (x - 2))
    assert "1 of 4 elements are NaN in eager torch, 1 in the program, 0 in both" in count


def test_nan_in_both_passes_and_is_reported_with_its_origin() -> None:
    report = assert_parity(Calls(lambda x: x.log() * 0), (X,))
    assert report.ok
    count, origin, last = str(report).splitlines()
    assert count.startswith("output 0: 1 of 4 elements are NaN in eager torch and in the program")
    assert "'mul' (aten::mul.Tensor) makes the first, in 1 of 4 elements; at [0] it " in origin
    assert origin.endswith(
        "computes aten::mul.Tensor(-inf, 0); infinite values come from 'log' (aten::log); at [0] "
        "it computes aten::log(0)"
    )
    assert last.endswith("ok by tolerance")


def test_nan_of_an_input_is_named_as_such() -> None:
    report = assert_parity(Calls(lambda x: x * 2), (X.log().log(),))
    assert "'args_0' (placeholder) has them, in 2 of 4 elements" in str(report)


def test_infinite_masks_in_both_are_counted_alone() -> None:
    report = assert_parity(Calls(lambda x: x.masked_fill(x > 1, -torch.inf)), (X,))
    count, last = str(report).splitlines()
    assert "1 of 4 elements are infinite in eager torch and in the program" in count
    assert last.endswith("ok by tolerance")


def test_nan_that_a_call_wrote_in_place_is_named_after_that_call() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        rows = y.view(2, 2)
        y.div_(x)
        return rows + 1

    _, origin, *_ = failure(lambda x: (x * 0).view(2, 2), writes)
    assert "'div_' (aten::div_.Tensor) makes the first, in 1 of 4 elements" in origin


def test_nan_that_becomes_an_integer_is_named_with_both_operators() -> None:
    origin, cast, difference, *_ = failure(
        lambda x: (x * 0).to(torch.int32), lambda x: (x / x).to(torch.int32)
    )
    assert "'div' (aten::div.Tensor) makes the first, in 1 of 4 elements" in origin
    assert cast.startswith("'to' (aten::to.dtype) turns NaN into integers, for which no result is")
    assert "elements differ" in difference


def test_quantized_zeros_that_are_divided_are_named_as_such() -> None:
    with torch.no_grad():
        exported = torch.export.export(Normed(is_last=True), (X,))
    report = to_edge(exported).to_executorch().verify(Normed(is_last=True), X)
    _, origin, *_ = str(report).splitlines()
    assert origin == (
        f"the quantized graph has NaN values in eager torch: 'div' (aten::div.Tensor) {BY_ZERO}"
    )


def test_integers_of_nan_in_a_quantized_graph_are_named_before_the_difference() -> None:
    class Shifted(Normed):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    with torch.no_grad():
        exported = torch.export.export(Normed(is_last=False), (X,))
    program = to_edge(exported).to_executorch()
    with pytest.raises(ParityError) as caught:
        program.verify(Shifted(is_last=False), X)
    _, origin, cast, *_ = str(caught.value).splitlines()
    assert origin.startswith("the quantized graph has NaN values in eager torch: 'div' (")
    assert BY_ZERO in origin
    assert cast.startswith("'quantize_per_tensor_1' (quantized_decomposed::quantize_per_tensor) ")
