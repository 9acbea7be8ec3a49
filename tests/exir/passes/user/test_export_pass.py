"""ExportPass: users' re-tracing passes over edge graphs, control flow and delegates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from executorch_py.exir import to_edge, to_edge_transform_and_lower
from executorch_py.exir.dialects._ops import ops as exir_ops
from executorch_py.exir.error import ExportError
from executorch_py.exir.pass_base import (
    ExportPass,
    ExportPassBaseError,
    NodeMetadata,
    ProxyValue,
    map_args,
)

edge = exir_ops.edge.aten
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Identity(ExportPass):
    pass


class MulForAdd(ExportPass):
    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        target = edge.mul.Tensor if op is edge.add.Tensor else op
        return super().call_operator(target, args, kwargs, meta)


class Everything(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.map import map
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop

        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.t().t() * 2, (x,))
        rows = map(lambda row, k: row + k, y, torch.ones(4))
        last, steps = scan(lambda c, r: (c + r, c * r), torch.zeros(4), y)
        _, z = while_loop(lambda n, v: n > 0, lambda n, v: (n - 1, v + 1), (torch.tensor(2), y))
        return rows, last, steps, z, torch.topk(x, 2)[0], x.new_zeros(x.shape[0])


def test_retracing_keeps_what_a_program_computes() -> None:
    ep = torch.export.export(Everything(), (X,), dynamic_shapes=({0: Dim("n", min=2, max=8)},))
    manager = to_edge(ep)
    again = manager.transform([Identity()]).exported_program()
    torch.testing.assert_close(again.module()(X), Everything()(X))
    before, after = (
        [n.target for n in p.graph.nodes if n.op == "call_function"]
        for p in (manager.exported_program(), again)
    )
    assert after == before


def test_operators_in_bodies_reach_the_hook_too() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + x, lambda x: x - x, (x,))

    manager = to_edge(torch.export.export(Branches(), (X.abs(),))).transform([MulForAdd()])
    torch.testing.assert_close(manager.exported_program().module()(X.abs()), X * X)


def test_values_and_origin_follow_a_replaced_operator() -> None:
    class Half(ExportPass):
        def call_operator(self, op: Any, args: Any, kwargs: Any, meta: NodeMetadata) -> Any:
            if op is not edge.relu.default:
                return super().call_operator(op, args, kwargs, meta)
            cast = exir_ops.edge.dim_order_ops._to_dim_order_copy.default
            half = super().call_operator(
                cast, args, {"dtype": torch.float16, "dim_order": [0, 1]}, meta
            )
            return super().call_operator(op, (half,), kwargs, meta)

    class Relu(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    ep = to_edge(torch.export.export(Relu(), (X,))).transform([Half()]).exported_program()
    (relu,) = ep.graph.find_nodes(op="call_function", target=edge.relu.default)
    assert relu.meta["val"].dtype is torch.float16
    assert "torch.relu(x)" in relu.meta["stack_trace"]


def test_delegates_are_carried_along() -> None:
    from executorch_py.backends.reference.partitioner import ReferencePartitioner

    class Relu(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x).cos()

    ep = torch.export.export(Relu(), (X,))
    manager = to_edge_transform_and_lower(ep, partitioner=[ReferencePartitioner()])
    again = manager.transform([Identity()]).exported_program()
    (call,) = [n for n in again.graph.nodes if "executorch_call_delegate" in str(n.target)]
    assert call.args[0].target == "lowered_module_0"
    torch.testing.assert_close(again.module()(X), torch.relu(X).cos())


def test_mistakes_of_a_pass_are_named() -> None:
    class Forgetful(ExportPass):
        def __init__(self) -> None:
            pass

    class Shrinking(ExportPass):
        def placeholder(self, name: str, arg: Any, meta: NodeMetadata) -> ProxyValue:
            return super().placeholder(name, arg[1:], meta)

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    gm = to_edge(torch.export.export(Add(), (X,))).exported_program().graph_module
    with pytest.raises(ExportPassBaseError, match=r"Forgetful is not initialized.*super"):
        Forgetful()(gm)
    with pytest.raises(ExportError, match="changed input 'x'"):
        Shrinking()(gm)
    meta = NodeMetadata({"val": 1})
    with pytest.raises(RuntimeError, match="Could not override node key: val"):
        meta["val"] = 2


def test_map_args_sees_given_arguments_with_their_schemas() -> None:
    seen = []

    def double(value: Any, schema: Any) -> Any:
        seen.append(schema.name)
        return value * 2

    args, kwargs = map_args(torch.ops.aten.add.Tensor, double, (1, 2), {"alpha": 3})
    assert (args, kwargs, seen) == ((2, 4), {"alpha": 6}, ["self", "other", "alpha"])


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def test_an_input_is_run_with_the_constant_that_its_value_carries() -> None:
    ep = torch.export.export(Doubled(), (X,), dynamic_shapes=({0: Dim("n", min=2, max=8)},))
    gm = to_edge(ep).exported_program().graph_module
    value = next(iter(gm.graph.nodes)).meta["val"]
    value.constant = X
    again = Identity()(gm).graph_module
    assert next(iter(again.graph.nodes)).meta["val"] is value and value.constant is X
    torch.testing.assert_close(again(X), (X * 2,))
