"""The ATen-to-edge passes, one by one, on small exported graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram

from executorch_py.exir import EdgeCompileConfig, to_edge
from executorch_py.exir.dialects._ops import ops as exir_ops
from executorch_py.exir.passes import (
    DimOrderOpsRevertPass,
    MemoryFormatOpsPass,
    OpReplacePass,
    RemoveMixedTypeOperators,
    ScalarToTensorPass,
    dead_code_elimination_pass,
)
from executorch_py.exir.passes.remove_unused_parameters_pass import remove_unused_parameters_pass
from executorch_py.exir.passes.runner import wanted_passes
from executorch_py.exir.passes.to_edge.replace_views import ReplaceViewsWithCopiesPass
from executorch_py.exir.passes.to_edge.steps import TO_EDGE

edge = exir_ops.edge.aten


def program(
    function: Callable[..., Any], *inputs: Any, dynamic: Any = None, decompose: bool = True
) -> ExportedProgram:
    class Module(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    shapes = None if dynamic is None else (dynamic,)
    ep = torch.export.export(Module(), inputs, dynamic_shapes=shapes)
    return ep.run_decompositions() if decompose else ep


def edge_program(function: Callable[..., Any], *inputs: Any, **options: Any) -> ExportedProgram:
    return to_edge(program(function, *inputs, decompose=False, **options)).exported_program()


def targets(ep: ExportedProgram) -> list[str]:
    return [
        n.target._name
        for n in ep.graph.nodes
        if n.op == "call_function" and hasattr(n.target, "_op")
    ]


def check_values(ep: ExportedProgram, function: Callable[..., Any], inputs: Sequence[Any]) -> None:
    torch.testing.assert_close(ep.module()(*inputs), function(*inputs))


def class_name(value: object) -> str:
    return type(value).__name__


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.permute(1, 0) + 1, x[1:], x.unsqueeze(0), x.reshape(-1), x.t() @ x),
        lambda x: (x + 1, 3 - x, x * 2.5, x / 2, x // 2, x > 0.5),
        lambda x: (x.to(torch.int32) + x, x.to(torch.float16) * x, torch.minimum(x, x.int())),
        lambda x: (torch.cat([x, x[:0], x]), torch.cat([x[:0], x[:0]])),
        lambda x: (x.clone(), x.to(torch.float64), torch.zeros_like(x), x.expand(2, 3, 4)),
        lambda x: torch.cond(
            x.sum() > 0, lambda x: x.t().reshape(-1), lambda x: (x + 1).reshape(-1), (x,)
        ),
    ],
)
def test_an_edge_program_computes_what_eager_does(function: Callable[..., Any]) -> None:
    check_values(edge_program(function, X), function, (X,))


def test_views_become_copies_with_row_major_strides() -> None:
    ep = program(lambda x: x.permute(1, 0), X)
    assert ReplaceViewsWithCopiesPass()(ep.graph_module).modified
    (node,) = ep.graph.find_nodes(op="call_function", target=torch.ops.aten.permute_copy.default)
    assert node.meta["val"].stride() == (3, 1)


def test_a_changed_layout_reaches_what_follows() -> None:
    ep = edge_program(lambda x: (x.permute(1, 0) * 2, x.permute(1, 0).sigmoid()), X)
    for node in ep.graph.nodes:
        if node.op == "call_function" and node.meta["val"].dim() == 2:
            assert node.meta["val"].stride() == (3, 1), node.name


def test_unit_dimensions_do_not_confuse_the_layout_of_a_copy() -> None:
    ep = edge_program(lambda x: x.permute(0, 2, 1), torch.randn(2, 1, 5))
    (node,) = ep.graph.find_nodes(op="call_function", target=edge.permute_copy.default)
    assert node.meta["val"].stride() == (5, 1, 1)


def test_numbers_in_tensor_slots_become_constants() -> None:
    ep = program(lambda x: x + 1, X)
    ScalarToTensorPass()(ep.graph_module)
    (constant,) = ep.graph.find_nodes(op="get_attr")
    value = getattr(ep.graph_module, constant.target)
    assert (value.dtype, value.item()) == (torch.int64, 1)


def test_constants_are_lifted_in_front_of_user_inputs() -> None:
    ep = edge_program(lambda x: x + 1, X)
    names = [spec.target or spec.arg.name for spec in ep.graph_signature.input_specs]
    assert names == ["_lifted_tensor_constant0", "args_0"]
    assert ep.state_dict["_lifted_tensor_constant0"].item() == 1


def test_a_number_never_promotes_a_scalar_tensor() -> None:
    inputs = (torch.tensor(2, dtype=torch.int32), torch.tensor(1.5, dtype=torch.float16))
    function = lambda i, h: (i + 1, h * 2.0, i * 2.5)  # noqa: E731
    ep = edge_program(function, *inputs)
    check_values(ep, function, inputs)
    (result,) = [n.meta["val"] for n in ep.graph.nodes if n.op == "output"]
    assert [v.dtype for v in result] == [torch.int32, torch.float16, torch.float32]


def test_symbolic_numbers_become_tensors() -> None:
    ep = edge_program(lambda x: x * x.shape[0], X, dynamic=({0: Dim("b", min=2, max=8)},))
    (node,) = ep.graph.find_nodes(op="call_function", target=torch.ops.aten.scalar_tensor.default)
    assert node.kwargs["dtype"] is torch.int32


def test_mixed_operands_are_cast_to_the_promoted_dtype() -> None:
    ep = program(lambda x, i: x + i, X, torch.arange(4))
    assert RemoveMixedTypeOperators()(ep.graph_module).modified
    (cast,) = ep.graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default)
    assert cast.meta["val"].dtype is torch.float32
    assert not RemoveMixedTypeOperators()(ep.graph_module).modified


def test_a_tensor_without_dimensions_takes_the_others_dtype_where_it_would_not_widen_it() -> None:
    function = lambda x, i, f, d, w: (  # noqa: E731
        (torch.remainder(f, d), torch.fmod(f, d), torch.pow(f * f, d), d % f, i % f),
        (i & w, i | w, i ^ w, w & i, torch.fmod(i, w), i // w, i**w, torch.hypot(f, i)),
        (torch.gcd(i, i > 0), torch.gcd(w, i)),
    )
    chosen = lambda x, i, f, d, w: (  # noqa: E731
        (torch.where(x > 0, f, d), torch.where(i > 0, w, i), torch.where(x > 0, f, w)),
        (torch.cat([f, i]), torch.stack([i, w.expand(1, 3)]), torch.cat([i, i > 0])),
        (7 % f, -7 % i, 2.5 % i),
    )
    x = torch.tensor([[1.5, -2.5, 7.0]])
    small = torch.tensor([[100, -100, 7]], dtype=torch.int8)
    wide, narrow = torch.tensor(0.1, dtype=torch.float64), torch.tensor(3)
    inputs = (x, small, x, wide, narrow)
    for case in (function, chosen):
        check_values(edge_program(case, *inputs), case, inputs)
    halves = tuple(t.half() if t.dtype is torch.float32 else t for t in inputs)
    check_values(edge_program(chosen, *halves), chosen, halves)


def test_a_slice_of_everything_and_a_copy_of_the_same_go_away() -> None:
    ep = edge_program(lambda x: x[0:3].to(torch.float32) + x, X)
    assert targets(ep) == ["aten::add.Tensor"]


def test_equal_dequantize_quantize_pairs_fold() -> None:
    import torch.ao.quantization.fx._decomposed

    q = torch.ops.quantized_decomposed
    args = (0.1, 3, -128, 127, torch.int8)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = q.dequantize_per_tensor(q.quantize_per_tensor(x, *args), *args)
        z = q.quantize_per_tensor(y[0:3], *args)
        return q.dequantize_per_tensor(z, *args)

    names = targets(edge_program(function, X))
    assert names == [
        "quantized_decomposed::quantize_per_tensor",
        "quantized_decomposed::dequantize_per_tensor",
    ]


def test_empty_operands_of_cat_go_away() -> None:
    ep = edge_program(lambda x, e: (torch.cat([x, e, x]), torch.cat([e, e])), X, torch.empty(0, 4))
    (cat,) = ep.graph.find_nodes(op="call_function", target=edge.cat.default)
    assert len(cat.args[0]) == 2
    assert ep.graph.find_nodes(op="call_function", target=edge.full.default)


def test_memory_formats_become_dim_orders_and_back() -> None:
    image = torch.randn(1, 3, 4, 4)
    ep = program(lambda x: x.clone(memory_format=torch.channels_last) + 1, image)
    OpReplacePass()(ep.graph_module)
    MemoryFormatOpsPass()(ep.graph_module)
    target = exir_ops.edge.dim_order_ops._clone_dim_order.default
    (node,) = ep.graph.find_nodes(op="call_function", target=target)
    assert list(node.kwargs["dim_order"]) == [0, 2, 3, 1]
    DimOrderOpsRevertPass()(ep.graph_module)
    assert (node.target, node.kwargs["memory_format"]) == (edge.clone.default, torch.channels_last)


def test_a_copy_keeps_the_dim_order_of_its_input_by_default() -> None:
    image = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    ep = edge_program(lambda x: x.to(torch.float64), image)
    target = exir_ops.edge.dim_order_ops._to_dim_order_copy.default
    (node,) = ep.graph.find_nodes(op="call_function", target=target)
    assert list(node.kwargs["dim_order"]) == [0, 2, 3, 1]


def test_skipping_dim_order_keeps_torch_copies() -> None:
    ep = program(lambda x: x.to(torch.float64), X, decompose=False)
    names = targets(to_edge(ep, None, EdgeCompileConfig(_skip_dim_order=True)).exported_program())
    assert names == ["aten::_to_copy"]


def test_nodes_are_named_after_their_edge_operators() -> None:
    ep = edge_program(lambda x: torch.relu(x + x), X)
    assert [n.name for n in ep.graph.nodes if n.op == "call_function"] == [
        "aten_add_tensor",
        "aten_relu_default",
    ]
    assert "executorch_exir_dialects_edge__ops_aten_add_Tensor" in ep.graph_module.code


def test_bodies_of_control_flow_are_converted_too() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.t() + 1, lambda x: x.t() * 2, (x,))

    gm = edge_program(function, X).graph_module
    bodies = [m for name, m in gm.named_children() if "graph" in name]
    assert len(bodies) == 2
    for body in bodies:
        assert body.graph.find_nodes(op="call_function", target=edge.permute_copy.default)


def test_unread_parameters_leave_a_copy_of_the_program() -> None:
    class Unused(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    ep = torch.export.export(Unused(), (X,))
    without = remove_unused_parameters_pass(ep)
    assert sorted(without.state_dict) == ["used.bias", "used.weight"]
    assert len(ep.state_dict) == 4
    assert remove_unused_parameters_pass(without) is without


def test_constants_in_odd_layouts_become_contiguous() -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", torch.randn(4, 3).t())
            self.register_buffer("temporary", torch.randn(4, 3).t(), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.b + self.temporary

    ep = to_edge(torch.export.export(Odd(), (X,))).exported_program()
    assert ep.state_dict["b"].is_contiguous()
    assert all(
        n.meta["val"].is_contiguous()
        for n in ep.graph.nodes
        if n.op in ("placeholder", "call_function")
    )


def test_debug_handles_count_from_one_and_are_shared_by_descendants() -> None:
    ep = edge_program(lambda x: torch.relu(x + 1), X)
    handles = [n.meta["debug_handle"] for n in ep.graph.nodes if n.op == "call_function"]
    assert handles == [1, 1, 2]


def test_dead_code_is_reported_only_when_there_is_some() -> None:
    ep = edge_program(lambda x: x + x, X)
    gm = ep.graph_module
    assert not dead_code_elimination_pass(gm).modified
    (add,) = gm.graph.find_nodes(op="call_function", target=edge.add.Tensor)
    with gm.graph.inserting_after(add):
        gm.graph.call_function(edge.relu.default, (add,))
    assert dead_code_elimination_pass(gm).modified


@pytest.mark.parametrize("one", wanted_passes(TO_EDGE, EdgeCompileConfig()), ids=class_name)
def test_every_pass_of_the_pipeline_leaves_a_finished_graph_alone(one: Any) -> None:
    ep = edge_program(lambda x: torch.cat([x.permute(1, 0) + 1, x.t() * 2.5]).to(torch.int32), X)
    assert not one.run(ep)
