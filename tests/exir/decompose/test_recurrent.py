"""Recurrent layers are loops over time: they equal eager and do not grow with the sequence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.exir import ExecutorchProgramManager, to_edge
from executorch_py.runtime import Runtime

LAYERS = {
    "lstm": lambda: nn.LSTM(6, 8),
    "lstm without biases": lambda: nn.LSTM(6, 8, bias=False),
    "lstm both ways, two layers": lambda: nn.LSTM(6, 8, num_layers=2, bidirectional=True),
    "lstm with projections": lambda: nn.LSTM(6, 8, proj_size=3, num_layers=2, batch_first=True),
    "lstm in f64": lambda: nn.LSTM(6, 8, dtype=torch.float64),
    "gru": lambda: nn.GRU(6, 8),
    "gru both ways, batch first": lambda: nn.GRU(6, 8, bidirectional=True, batch_first=True),
    "gru without biases": lambda: nn.GRU(6, 8, bias=False, num_layers=2),
    "rnn": lambda: nn.RNN(6, 8),
    "rnn with relu, both ways": lambda: nn.RNN(6, 8, nonlinearity="relu", bidirectional=True),
}


def lowered(layer: nn.Module, inputs: tuple[Any, ...]) -> ExecutorchProgramManager:
    return to_edge(torch.export.export(layer, inputs)).to_executorch()


def instructions(program: ExecutorchProgramManager) -> int:
    (plan,) = program.executorch_program.execution_plan
    return len(plan.chains[0].instructions)


def sequence(layer: nn.Module, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    dtype = next(layer.parameters()).dtype
    return torch.randn(*shape, generator=generator, dtype=dtype)


@pytest.mark.parametrize("name", LAYERS)
def test_a_recurrent_layer_equals_eager_torch(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]().eval()
    for shape in ((5, 3, 6), (1, 2, 6), (4, 6)):  # steps and batch, one of them 1, no batch
        x = sequence(layer, *shape)
        lowered(layer, (x,)).verify(layer, x)


def test_a_given_state_is_carried_through_the_loop() -> None:
    torch.manual_seed(0)
    lstm, gru = nn.LSTM(6, 8, proj_size=3).eval(), nn.GRU(6, 8).eval()
    x = sequence(lstm, 4, 2, 6)
    state = (sequence(lstm, 1, 2, 3), sequence(lstm, 1, 2, 8))
    lowered(lstm, (x, state)).verify(lstm, x, state)
    lowered(gru, (x, state[1])).verify(gru, x, state[1])


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda m: m.__name__)
def test_a_file_does_not_grow_with_the_sequence(make: Any) -> None:
    layer = make(6, 8).eval()
    short, long = (lowered(layer, (sequence(layer, n, 2, 6),)) for n in (3, 24))
    assert instructions(short) == instructions(long)
    assert abs(len(long.buffer) - len(short.buffer)) < 200


def test_a_program_that_torch_decomposed_stays_unrolled() -> None:
    layer = nn.GRU(6, 8).eval()
    x = sequence(layer, 4, 2, 6)
    exported = torch.export.export(layer, (x,)).run_decompositions()
    program = to_edge(exported).to_executorch()
    program.verify(layer, x)
    assert instructions(program) > instructions(lowered(layer, (x,)))


def test_dropout_between_layers_is_nothing_in_evaluation() -> None:
    layer = nn.LSTM(6, 8, num_layers=2, dropout=0.5).eval()
    x = sequence(layer, 3, 2, 6)
    lowered(layer, (x,)).verify(layer, x)


def test_dropout_between_layers_draws_anew_in_training_and_the_same_from_one_seed() -> None:
    layer = nn.GRU(6, 8, num_layers=2, dropout=0.5).train()
    x = sequence(layer, 3, 2, 6)
    with pytest.warns(UserWarning, match="dropout"):
        program = lowered(layer, (x,))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    first, second = (method.execute((x,))[0] for _ in range(2))
    assert first.shape == layer(x)[0].shape
    assert not torch.equal(first, second)
    method.seed(0)
    assert torch.equal(method.execute((x,))[0], first)
