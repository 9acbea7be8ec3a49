"""The guard around the softmax of torch's attention reads scores once, with the same bits."""

from __future__ import annotations

import math
from typing import Any

import torch
from support.tolerance import EXACT, assert_near
from torch import nn
from torch.export import export

from executorch_py.exir import ExecutorchBackendConfig, ExecutorchProgramManager, to_edge


class Attention(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, mask)


def inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 20, 8).unbind()
    mask = torch.zeros(20, 20)
    mask[3], mask[4, 5:] = -math.inf, -math.inf
    mask[6], mask[6, 7] = -math.inf, math.nan
    return q, k, v, mask


def lowered(**settings: Any) -> ExecutorchProgramManager:
    exported = export(Attention(), inputs())
    return to_edge(exported).to_executorch(ExecutorchBackendConfig(**settings))


def operators(program: ExecutorchProgramManager) -> list[str]:
    plan = program.executorch_program.execution_plan[0]
    return [plan.operators[i.instr_args.op_index].name for i in plan.chains[0].instructions]


def test_the_scores_are_read_once_and_no_zeros_are_written() -> None:
    found = operators(lowered())
    assert "aten::amax" in found and "aten::where" in found
    assert not {"aten::any", "aten::logical_not", "aten::full_like"} & set(found)


def test_rows_without_keys_and_with_nan_keep_their_bits() -> None:
    short, long = lowered(), lowered(remove_redundant=False)
    assert "aten::any" in operators(long)
    y, expected = short.run(*inputs()), long.run(*inputs())
    assert_near(y, expected, EXACT, equal_nan=True)
    torch.testing.assert_close(y, Attention()(*inputs()), equal_nan=True)
    assert bool((y[:, :, 3] == 0).all()) and bool(y[:, :, 6].isnan().all())
