"""Upper bounds that a script registers for its own operator, whose result size depends on data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.library import Library

from executorch_py.exir import to_edge
from executorch_py.exir.dialects._ops import ops
from executorch_py.exir.error import ExportError
from executorch_py.exir.passes.lower.sym_shape_eval import (
    ConstraintBasedSymShapeEvalPass,
    upper_bound_shape_inference_table,
)
from executorch_py.exir.passes.spec_prop_pass import SpecPropPass
from executorch_py.exir.passes.sym_shape_eval_pass import register_upper_bound_inference
from executorch_py.exir.tensor import TensorSpec


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    library = Library("registered_bounds", "DEF")
    library.define("positive(Tensor x) -> Tensor")

    def positive(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    def shape(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    library.impl("positive", positive, "CPU")
    torch.library.register_fake("registered_bounds::positive", shape, lib=library)
    yield library
    library._destroy()


class Positive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.registered_bounds.positive(x) * 2


def test_a_registered_function_bounds_a_size_that_depends_on_data(library: Library) -> None:
    edge = to_edge(torch.export.export(Positive(), (torch.ones(6),)))
    gm = edge.exported_program().graph_module
    SpecPropPass()(gm)
    with pytest.raises(ExportError, match="has no upper bound"):
        ConstraintBasedSymShapeEvalPass()(gm)
    operator = ops.edge.registered_bounds.positive.default

    @register_upper_bound_inference(operator)
    def bound(args: Any, kwargs: Any) -> list[int | None]:
        return [args[0].numel()]

    try:
        assert upper_bound_shape_inference_table[operator] is bound
        ConstraintBasedSymShapeEvalPass()(gm)
    finally:
        del upper_bound_shape_inference_table[operator]
    specs = [n.meta.get("spec") for n in gm.graph.nodes if n.op == "call_function"]
    rows = {tuple(s.shape) for s in specs if isinstance(s, TensorSpec) and s.shape}
    assert rows == {(6,)}
