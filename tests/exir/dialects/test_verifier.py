"""Dialect verifiers: programs of the pipeline pass, and violations are named."""

from __future__ import annotations

import pytest
import torch
from torch._export.verifier import SpecViolationError

from executorch_py.exir import EdgeCompileConfig, to_edge
from executorch_py.exir.dialects._ops import ops as exir_ops
from executorch_py.exir.dialects.verifier import accepting_torch
from executorch_py.exir.verification.verifier import (
    EXIRATenDialectVerifier,
    EXIREdgeDialectVerifier,
    get_aten_verifier,
)


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y).to(torch.float64)


def edge_graph(**config: bool) -> torch.fx.GraphModule:
    ep = torch.export.export(Add(), (torch.ones(2), torch.ones(2)))
    manager = to_edge(ep, compile_config=EdgeCompileConfig(**config))
    return manager.exported_program().graph_module


def the_add(gm: torch.fx.GraphModule) -> torch.fx.Node:
    (node,) = gm.graph.find_nodes(op="call_function", target=exir_ops.edge.aten.add.Tensor)
    return node


def test_an_edge_program_is_valid() -> None:
    verifier = EXIREdgeDialectVerifier()
    assert verifier.dialect == "EDGE"
    assert verifier.is_valid(edge_graph())


def test_a_torch_operator_in_an_edge_graph_is_named_with_its_source_line() -> None:
    gm = edge_graph()
    the_add(gm).target = torch.ops.aten.add.Tensor
    with pytest.raises(
        SpecViolationError, match=r"not an Edge operator.*\n.*aten_add_tensor.*test_v"
    ):
        EXIREdgeDialectVerifier()(gm)


def test_dim_order_operators_are_required_exactly_in_dim_order_mode() -> None:
    with_dim_order, without = edge_graph(), edge_graph(_skip_dim_order=True)
    skipping = EXIREdgeDialectVerifier(EdgeCompileConfig(_skip_dim_order=True))
    assert skipping.is_valid(without)
    assert not skipping.is_valid(with_dim_order)
    assert not EXIREdgeDialectVerifier().is_valid(without)


def test_wrong_dtypes_are_refused_with_node_and_dtypes() -> None:
    gm = edge_graph()
    node = the_add(gm)
    node.meta["val"] = node.meta["val"].to(torch.int64)
    with pytest.raises(SpecViolationError, match=r"aten_add_tensor.*self: torch.float32"):
        EXIREdgeDialectVerifier()(gm)


def test_without_validity_check_everything_passes() -> None:
    gm = edge_graph()
    the_add(gm).target = torch.ops.aten.add.Tensor
    EXIREdgeDialectVerifier(EdgeCompileConfig(_check_ir_validity=False))(gm)


def test_operators_outside_the_core_set_need_an_exception() -> None:
    op = torch.ops.aten.special_bessel_j0.default
    with pytest.raises(SpecViolationError, match="_core_aten_ops_exception_list"):
        EXIRATenDialectVerifier().check_valid_op(op)
    EXIRATenDialectVerifier(core_aten_ops_exception_list=[op]).check_valid_op(op)
    EXIREdgeDialectVerifier(preserve_ops=[op]).check_valid_op(
        exir_ops.edge.aten.special_bessel_j0.default
    )
    get_aten_verifier(EdgeCompileConfig(_core_aten_ops_exception_list=[op]))().check_valid_op(op)


def test_a_view_cannot_be_preserved() -> None:
    with pytest.raises(RuntimeError, match="is a view"):
        EXIRATenDialectVerifier(preserve_ops=[torch.ops.aten.transpose.int]).check_valid_op(
            torch.ops.aten.transpose.int
        )


def test_the_callers_lists_are_not_extended() -> None:
    exceptions: list[torch._ops.OpOverload] = []
    config = EdgeCompileConfig(_core_aten_ops_exception_list=[torch.ops.aten.t.default])
    EXIREdgeDialectVerifier(config, core_aten_ops_exception_list=exceptions)
    assert exceptions == []


def test_torch_operators_among_edge_operators_keep_all_other_rules() -> None:
    verifier = accepting_torch(EXIREdgeDialectVerifier(class_only=True))
    gm = edge_graph()
    node = the_add(gm)
    node.target = torch.ops.aten.add.Tensor
    assert verifier.is_valid(gm)
    node.meta["val"] = node.meta["val"].to(torch.int64)
    with pytest.raises(SpecViolationError, match="mismatched dtypes"):
        verifier(gm)
    node.target = torch.ops.aten.logaddexp.default
    with pytest.raises(SpecViolationError, match="not in Core ATen"):
        verifier(gm)
    assert EXIREdgeDialectVerifier(class_only=True).rules.accepts_torch is False


def test_only_a_verifier_that_checks_the_edge_dialect_is_taken() -> None:
    unchecked = EdgeCompileConfig(_check_ir_validity=False)
    assert accepting_torch(EXIREdgeDialectVerifier(unchecked, class_only=True)) is None
    assert accepting_torch(EXIRATenDialectVerifier(class_only=True)) is None
