"""Edge operators: unique wrappers, their schemas, out variants and dtype rules."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from torch.library import Library

from executorch_py.exir.dialects import dtype_rules
from executorch_py.exir.dialects._ops import bind_pattern_to_op
from executorch_py.exir.dialects._ops import ops as exir_ops
from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge._ops import EdgeOpOverload
from executorch_py.exir.dialects.edge_ops import BackendOpOverload

ADD = exir_ops.edge.aten.add.Tensor


def test_an_edge_operator_wraps_its_torch_overload() -> None:
    assert isinstance(ADD, EdgeOpOverload)
    assert ADD._op is torch.ops.aten.add.Tensor
    assert (ADD.__name__, ADD._name, ADD.namespace) == (
        "aten.add.Tensor",
        "aten::add.Tensor",
        "aten",
    )
    assert torch.equal(ADD(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))


def test_an_edge_operator_is_one_object_however_it_is_reached() -> None:
    assert exir_ops.edge.aten.add.Tensor is ADD
    assert copy.deepcopy(ADD) is ADD
    assert pickle.loads(pickle.dumps(ADD)) is ADD


def test_an_unknown_operator_or_overload_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_operator"):
        _ = exir_ops.edge.aten.no_such_operator
    with pytest.raises(AttributeError, match=r"it has: .*Tensor"):
        _ = exir_ops.edge.aten.add.no_such_overload


@pytest.mark.parametrize(
    ("op", "out"),
    [
        (ADD, torch.ops.aten.add.out),
        (exir_ops.edge.aten.arange.start_step, torch.ops.aten.arange.start_out),
        (exir_ops.edge.aten.full.default, torch.ops.aten.full.out),
        (exir_ops.edge.aten.topk.default, torch.ops.aten.topk.values),
        (exir_ops.edge.aten.max.dim, torch.ops.aten.max.dim_max),
        (exir_ops.edge.aten.split_copy.Tensor, torch.ops.aten.split_copy.Tensor_out),
        (exir_ops.edge.aten.empty.memory_format, torch.ops.aten.empty.out),
    ],
)
def test_the_out_variant_is_found(op: EdgeOpOverload, out: torch._ops.OpOverload) -> None:
    assert op.to_out_variant() is out


def test_a_missing_out_variant_is_named_with_what_was_seen() -> None:
    library = Library("test_edge_ops_no_out", "DEF")
    library.define("lonely(Tensor x) -> Tensor")
    op = exir_ops.edge.test_edge_ops_no_out.lonely.default
    with pytest.raises(RuntimeError, match=r"lonely can't be found.*Overloads seen.*lonely"):
        op.to_out_variant()


def test_a_pattern_becomes_a_backend_operator_that_decomposes() -> None:
    library = Library("test_edge_ops_backend", "DEF")

    @bind_pattern_to_op(library, "add_relu(Tensor a, Tensor b) -> Tensor")
    def add_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(a + b)

    op = exir_ops.backend.test_edge_ops_backend.add_relu.default
    assert isinstance(op, BackendOpOverload)
    assert op._equivalent_callable is add_relu
    assert torch.equal(op(torch.tensor([-3.0, 1.0]), torch.ones(2)), torch.tensor([0.0, 2.0]))


def test_a_library_that_was_not_bound_has_no_backend_operators() -> None:
    with pytest.raises(RuntimeError, match="bind_pattern_to_op"):
        _ = exir_ops.backend.aten


@pytest.mark.parametrize("dim_order", [[0, 1, 2, 3], [0, 2, 3, 1], [3, 1, 0, 2]])
def test_dim_order_copies_have_the_given_layout(dim_order: list[int]) -> None:
    x = torch.randn(2, 3, 4, 5)
    op = exir_ops.edge.dim_order_ops._to_dim_order_copy.default
    y = op(x, dtype=torch.float64, dim_order=dim_order)
    assert torch.equal(y, x.double())
    assert list(y.dim_order()) == dim_order


def test_dim_order_forms_have_out_variants() -> None:
    for op in DimOrderOpsMap.values():
        assert op.to_out_variant()._overloadname == "out"


@pytest.mark.parametrize(
    ("name", "types", "valid"),
    [
        (
            "add.Tensor",
            {"self": torch.float32, "other": torch.float32, "ret0": torch.float32},
            True,
        ),
        ("add.Tensor", {"self": torch.int32, "other": torch.float32, "ret0": torch.float32}, True),
        ("add.Tensor", {"self": torch.int32, "other": torch.float32, "ret0": torch.int32}, False),
        ("div.Tensor", {"self": torch.int32, "other": torch.int32, "ret0": torch.float32}, True),
        ("div.Tensor", {"self": torch.int32, "other": torch.int32, "ret0": torch.int32}, False),
        (
            "mul.Tensor",
            {"self": torch.float16, "other": torch.float32, "ret0": torch.float16},
            True,
        ),
        (
            "add.Tensor",
            {"self": torch.float16, "other": torch.float32, "ret0": torch.float16},
            False,
        ),
        ("mm", {"self": torch.float32, "mat2": torch.float16, "ret0": torch.float32}, False),
        ("relu", {"self": torch.bool, "ret0": torch.bool}, False),
        ("sin", {"self": torch.int64, "ret0": torch.float32}, True),
        ("sin", {"self": torch.int64, "ret0": torch.int64}, False),
        ("native_layer_norm", {"input": torch.float32, "weight": None, "bias": None}, True),
        (
            "embedding",
            {"weight": torch.float16, "indices": torch.int32, "ret0": torch.float16},
            True,
        ),
        ("embedding", {"weight": torch.float16, "indices": torch.int16}, False),
        ("topk", {"self": torch.int8}, True),
        ("topk", {"self": torch.complex32}, False),
    ],
)
def test_dtype_rules_decide_which_types_go_together(
    name: str, types: dict[str, torch.dtype | None], valid: bool
) -> None:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(exir_ops.edge.aten, packet), overload or "default")
    assert op._schema.dtype_constraint.validate(types) is valid


def test_a_dtype_rule_is_worked_out_once_for_each_combination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = dtype_rules.dtype_rule(torch.ops.aten.div.Tensor._schema)
    seen = []
    allows = dtype_rules.DtypeRule._allows
    monkeypatch.setattr(
        dtype_rules.DtypeRule,
        "_allows",
        lambda self, types: seen.append(types) or allows(self, types),
    )
    dtype_rules._is_allowed.cache_clear()
    ints = {"self": torch.int32, "other": torch.int32, "__ret_0": torch.float32}
    assert [rule.validate(ints) for _ in range(3)] == [True] * 3
    assert len(seen) == 1
    torch.set_default_dtype(torch.float64)
    try:
        assert not rule.validate(ints)  # the quotient of integers has the default dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_every_dtype_rule_names_an_existing_operator_and_its_tensors() -> None:
    for name in dtype_rules.constrained_operators():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        schema = getattr(getattr(torch.ops.aten, packet), overload or "default")._schema
        known = {a.name for a in schema.arguments}
        known |= {r.name or f"ret{i}" for i, r in enumerate(schema.returns)}
        rule = dtype_rules.dtype_rule(schema)
        used = {n for option in rule.alternatives for group in option for n in group.names}
        assert used <= known, f"{name}: {used - known}"


def test_schema_arguments_know_their_dtypes() -> None:
    argument = exir_ops.edge.aten.bitwise_not.default._schema.arguments[0]
    assert argument.name == "self"
    assert torch.int32 in argument.allowed_types
    assert torch.float32 not in argument.allowed_types


def test_quantized_operators_are_there_without_an_import_of_their_library() -> None:
    script = (
        "from executorch_py.exir.dialects._ops import ops\n"
        "print(ops.edge.quantized_decomposed.quantize_per_tensor.default.name())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout == "quantized_decomposed::quantize_per_tensor\n"
