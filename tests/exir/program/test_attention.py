"""Attention kept whole: by name through preserve_ops; in one kernel call, without its scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from executorch_py.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch_py.exir.target.manifest import MissingKernelError

ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
KERNEL = "executorch_py::scaled_dot_product_attention"
KEPT = EdgeCompileConfig(preserve_ops=[ATTENTION])


class Attention(nn.Module):
    """Torch's attention of three tensors and perhaps a mask, between sums."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask, **self.options)
        return y + 1


def tensors(n_queries: int = 50, n_keys: int = 70, heads: int = 3) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [
        torch.randn(2, heads, n_queries, 8),
        torch.randn(2, 3, n_keys, 8),
        torch.randn(2, 3, n_keys, 8),
    ]


def operators(program: ExecutorchProgramManager) -> list[str]:
    return [op.name for op in program.executorch_program.execution_plan[0].operators]


def planned(program: ExecutorchProgramManager) -> int:
    return sum(program.executorch_program.execution_plan[0].non_const_buffer_sizes)


@pytest.mark.parametrize("lower", [to_edge, to_edge_transform_and_lower])
def test_attention_kept_by_name_is_one_kernel_call(lower: Callable[..., Any]) -> None:
    args = tensors()
    masks = [None, torch.randn(50, 70), torch.rand(2, 1, 50, 70) > 0.3]
    for mask in masks:
        given = (*args, mask)
        program = lower(export(Attention(), given), compile_config=KEPT).to_executorch()
        assert operators(program) == [KERNEL, "aten::add"]
        assert program.verify(Attention(), *given).ok


@pytest.mark.parametrize(
    "options",
    [{"is_causal": True}, {"scale": 0.3}, {"enable_gqa": True}],
    ids=str,
)
def test_its_options_reach_the_kernel(options: dict[str, Any]) -> None:
    args = tuple(tensors(heads=6 if "enable_gqa" in options else 3))
    model = Attention(**options)
    program = to_edge(export(model, args), compile_config=KEPT).to_executorch()
    assert operators(program) == [KERNEL, "aten::add"]
    assert program.verify(model, *args).ok


def test_sequence_lengths_may_be_dynamic() -> None:
    n, m = Dim("n", min=1, max=90), Dim("m", min=2, max=300)
    shapes = ({2: n}, {2: m}, {2: m}, {2: n, 3: m})
    given = (*tensors(), torch.randn(2, 1, 50, 70))
    exported = export(Attention(), given, dynamic_shapes=shapes)
    program = to_edge(exported, compile_config=KEPT).to_executorch()
    assert program.verify(Attention(), *given).ok


def test_scores_are_not_planned() -> None:
    args = tuple(tensors(500, 600))
    scores = 2 * 3 * 500 * 600 * 4
    exported = export(Attention(), args)
    whole = to_edge(exported, compile_config=KEPT).to_executorch()
    assert planned(whole) < scores / 4
    assert planned(to_edge(exported).to_executorch()) > scores


def test_by_default_it_decomposes_into_operators_that_upstream_has() -> None:
    program = to_edge(export(Attention(), tuple(tensors()))).to_executorch(
        ExecutorchBackendConfig(target="executorch-1.5")
    )
    assert KERNEL not in operators(program)


def test_a_runtime_without_the_kernel_refuses_it_by_name() -> None:
    edge = to_edge(export(Attention(), tuple(tensors())), compile_config=KEPT)
    with pytest.raises(MissingKernelError, match=r"scaled_dot_product_attention\.out.*no kernel"):
        edge.to_executorch(ExecutorchBackendConfig(target="executorch-1.5"))


def test_dropout_is_refused_with_what_to_do() -> None:
    exported = export(Attention(dropout_p=0.5), tuple(tensors()))
    with pytest.raises(MissingKernelError, match=r"dropout_p = 0\.5.*model\.eval\(\)"):
        to_edge(exported, compile_config=KEPT).to_executorch()
