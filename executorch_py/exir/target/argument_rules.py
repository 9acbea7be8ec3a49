"""Argument values that our kernels refuse although operator, dtypes and rank are right.

The kernels check these at run time too (files come from elsewhere); the exporter knows the values
already and reports them with the source line. One rule per operator, as a table: it gets the call's
arguments by the schema's names and returns a problem with a remedy, or "". Values that the program
computes are unknown: a rule accepts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx
from torch._ops import OpOverload

from executorch_py.exir.ir.scalar_type import short_name
from executorch_py.exir.ir.tensor_spec import TensorSpec

EVAL_MODE = "call model.eval() before torch.export.export()"
# Operators of training that do not serve inference.
_TRAINING_OPERATORS = frozenset(
    {
        "aten::_native_batch_norm_legit_functional",
        "aten::native_batch_norm",
        "aten::_batch_norm_with_update_functional",
    }
)
# Element types that kernels with an accumulating scatter support (csrc/kernels/lib/accumulate.c).
_ADDABLE = ("u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "c64", "c128", "b8", "bf16")

Arguments = Mapping[str, Any]


def training_only(op: Any) -> str:
    """Reason why an operator is for training only, with a remedy; "" if it is not."""
    if isinstance(op, OpOverload) and op._schema.name in _TRAINING_OPERATORS:
        return f"it normalises with the statistics of each batch, as in training: {EVAL_MODE}"
    return ""


def argument_problem(operator: str, node: fx.Node, op: OpOverload | None) -> str:
    """Reason why our kernel of this operator would refuse the call's argument values, or ""."""
    rule = _RULES.get(operator)
    return rule(_by_name(node, op)) if rule is not None and op is not None else ""


def argument_warning(operator: str, node: fx.Node, op: OpOverload | None) -> str:
    """Warning about a call that our kernel runs as it stands, or ""."""
    if operator != "aten::native_dropout.out" or op is None:
        return ""
    given = _by_name(node, op)
    train, p = given.get("train"), given.get("p")
    # Absent means true, as in torch.
    if train is False or p in (0, 1) or not isinstance(p, (int, float)):
        return ""
    return f"dropout in training mode, p = {p:g}, draws at every run; for inference, {EVAL_MODE}"


def _by_name(node: fx.Node, op: OpOverload) -> dict[str, Any]:
    """Arguments by name, defaults filled in; tensors as their specs."""
    found: dict[str, Any] = {}
    for i, argument in enumerate(op._schema.arguments):
        if i < len(node.args):
            found[argument.name] = _known(node.args[i])
        elif argument.name in node.kwargs:
            found[argument.name] = _known(node.kwargs[argument.name])
        elif argument.has_default_value():
            found[argument.name] = argument.default_value
    return found


def _known(value: Any) -> Any:
    return value.meta.get("spec") if isinstance(value, fx.Node) else value


def _batch_norm_without_statistics(given: Arguments) -> str:
    if given.get("training") is not False:
        return ""
    return "batch norm without running statistics needs training=True"


def _accumulates(name: str) -> Callable[[Arguments], str]:
    """Rule for adding to `name` in place: only if `accumulate` is set, if the operator has it."""

    def rule(given: Arguments) -> str:
        spec = given.get(name)
        if given.get("accumulate") is False or not isinstance(spec, TensorSpec):
            return ""
        dtype = short_name(spec.dtype)
        if dtype in _ADDABLE:
            return ""
        return f"values of dtype {dtype} cannot be added; cast to one of {', '.join(_ADDABLE)}"

    return rule


def _dropout_of_attention(given: Arguments) -> str:
    p = given.get("dropout_p")
    if not isinstance(p, (int, float)) or p == 0:
        return ""
    return f"attention that drops weights (dropout_p = {p:g}) is for training: {EVAL_MODE}"


_RULES: dict[str, Callable[[Arguments], str]] = {
    "aten::_native_batch_norm_legit.no_stats_out": _batch_norm_without_statistics,
    "aten::index_put.out": _accumulates("self"),
    "aten::index_put_": _accumulates("self"),
    "aten::scatter_add.out": _accumulates("self"),
    "executorch_py::scaled_dot_product_attention.out": _dropout_of_attention,
}
