"""Operators whose result sizes depend on values: planned for the largest result, or for the bound
that the model states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from executorch_py.exir import to_edge
from executorch_py.exir.error import ExportError
from executorch_py.exir.passes import HintBasedSymShapeEvalPass, SpecPropPass
from executorch_py.testing.parity import verify_program

aten = torch.ops.aten
X = torch.tensor([[3, 1, 2, 1], [3, 1, 0, 1], [3, 1, 2, 1]])


class Function(nn.Module):
    def __init__(self, compute: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: Tensor) -> Any:
        return self.compute(x)


def everything(x: Tensor) -> Any:
    counts = torch.bincount(x.flatten(), minlength=4)
    torch._check(counts.shape[0] <= 10)
    few = torch.unique(x.flatten())
    torch._check(few.shape[0] <= 4)
    return (
        counts,
        few * 2,
        *torch.unique(x, return_inverse=True, return_counts=True),
        *torch.unique(x, dim=0, return_inverse=True, return_counts=True),
        *torch.unique(x, dim=1, return_inverse=True, return_counts=True),
        *torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        *torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=1),
        *aten.unique_dim(x, 0, True, False, False),
        *aten.unique_consecutive(x, False, False, -2),
        torch.take(x[0, 0], torch.tensor(-1)),
        torch.take(x, torch.tensor([[0, -1], [3, 2]])),
        torch.nonzero_static(x - 1, size=5),
        torch.nonzero_static(x - 1, size=20, fill_value=7),
        torch.nonzero_static(x[:, :0], size=2, fill_value=7),
        torch.masked_select(x, x[:, 2:3] > 0),
        torch.histc(x.float(), 3),
    )


def test_results_have_the_size_that_the_values_give() -> None:
    model = Function(everything)
    program = to_edge(torch.export.export(model, (X,))).to_executorch()
    verify_program(program, model, X)


def test_a_size_without_a_bound_is_refused_with_the_line_to_write() -> None:
    exported = torch.export.export(Function(lambda x: torch.bincount(x.flatten())), (X,))
    with pytest.raises(ExportError, match=r"no upper bound(.|\n)*torch\._check"):
        to_edge(exported).to_executorch()


def test_upstreams_pass_of_traced_sizes_bounds_sizes_that_no_trace_shows() -> None:
    class Square(nn.Module):
        def forward(self, number: Tensor, x: Tensor) -> Any:
            side: Any = number.item()
            torch._check(side >= 2)
            torch._check(side <= 100)
            return torch.ones(side, side) * x.sum(), x + 1

    rows = Dim("rows", min=2, max=50)
    inputs = (torch.tensor(3), torch.ones(4, 5))
    exported = torch.export.export(Square(), inputs, dynamic_shapes=(None, {0: rows}))
    edge = to_edge(exported).transform([SpecPropPass(), HintBasedSymShapeEvalPass()])
    square, sum_ = edge.exported_program().graph.output_node().meta["spec"]
    assert (square.shape, sum_.shape) == ([100, 100], [4, 5])
