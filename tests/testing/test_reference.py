"""A model in float64 computes in float64 throughout, also in tensors that it makes or casts."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from support.tolerance import F64_OVER_F32, assert_near
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - the operators of Rounds

from executorch_py.testing.reference import NoReference, as_exported, first_line, in_float64

X = torch.tensor([0.1, 0.2, 0.3])
N = torch.tensor([1, 2, 3])


class Keeps(nn.Module):
    """A module with a buffer, and a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([0.1]))
        self.plain = torch.tensor([0.1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.plain

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale


FUNCTIONS: dict[str, Any] = {
    "a cast to float32": lambda x: x.float() / 3,
    "a cast by name": lambda x: x.to(dtype=torch.float32) / 3,
    "a cast to half": lambda x: x.half() / 3,
    "a tensor made as float32": lambda x: torch.full((3,), 1 / 3, dtype=torch.float32) * x,
    "a literal": lambda x: x * torch.tensor(1 / 3),
    "integers divided": lambda x: N / 3,
    "integers made floating": lambda x: N.float() / 3,
    "a softmax in float32": lambda x: torch.softmax(x, 0, dtype=torch.float32),
    "a complex product": lambda x: torch.view_as_real(torch.polar(x, x) * torch.polar(x, x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_computed_in_double_precision(name: str) -> None:
    function = FUNCTIONS[name]
    (found,) = in_float64(function, (X,), {})
    assert found.dtype == torch.float64
    with torch.no_grad():
        narrow = function(X)
    # Near the narrow result, and not merely its digits.
    assert_near(found.float(), narrow.float(), F64_OVER_F32)
    assert not torch.equal(found, found.float().double())


def test_modules_and_their_methods_are_widened() -> None:
    model = Keeps()
    for function in (model, model.encode):
        (found,) = in_float64(function, (X,), {})
        assert found.dtype == torch.float64
    assert model.scale.dtype == torch.float32


def test_state_changes_in_a_copy() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            return x + self.n

    model = Counts()
    for how in (as_exported, in_float64):
        (found,) = how(model, (X,), {})
        torch.testing.assert_close(found.float(), X + 1)
    assert model.n.item() == 0


def test_writes_that_would_get_lost_are_refused() -> None:
    held = torch.zeros(3)
    with pytest.raises(
        NoReference, match=r"aten.add_.Tensor: expected .*, got a torch.float32 tensor"
    ):
        in_float64(lambda x: held.add_(x), (X,), {})


def test_reading_the_bits_of_a_number_is_refused() -> None:
    with pytest.raises(NoReference, match=r"^[A-Z][A-Za-z]*Error: "):
        in_float64(lambda x: x.view(torch.int32) + torch.ones(3, dtype=torch.int32), (X,), {})
    assert torch.get_default_dtype() == torch.float32


def test_a_graph_is_copied_without_a_warning_of_torchs_own() -> None:
    graph = torch.export.export(nn.Linear(2, 2), (torch.randn(1, 2),)).module()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_exported(graph, (torch.randn(1, 2),), {})
        in_float64(graph, (torch.randn(1, 2),), {})


def test_a_graph_that_is_not_run_in_float64_prints_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Rounds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            numbers = (0.25, 3, -128, 127, torch.int8)
            return torch.ops.quantized_decomposed.quantize_per_tensor(x, *numbers)

    graph = torch.export.export(Rounds(), (X,)).module()
    with pytest.raises(NoReference, match="float64"):
        in_float64(graph, (X,), {})
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("sizes differ\n\nWhile executing %add\nOriginal traceback:\nNone", "sizes differ"),
        ("\n  Traceback (most recent call last):\n  File x\nValueError: no", "ValueError: no"),
        ("", "RuntimeError"),
    ],
)
def test_messages_have_no_traceback(message: str, line: str) -> None:
    assert first_line(RuntimeError(message)) == line
