"""Random numbers are recognised, and named before the differences that they cause."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from executorch_py.exir import to_edge
from executorch_py.exir.program.executorch import ExecutorchProgramManager
from executorch_py.testing import ParityError
from executorch_py.testing.random_draws import draws_of_model


class Noisy(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "multinomial":
            return torch.multinomial(x.abs(), 2)
        return x + (torch.rand(4) if self.kind == "rand" else torch.randn_like(x))


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


X = torch.arange(1.0, 5.0)


def lowered(model: nn.Module) -> ExecutorchProgramManager:
    with torch.no_grad():
        return to_edge(torch.export.export(model, (X,))).to_executorch()


def second_line(program: ExecutorchProgramManager, model: nn.Module) -> str:
    with pytest.raises(ParityError) as caught:
        program.verify(model, X)
    lines = str(caught.value).splitlines()
    assert len(lines) <= 12 and "Traceback" not in str(caught.value)
    return lines[1]


@pytest.mark.parametrize("kind", ["rand", "randn"])
def test_random_operators_of_the_program_are_named_first(kind: str) -> None:
    model = Noisy(kind)
    line = second_line(lowered(model), model)
    assert line.startswith(f"The program draws random numbers (aten::{kind}")


def test_dropout_in_training_mode_is_named_with_its_module() -> None:
    model = Dropped().eval()
    program = lowered(model)
    assert program.verify(model, X).ok
    line = second_line(program, model.train())
    assert line.startswith("The model draws random numbers in eager torch (aten::")
    assert "dropout in training mode: 'layer.1'" in line and "model.eval()" in line


def test_attention_without_dropout_draws_nothing() -> None:
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(x, x, x)

    assert draws_of_model(Attention(), (torch.randn(1, 2, 8, 16),), {}) == ""
    assert "multinomial" in draws_of_model(Noisy("multinomial"), (X,), {})


def test_the_callers_inputs_are_left_alone() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2.0)

    x = X.clone()
    assert draws_of_model(Writes(), (x,), {}) == ""
    assert torch.equal(x, X)
