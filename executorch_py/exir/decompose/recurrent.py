"""Decompositions of LSTM, GRU and RNN into loops, so that a file does not grow with the sequence.

Torch's own decomposition repeats the cell for every step. Here the inputs of all steps are
multiplied at once, and the rest is a scan over the cell, in eager torch's order of arithmetic.
Backends without loops get one copy of the cell per step. Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op

_aten = torch.ops.aten

# A step of the layer: (state, the step's share of the input, constant weights) → the next state,
# whose first part is the output.
Cell = Callable[..., list[Tensor]]
# All steps of the layer: (cell, shares of the input [time, batch, size] in order of time, state,
# constant weights, whether time runs backwards) → outputs in order of time, last state.
Steps = Callable[[Cell, Tensor, list[Tensor], list[Tensor], bool], tuple[Tensor, list[Tensor]]]


@dataclass(frozen=True)
class _Weights:
    """Transposed weights of one layer and direction; biases and projection may be missing."""

    inner: Tensor
    hidden: Tensor
    inner_bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None

    def constants(self) -> list[Tensor]:
        return [t for t in (self.hidden, self.hidden_bias, self.projection) if t is not None]


def _weights_of(params: Sequence[Tensor], has_biases: bool) -> _Weights:
    inner, hidden, *rest = params
    inner_bias, hidden_bias = rest[:2] if has_biases else (None, None)
    projection = rest[-1].t() if len(rest) in (1, 3) else None
    return _Weights(inner.t(), hidden.t(), inner_bias, hidden_bias, projection)


def _product(bias: Tensor | None, x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(x, weight) if bias is None else torch.addmm(bias, x, weight)


def _unpack(constants: Sequence[Tensor], has_biases: bool) -> tuple[Tensor, Any, Any]:
    """Hidden weights, their bias and the projection, of _Weights.constants()."""
    hidden, *rest = constants
    bias = rest.pop(0) if has_biases else None
    return hidden, bias, rest[0] if rest else None


def _lstm_cell(has_biases: bool) -> Cell:
    def step(h: Tensor, c: Tensor, inner: Tensor, *constants: Tensor) -> list[Tensor]:
        weight, bias, projection = _unpack(constants, has_biases)
        keep, forget, new, out = (inner + _product(bias, h, weight)).chunk(4, 1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(keep) * torch.tanh(new)
        h = torch.sigmoid(out) * torch.tanh(c)
        return [h if projection is None else torch.mm(h, projection), c]

    return step


def _lstm_cell_of_fewer_calls(has_biases: bool) -> Cell:
    """An LSTM cell with one sigmoid of all gates; a quarter of its results is unused."""

    def step(h: Tensor, c: Tensor, inner: Tensor, *constants: Tensor) -> list[Tensor]:
        weight, bias, projection = _unpack(constants, has_biases)
        gates = inner + _product(bias, h, weight)
        new = gates.chunk(4, 1)[2]
        keep, forget, _, out = torch.sigmoid(gates).chunk(4, 1)
        c = forget * c + keep * torch.tanh(new)
        h = out * torch.tanh(c)
        return [h if projection is None else torch.mm(h, projection), c]

    return step


def _gru_cell(has_biases: bool) -> Cell:
    def step(h: Tensor, inner: Tensor, *constants: Tensor) -> list[Tensor]:
        weight, bias, _ = _unpack(constants, has_biases)
        inner_reset, inner_update, inner_new = inner.chunk(3, 1)
        reset, update, new = _product(bias, h, weight).chunk(3, 1)
        reset = torch.sigmoid(inner_reset + reset)
        update = torch.sigmoid(inner_update + update)
        new = torch.tanh(inner_new + reset * new)
        return [(h - new) * update + new]

    return step


def _rnn_cell(activation: Callable[[Tensor], Tensor]) -> Callable[[bool], Cell]:
    def cell(has_biases: bool) -> Cell:
        def step(h: Tensor, inner: Tensor, *constants: Tensor) -> list[Tensor]:
            weight, bias, _ = _unpack(constants, has_biases)
            return [activation(inner + _product(bias, h, weight))]

        return step

    return cell


def _scan(
    cell: Cell, inner: Tensor, state: list[Tensor], constants: list[Tensor], reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """All steps as a scan; a single step needs none."""
    if reverse:
        inner = inner.flip(0)

    def with_output(*operands: Tensor) -> list[Tensor]:
        after = cell(*operands)
        return [*after, after[0].clone()]

    if isinstance(inner.shape[0], int) and inner.shape[0] == 1:
        last = cell(*state, inner[0], *constants)
        return last[0].unsqueeze(0), last
    *last, outputs = scan_op(with_output, state, [inner], tuple(constants))
    return outputs.flip(0) if reverse else outputs, last


def _unroll(
    cell: Cell, inner: Tensor, state: list[Tensor], constants: list[Tensor], reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """The cell for each of a known number of steps."""
    steps, batch, size = inner.shape
    if isinstance(batch, int):
        parts = inner.reshape(steps * batch, size).split(batch)
    else:
        parts = inner.unbind(0)
    outputs = []
    for part in reversed(parts) if reverse else parts:
        state = cell(*state, part, *constants)
        outputs.append(state[0])
    joined = torch.cat(outputs[::-1] if reverse else outputs)
    return joined.reshape(steps, batch, joined.shape[1]), state


def _run_direction(
    cell: Cell, steps: Steps, x: Tensor, state: list[Tensor], weights: _Weights, reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """The outputs [time, batch, size] and the last state of one direction over x of like shape."""
    n_steps, batch = x.shape[0], x.shape[1]
    flat = x.reshape(n_steps * batch, x.shape[2])
    inner = _product(weights.inner_bias, flat, weights.inner)
    inner = inner.reshape(n_steps, batch, inner.shape[1])
    return steps(cell, inner, state, weights.constants(), reverse)


def _decompose(
    make_cell: Callable[[bool], Cell],
    steps: Steps,
    x: Tensor,
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """The output and the last states, each [layers · directions, batch, size].

    An LSTM has two states, the others one. Arguments are those of ATen's schemas.
    """
    cell = make_cell(has_biases)
    initial = [hx] if isinstance(hx, Tensor) else hx
    directions = 2 if bidirectional else 1
    per = len(params) // (num_layers * directions)
    last: list[list[Tensor]] = []
    if batch_first:
        x = x.transpose(0, 1)
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = _weights_of(params[k * per : (k + 1) * per], has_biases)
            state = [part[k] for part in initial]
            output, after = _run_direction(cell, steps, x, state, weights, direction == 1)
            outputs.append(output)
            last.append(after)
        x = torch.cat(outputs, -1) if directions == 2 else outputs[0]
        if train and dropout > 0 and layer < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    if batch_first:
        x = x.transpose(0, 1)
    return x, *(torch.stack(parts) for parts in zip(*last, strict=True))


def recurrent_decompositions(unrolled: bool = False) -> dict[Any, Callable[..., Any]]:
    """Operator → rule; `unrolled` rules are for sequences of known length."""
    cells = {
        _aten.lstm.input: _lstm_cell_of_fewer_calls if unrolled else _lstm_cell,
        _aten.gru.input: _gru_cell,
        _aten.rnn_tanh.input: _rnn_cell(torch.tanh),
        _aten.rnn_relu.input: _rnn_cell(torch.relu),
    }
    steps = _unroll if unrolled else _scan
    return {operator: partial(_decompose, cell, steps) for operator, cell in cells.items()}
