"""Graphs of the fast run_decompositions, which must be those of torch's own, name by name."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, default_decompositions
from torch.library import Library

from executorch_py.exir.decompose.composite_ops import (
    composite_registrations,
    default_rules,
    run_decompositions,
)
from executorch_py.exir.decompose.core import decomposition_table
from executorch_py.exir.ir.graph_modules import graph_modules

aten = torch.ops.aten


class Pictures(nn.Module):
    """Composite operators of several kinds, and a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding="same")
        self.norm = nn.GroupNorm(2, 8)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        x = F.interpolate(self.norm(self.conv(x)), scale_factor=2.0, mode="bilinear")
        return F.pixel_shuffle(F.instance_norm(x), 2) + self.seen


class Words(nn.Module):
    """Attention, a recurrent layer, and einsum, whose kernel calls other composite operators."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.memory = nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.attention(x, x, x)[0] + F.scaled_dot_product_attention(x, x, x, is_causal=True)
        y = self.memory(y)[0]
        return torch.einsum("bij,bkj->bik", x, y), F.cosine_similarity(x, y, dim=-1)


class Branches(nn.Module):
    """Composite operators in subgraphs only."""

    def forward(self, x: Tensor) -> Tensor:
        branches = torch.square, F.selu
        chosen: Tensor = torch.cond(x.sum() > 0, *branches, (x,))
        return chosen


CASES: dict[str, tuple[type[nn.Module], Tensor, Any]] = {
    "pictures": (Pictures, torch.rand(1, 3, 8, 8), None),
    "words": (Words, torch.rand(2, 4, 8), None),
    "any number of words": (Words, torch.rand(2, 4, 8), ({0: Dim("n", min=2, max=16)},)),
    "branches": (Branches, torch.rand(2, 8), None),
}


def exported(name: str) -> ExportedProgram:
    model, x, sizes = CASES[name]
    with torch.no_grad():
        return torch.export.export(model().eval(), (x,), dynamic_shapes=sizes)


def content(program: ExportedProgram) -> list[Any]:
    """Nodes with names, arguments, values and sources; signature, constants and ranges."""
    found: list[Any] = [str(program.graph_signature), sorted(program.constants)]
    found.append(sorted(map(str, program.range_constraints.items())))
    for gm in graph_modules(program.graph_module):
        for node in gm.graph.nodes:
            meta = [str(node.meta.get(key)) for key in ("val", "stack_trace", "nn_module_stack")]
            meta[1] = re.sub(r"<eval_with_key>\.\d+", "", meta[1])  # torch counts its graphs
            found.append((node.name, str(node.target), str(node.args), str(node.kwargs), meta))
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "table",
    [
        decomposition_table(),
        decomposition_table([aten.linear.default, aten.scaled_dot_product_attention.default]),
        {},
    ],
    ids=["all", "some kept", "none"],
)
def test_graphs_are_those_of_torch(
    name: str, table: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tracing adds to the shape environment of a program, so that each run has a program of its own.
    found = content(run_decompositions(exported(name), table))
    # Joint graphs go to torch. Torch must be called from the same file: names depend on the caller.
    monkeypatch.setattr("executorch_py.exir.decompose.composite_ops.is_joint", lambda _: True)
    assert found == content(run_decompositions(exported(name), table))


def test_composite_operators_of_libraries_get_rules_whenever_they_are_registered() -> None:
    default_rules(composite_registrations())
    library = Library("composite_ops_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
    op = torch.ops.composite_ops_test.twice.default
    assert op in decomposition_table()
    assert (
        default_rules(composite_registrations()).keys()
        == dict(default_decompositions().items()).keys()
    )

    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = op(x)
            return result

    program = torch.export.export(Twice(), (torch.rand(2),))
    for table, called in (decomposition_table(), aten.add.Tensor), (decomposition_table([op]), op):
        decomposed = run_decompositions(program, table)
        targets = [n.target for n in decomposed.graph.nodes if n.op == "call_function"]
        assert targets == [called]
