"""Calls that change no bit are dropped; calls that change a single bit stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from support.tolerance import EXACT, assert_near
from torch import nn
from torch.utils import _pytree as pytree

from executorch_py.exir.program.config import ExecutorchBackendConfig

Row = tuple[Callable[..., Any], torch.Tensor]


class Table(nn.Module):
    """Every formula of a table on its own input, between two operators that stay."""

    def __init__(self, table: dict[str, Row]) -> None:
        super().__init__()
        self.table = table
        self.inputs = tuple(row[1] for row in table.values())

    def forward(self, *inputs: torch.Tensor) -> Any:
        return [row[0](x.neg()).neg() for row, x in zip(self.table.values(), inputs, strict=True)]


ODD = torch.tensor([[-0.0, 0.0, float("nan")], [float("inf"), -float("inf"), 1e-45]])
INTS = torch.tensor([[1, -2, 3], [4, 5, 6]])
GONE: dict[str, Row] = {
    "times one": (lambda x: x * 1, ODD),
    "one times": (lambda x: torch.ones(3) * x, ODD),
    "over one": (lambda x: x / 1.0, ODD),
    "minus zero": (lambda x: x - 0, ODD),
    "plus negative zero": (lambda x: x + torch.tensor(-0.0), ODD),
    "plus zero of integers": (lambda x: x + 0, INTS),
    "to the power of one": (lambda x: x**1, ODD),
    "padded by nothing": (lambda x: nn.functional.pad(x, (0, 0, 0, 0)), ODD),
    "all rows": (lambda x: x[0:2, :], ODD),
    "all rows, written": (lambda x: torch.slice_scatter(x, x * 1, 0, 0, 2), ODD),
    "repeated once": (lambda x: x.repeat(1, 1), ODD),
    "joined with nothing": (lambda x: torch.cat([x]), ODD),
    "to a wider type and back": (lambda x: x.double().float(), ODD),
    "integers to a wider type and back": (lambda x: x.long().int(), INTS.int()),
    "transposed twice": (lambda x: x.permute(1, 0).contiguous().permute(1, 0).contiguous(), ODD),
    "permuted three times": (
        lambda x: x.permute(1, 2, 0).clone().permute(1, 2, 0).clone().permute(1, 2, 0).clone(),
        torch.randn(2, 3, 4),
    ),
    "dropout": (lambda x: nn.functional.dropout(x, 0.5, training=False), ODD),
}
STAYS: dict[str, tuple[Callable[..., Any], torch.Tensor, str]] = {
    "plus zero of floats": (lambda x: x + 0.0, ODD, "add"),
    "minus negative zero": (lambda x: x - torch.tensor(-0.0), ODD, "sub"),
    "times one of more dimensions": (lambda x: x * torch.ones(2, 2, 3), ODD, "mul"),
    "times almost one": (lambda x: x * torch.tensor([1.0, 1.0, 0.5]), ODD, "mul"),
    "to a narrower type and back": (lambda x: x.half().float(), ODD, "_to_dim_order_copy"),
    "padded": (lambda x: nn.functional.pad(x, (0, 1)), ODD, "constant_pad_nd"),
    "some columns": (lambda x: x[:, 0:1], ODD, "slice_copy"),
    "transposed": (lambda x: x.permute(1, 0).contiguous(), ODD, "permute_copy"),
}


def run(lower: Any, machine: Any, model: Table, config: Any = None) -> Any:
    program = lower(model, model.inputs, config)
    expected = pytree.tree_leaves(model(*model.inputs))
    for ours, eager in zip(machine(program)(*model.inputs), expected, strict=True):
        assert_near(ours, eager, EXACT, equal_nan=True)
        assert torch.equal(torch.signbit(ours), torch.signbit(eager))
    return program


def others(names: list[str]) -> list[str]:
    return [name.partition("::")[2].partition(".")[0] for name in names if "::neg" not in name]


def test_calls_that_change_no_bit_go_away(lower: Any, machine: Any, operators: Any) -> None:
    assert others(operators(run(lower, machine, Table(GONE)))) == []


def test_calls_that_change_something_stay(lower: Any, machine: Any, operators: Any) -> None:
    table = Table({name: row[:2] for name, row in STAYS.items()})
    found = others(operators(run(lower, machine, table)))
    assert set(found) == {row[2] for row in STAYS.values()}
    assert len(found) == len(STAYS) + 1  # two casts


def test_redundant_calls_stay_when_asked(lower: Any, machine: Any, operators: Any) -> None:
    table = Table({"times one": GONE["times one"], "pad": GONE["padded by nothing"]})
    config = ExecutorchBackendConfig(remove_redundant=False)
    found = others(operators(run(lower, machine, table, config)))
    assert found == ["mul", "constant_pad_nd"]


def test_permutations_of_permutations_become_one(lower: Any, machine: Any, operators: Any) -> None:
    twice = lambda x: x.permute(1, 2, 0).clone().permute(1, 2, 0).clone()  # noqa: E731
    found = others(operators(run(lower, machine, Table({"twice": (twice, torch.randn(2, 3, 4))}))))
    assert found == ["permute_copy"]


def test_an_upper_bound_after_a_lower_one_is_one_clamp(
    lower: Any, machine: Any, operators: Any
) -> None:
    table: dict[str, Row] = {
        "bounds": (lambda x: x.clamp(min=0).clamp(max=6.5), ODD * 4),
        "crossed": (lambda x: x.clamp(min=1.5).clamp(max=-1), ODD),
        "integers": (lambda x: x.clamp(min=2).clamp(max=5), INTS),
    }
    assert others(operators(run(lower, machine, Table(table)))) == ["clamp"] * 3
    table = {
        "the other way": (lambda x: x.clamp(max=-1).clamp(min=1.5), ODD),
        "read twice": (lambda x: (y := x.clamp(min=0)).clamp(max=6) * y, ODD),
    }
    assert others(operators(run(lower, machine, Table(table)))).count("clamp") == 4
