"""Operators outside the core operator set: decomposed by torch's other decompositions, or kept
because they have a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from executorch_py.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from executorch_py.testing import assert_parity
from executorch_py.testing.parity import verify_program

Compute = Callable[[torch.Tensor], Any]
FLOATS = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
INTS = torch.arange(1, 9)
CASES: dict[str, tuple[Compute, torch.Tensor]] = {
    "pairs of features": (lambda x: x[:, torch.tril_indices(4, 6)[1]], FLOATS),
    "upper triangle": (lambda x: x[torch.triu_indices(4, 4)[0]], FLOATS),
    "buckets": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), FLOATS),
    "shifts": (lambda x: (x << 2, x >> 1, x << x, x >> x), INTS),
    "ldexp": (lambda x: torch.ldexp(x, torch.arange(6)), FLOATS),
    "mean and variance": (lambda x: torch.var_mean(x, 0), FLOATS),
    "selection by mask": (lambda x: torch.masked_select(x, x > 0), FLOATS),
}


class Function(nn.Module):
    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: torch.Tensor) -> Any:
        return self.compute(x)


@pytest.mark.parametrize("lower", [to_edge, to_edge_transform_and_lower])
@pytest.mark.parametrize("name", CASES)
def test_an_operator_outside_the_core_set_runs(name: str, lower: Any) -> None:
    compute, x = CASES[name]
    model = Function(compute)
    program = lower(torch.export.export(model, (x,))).to_executorch()
    verify_program(program, model, x)


def test_an_operator_that_the_user_allows_by_name_stays_whole() -> None:
    x = FLOATS
    exported = torch.export.export(Function(CASES["buckets"][0]), (x,))
    config = EdgeCompileConfig(_core_aten_ops_exception_list=[torch.ops.aten.bucketize.Tensor])
    for lower in (to_edge, to_edge_transform_and_lower):
        graph = lower(exported, compile_config=config).exported_program().graph
        assert any("bucketize" in str(node.target) for node in graph.nodes)


def test_a_generator_among_the_constants_does_not_hide_what_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    model = Function(lambda x: x + torch.randn(6, generator=generator))
    exported = torch.export.export(model, (FLOATS,))
    with pytest.raises(Exception, match=r"randn\.generator is not in Core ATen"):
        to_edge_transform_and_lower(exported)


def test_conditions_of_whole_tensors_run() -> None:
    def conditions(x: torch.Tensor) -> Any:
        return torch._is_all_true(x > -9), torch._is_any_true(x > 9)

    assert_parity(Function(conditions), (FLOATS,))


class Mixture(nn.Module):
    """Rows by expert, as transformers' mixtures call it; the last expert gets no row."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weights = nn.Parameter(torch.randn(4, 8, 16, generator=generator).bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        expert = torch.arange(x.shape[0]) % 3
        ends = (expert[:, None] <= torch.arange(4)).sum(0).to(torch.int32)
        return torch.nn.functional.grouped_mm(x[expert.argsort()], self.weights, offs=ends)


@pytest.mark.parametrize("n_rows", [3, 9, None])
def test_mixtures_of_experts_multiply_rows_by_group(n_rows: int | None) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n_rows or 7, 8, generator=generator).bfloat16()
    sizes = None if n_rows else ({0: Dim("rows", min=2, max=12)},)
    assert_parity(Mixture(), (x,), dynamic_shapes=sizes)


def test_factorisation_machines_over_pairs_run() -> None:
    """The interaction of a recommender (DLRM): all pairs of embeddings, below the diagonal."""
    tables = nn.ModuleList(nn.Embedding(10 + k, 8) for k in range(3))

    class Recommender(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables, self.bottom, self.top = tables, nn.Linear(5, 8), nn.Linear(14, 1)

        def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            first = self.bottom(dense).relu()
            vectors = [first, *(table(ids[:, k]) for k, table in enumerate(self.tables))]
            stacked = torch.stack(vectors, 1)
            rows, columns = torch.tril_indices(4, 4, -1)
            pairs = (stacked @ stacked.transpose(1, 2))[:, rows, columns]
            return torch.sigmoid(self.top(torch.cat([first, pairs], 1)))

    generator = torch.Generator().manual_seed(0)
    dense = torch.randn(3, 5, generator=generator)
    ids = torch.randint(0, 10, (3, 3), generator=generator)
    batch = {0: torch.export.Dim("batch", min=1, max=6)}
    assert_parity(Recommender().eval(), (dense, ids), dynamic_shapes=(batch, batch))
