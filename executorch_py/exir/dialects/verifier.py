"""Verifiers of the ATen and edge dialects.

`EXIREdgeDialectVerifier(...)` gives a verifier (or its class, for `ExportedProgram(verifiers=…)`)
that checks a whole graph: kinds of operators, membership in the core operator set, dim-order
operators exactly in dim-order mode, contiguous parameters, dtype combinations. It reads
`meta["val"]` and runs nothing, so it is cheap enough for every stage end.
"""

from __future__ import annotations

import dataclasses
import logging
import operator
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

import torch
from torch._export.verifier import SpecViolationError, Verifier
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from executorch_py.exir.dialects.dim_order import DimOrderOpsMap
from executorch_py.exir.dialects.edge_ops import EdgeOpOverload, edge_op
from executorch_py.exir.dialects.sym_ops import KEPT_AS_TORCH_OPS
from executorch_py.exir.ir.graph import source_line
from executorch_py.exir.ir.graph_modules import graph_modules
from executorch_py.exir.ir.runtime_kernels import has_linked_kernel
from executorch_py.exir.target.argument_rules import training_only

logger = logging.getLogger(__name__)

_aten = torch.ops.aten
# Operators outside the core set that the runtimes have kernels or delegates for.
_CORE_EXCEPTIONS: frozenset[Any] = KEPT_AS_TORCH_OPS | {
    _aten.mkldnn_rnn_layer.default,
    _aten._upsample_bilinear2d_aa.default,
    _aten.quantize_per_tensor.default,
    _aten.dequantize.self,
    _aten.max.default,
    _aten.min.default,
    _aten.full_like.default,
}


class VerifierConfig(Protocol):
    """The settings that the rules depend on; EdgeCompileConfig has them."""

    @property
    def _check_ir_validity(self) -> bool: ...
    @property
    def _skip_dim_order(self) -> bool: ...
    @property
    def _core_aten_ops_exception_list(self) -> Sequence[Any]: ...
    @property
    def preserve_ops(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class _Rules:
    enabled: bool
    use_dim_order: bool | None  # None: layouts may be dim orders and memory formats
    exceptions: frozenset[Any]
    preserved: frozenset[Any]
    # Whether torch operators are read as the edge operators that they stand for.
    accepts_torch: bool = False


def _rules(
    config: VerifierConfig | None,
    exceptions: Sequence[Any] | None,
    preserved: Sequence[Any] | None,
) -> _Rules:
    if config is None:
        return _Rules(True, True, frozenset(exceptions or ()), frozenset(preserved or ()))
    return _Rules(
        config._check_ir_validity,
        not config._skip_dim_order,
        frozenset([*(exceptions or ()), *config._core_aten_ops_exception_list]),
        frozenset([*(preserved or ()), *config.preserve_ops]),
    )


def is_core_aten(op: Any) -> bool:
    """Whether an operator is accepted without being listed; those of other libraries always are."""
    if not isinstance(op, OpOverload) or op.namespace != "aten" or op in _CORE_EXCEPTIONS:
        return True
    if torch.Tag.core in op.tags or torch.Tag.view_copy in op.tags:
        return True
    return has_linked_kernel(op)  # the manifest checks the program's own target


def _check_core_aten(op: Any, rules: _Rules) -> None:
    """Refuse a torch operator that is not core ATen, not in the runtime and not allowed by name."""
    if not isinstance(op, OpOverload) or op in rules.exceptions:
        return
    if op in rules.preserved:
        if op.is_view:
            raise RuntimeError(f"Cannot preserve operator {op} because it is a view.")
        if op._schema.is_mutable:
            logger.warning("preserving %s has no effect: decomposition makes it functional", op)
        return
    if not is_core_aten(op):
        reason = training_only(op)
        raise SpecViolationError(
            f"Operator {op} is not in Core ATen opset"
            + (f", and {reason}. " if reason else ". ")
            + "If your backend or a linked kernel handles it, allow it by name: "
            f"EdgeCompileConfig(_core_aten_ops_exception_list=[torch.ops.{op}]). If it appears "
            "only because the model was exported for training, export under torch.no_grad(). "
            "Otherwise add a decomposition for it."
        )


def _check_edge_operator(op: Any, rules: _Rules) -> None:
    if op is operator.getitem or op in KEPT_AS_TORCH_OPS or op in rules.exceptions:
        return
    if isinstance(op, OpOverload) and rules.accepts_torch:
        op = edge_op(op)
    if isinstance(op, EdgeOpOverload):
        if rules.use_dim_order is True and op in DimOrderOpsMap:
            raise SpecViolationError(f"{op.__name__} should not be used in dim_order mode")
        if rules.use_dim_order is False and op.namespace == "dim_order_ops":
            raise SpecViolationError(f"{op.__name__} should not be used in non-dim_order mode")
        _check_core_aten(op._op, rules)
    elif isinstance(op, OpOverload):
        raise SpecViolationError(f"Operator {op} is not an Edge operator.")
    elif isinstance(op, types.FunctionType) and op.__name__ not in _TORCH_FUNCTIONS:
        raise SpecViolationError(f"Function {op.__module__}.{op.__name__} is not an operator.")


# Memory functions of later stages, and numbers: the only Python functions of a graph.
_TORCH_FUNCTIONS = frozenset(
    {"alloc", "view", "free", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not"}
    | {"sym_sqrt", "sym_sum", "_sym_sqrt"}
)


def _where(node: Node) -> str:
    line = source_line(node)
    return f"node '{node.name}' ({node.target})" + (f", from {line}" if line else "")


def _argument(node: Node, index: int, name: str, kwarg_only: bool) -> Any:
    if name in node.kwargs:
        return node.kwargs[name]
    return node.args[index] if not kwarg_only and index < len(node.args) else None


def _dtype_of(value: Any) -> torch.dtype | None:
    if isinstance(value, Node):
        value = value.meta.get("val")
    if isinstance(value, (list, tuple)) and value:
        return _dtype_of(value[0])
    return value.dtype if isinstance(value, torch.Tensor) else None


@cache
def _tensor_arguments(op: EdgeOpOverload) -> tuple[tuple[int, str, bool], ...]:
    return tuple(
        (i, arg.name, arg.kwarg_only)
        for i, arg in enumerate(op._schema.schema.arguments)
        if "Tensor" in str(arg.type) and "List[Optional" not in str(arg.type)
    )


def tensor_dtypes(node: Node, op: Any = None) -> dict[str, torch.dtype | None]:
    """Dtypes of the tensor arguments and returns of a call, by schema name.

    op: the edge operator that the call stands for, by default its target.
    """
    op = node.target if op is None else op
    found = {n: _dtype_of(_argument(node, i, n, k)) for i, n, k in _tensor_arguments(op)}
    value = node.meta.get("val")
    results = value if isinstance(value, (list, tuple)) else [value]
    returns = op._schema.schema.returns
    if len(returns) == 1:
        found[returns[0].name or "ret0"] = _dtype_of(results)
    else:
        for i, (ret, result) in enumerate(zip(returns, results, strict=False)):
            found[ret.name or f"ret{i}"] = _dtype_of(result)
    return found


def _dtype_violations(gm: GraphModule, rules: _Rules) -> Iterator[str]:
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            op: Any = node.target if node.op == "call_function" else None
            if rules.accepts_torch and isinstance(op, OpOverload) and op not in KEPT_AS_TORCH_OPS:
                op = edge_op(op)
            if not isinstance(op, EdgeOpOverload):
                continue
            dtypes = tensor_dtypes(node, op)
            if not op._schema.dtype_constraint.validate(dtypes):
                shown = ", ".join(f"{name}: {dtype}" for name, dtype in dtypes.items())
                yield f"{_where(node)} with {shown}"


def _check_contiguous(gm: GraphModule) -> None:
    for name, tensor in [*gm.named_parameters(), *gm.named_buffers()]:
        if not tensor.is_contiguous():
            raise SpecViolationError(
                f"Tensors in Aten dialect must be contiguous, {name} is not contiguous"
            )


def _check_named(gm: GraphModule, check: Any, rules: _Rules) -> None:
    """Check every call, and say in which node and source line a violation is."""
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            if node.op != "call_function":
                continue
            try:
                check(node.target, rules)
            except SpecViolationError as error:
                raise SpecViolationError(f"{error}\nIn {_where(node)}.") from None


class _DialectVerifier(Verifier):
    """Base of the verifiers of both dialects."""

    dialect = "EXIR_COMMON"
    rules = _Rules(True, True, frozenset(), frozenset())

    def allowed_getattr_types(self) -> tuple[type[Any], ...]:
        return (GraphModule, torch.nn.Module, torch.Tensor, torch.ScriptObject)

    def is_valid(self, gm: GraphModule) -> bool:
        """Whether the graph keeps all rules."""
        try:
            self(gm)
        except SpecViolationError:
            return False
        return True

    def __call__(self, ep_or_gm: ExportedProgram | GraphModule) -> None:
        raise NotImplementedError


class EXIRATenDialectVerifierBase(_DialectVerifier):
    """ATen dialect without the membership check."""

    dialect = "OLD_EXIR_ATEN_DISABLED"

    def allowed_op_types(self) -> tuple[type[Any], ...]:
        return (*super().allowed_op_types(), torch._ops.OpOverloadPacket)

    def __call__(self, ep_or_gm: ExportedProgram | GraphModule) -> None:
        self._check_graph_module(_graph_module(ep_or_gm))


class _ATenVerifier(EXIRATenDialectVerifierBase):
    dialect = "OLD_EXIR_ATEN"

    def check_valid_op(self, op: Any) -> None:
        _check_core_aten(op, self.rules)

    def __call__(self, ep_or_gm: ExportedProgram | GraphModule) -> None:
        gm = _graph_module(ep_or_gm)
        _check_named(gm, _check_core_aten, self.rules)
        self._check_graph_module(gm)


class _EdgeVerifier(_DialectVerifier):
    dialect = "EDGE"

    @property
    def enable(self) -> bool:
        return self.rules.enabled

    @property
    def use_dim_order(self) -> bool:
        return bool(self.rules.use_dim_order)

    def allowed_op_types(self) -> tuple[type[Any], ...]:
        return (*super().allowed_op_types(), EdgeOpOverload, types.FunctionType)

    def check_valid_op(self, op: Any) -> None:
        if self.enable:
            _check_edge_operator(op, self.rules)

    check_valid_edge_op = check_valid_op

    def check_valid_aten_op(self, op: Any) -> None:
        _check_core_aten(op, self.rules)

    def check_additional(self, gm: GraphModule) -> None:
        if not self.enable:
            return
        _check_contiguous(gm)
        violations = list(_dtype_violations(gm, self.rules))
        if violations:
            raise SpecViolationError(
                "These operators are taking Tensor inputs with mismatched dtypes:\n"
                + "\n".join(violations)
                + "\nCast the inputs to a combination that the operator supports."
            )

    def __call__(self, ep_or_gm: ExportedProgram | GraphModule) -> None:
        if not self.enable:
            return
        gm = _graph_module(ep_or_gm)
        _check_named(gm, _check_edge_operator, self.rules)
        self._check_graph_module(gm)


def _graph_module(ep_or_gm: ExportedProgram | GraphModule) -> GraphModule:
    return ep_or_gm.graph_module if isinstance(ep_or_gm, ExportedProgram) else ep_or_gm


class _UncheckedEdgeVerifier(_EdgeVerifier):
    dialect = "EDGE"
    rules = _Rules(False, True, frozenset(), frozenset())


_UNCHECKED: dict[str, type[_DialectVerifier]] = {"EDGE": _UncheckedEdgeVerifier}


@lru_cache(maxsize=64)
def _class_with(base: type[_DialectVerifier], name: str, rules: _Rules) -> type[_DialectVerifier]:
    metaclass: Any = type(base)
    made: type[_DialectVerifier] = metaclass(
        name, (base,), {"dialect": base.dialect, "rules": rules}
    )
    # Torch finds the verifier of a saved program by dialect, and the class made last would win;
    # a loaded program was checked when it was made.
    metaclass._registry[base.dialect] = _UNCHECKED.get(base.dialect, made)
    return made


def EXIRATenDialectVerifier(
    edge_compile_config: VerifierConfig | None = None,
    class_only: bool = False,
    core_aten_ops_exception_list: list[OpOverload] | None = None,
    preserve_ops: list[OpOverload] | None = None,
) -> Any:
    """A verifier of the ATen dialect, or its class."""
    rules = _rules(edge_compile_config, core_aten_ops_exception_list, preserve_ops)
    made = _class_with(_ATenVerifier, "EXIRATenDialectVerifier", rules)
    return made if class_only else made()


def EXIREdgeDialectVerifier(
    edge_compile_config: VerifierConfig | None = None,
    class_only: bool = False,
    core_aten_ops_exception_list: list[OpOverload] | None = None,
    preserve_ops: list[OpOverload] | None = None,
) -> Any:
    """A verifier of the edge dialect, or its class; does nothing without `_check_ir_validity`."""
    rules = _rules(edge_compile_config, core_aten_ops_exception_list, preserve_ops)
    made = _class_with(_EdgeVerifier, "EXIREdgeDialectVerifier", rules)
    return made if class_only else made()


def accepting_torch(verifier: type[Verifier], any_layout: bool = False) -> Any:
    """A verifier with the rules of an edge program, for a graph into which passes inserted torch
    operators, with `any_layout` those with memory formats, too.

    None if the program's verifier is no edge verifier or checks nothing.
    """
    if not issubclass(verifier, _EdgeVerifier) or not verifier.rules.enabled:
        return None
    made, rules = verifier(), dataclasses.replace(verifier.rules, accepts_torch=True)
    made.rules = dataclasses.replace(rules, use_dim_order=None) if any_layout else rules
    return made


def accepting(verifier: type[Verifier], ops: Sequence[OpOverload]) -> type[Verifier]:
    """The verifier of an edge program that accepts further operators."""
    if not issubclass(verifier, _EdgeVerifier):
        return verifier
    rules = dataclasses.replace(
        verifier.rules, exceptions=verifier.rules.exceptions | frozenset(ops)
    )
    return _class_with(_EdgeVerifier, verifier.__name__, rules)


def get_aten_verifier(config: VerifierConfig) -> Any:
    """The class of the ATen verifier for `config`."""
    if config._check_ir_validity:
        return EXIRATenDialectVerifier(config, class_only=True)
    return EXIRATenDialectVerifierBase
