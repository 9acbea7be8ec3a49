"""Edge and backend operators: thin, unique wrappers around torch's operator overloads.

`ops.edge.aten.add.Tensor` is the edge form of `torch.ops.aten.add.Tensor`: it calls the same
implementation, but its schema knows which dtype combinations the dialect allows
(dtype_rules.py), and it finds its out variant (ir/out_variants.py). Wrappers are made on first use
and never twice, so they compare by identity. Knows nothing of graphs or passes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch._C import DispatchKey
from torch.library import Library

from executorch_py.exir.dialects.dtype_rules import LEGAL_DTYPES, DtypeRule, dtype_rule
from executorch_py.exir.dialects.quantized_ops import NAMESPACE, register_quantized_ops
from executorch_py.exir.ir.out_variants import find_out_variant

_F = TypeVar("_F", bound=Callable[..., Any])

# Generated code names an operator after its module and name; tests and tools written for
# upstream search that code for "executorch_exir_dialects_edge__ops_aten_add_Tensor".
_EDGE_MODULE_IN_CODE = "executorch.exir.dialects.edge._ops"
_BACKEND_MODULE_IN_CODE = "executorch.exir.dialects.backend._ops"


class EdgeDialectArgument:
    """A tensor argument or return of an edge schema with the dtypes it may have."""

    def __init__(self, argument: torch._C.Argument, allowed_types: frozenset[torch.dtype]) -> None:
        self.argument = argument
        self.allowed_types = allowed_types

    def __getattr__(self, name: str) -> Any:
        if name == "argument":
            raise AttributeError(name)
        return getattr(self.argument, name)


class EdgeDialectFunctionSchema:
    """A torch schema plus the dtype rule of the operator; everything else is the torch schema's."""

    def __init__(self, schema: torch._C.FunctionSchema) -> None:
        self.schema = schema
        self.dtype_constraint: DtypeRule = dtype_rule(schema)
        self.arguments = [self._with_dtypes(arg, arg.name) for arg in schema.arguments]
        self.returns = [
            self._with_dtypes(ret, ret.name or f"__ret_{i}") for i, ret in enumerate(schema.returns)
        ]

    def _with_dtypes(self, argument: torch._C.Argument, name: str) -> Any:
        if "Tensor" not in str(argument.type):
            return argument
        return EdgeDialectArgument(argument, self.dtype_constraint.allowed(name) or LEGAL_DTYPES)

    def __getattr__(self, name: str) -> Any:
        if name == "schema":
            raise AttributeError(name)
        return getattr(self.schema, name)

    def __str__(self) -> str:
        return str(self.schema)


class EdgeOpOverload:
    """One operator overload in the edge dialect; calls forward to the torch overload `_op`."""

    _module_in_code = _EDGE_MODULE_IN_CODE

    def __init__(self, op: torch._ops.OpOverload, schema: EdgeDialectFunctionSchema) -> None:
        self._op = op
        self._schema = schema
        self.__name__ = f"{op.namespace}.{op.__name__}"
        self._name = op._name
        self.namespace = op.namespace
        self.__module__ = self._module_in_code
        self._out_variant: torch._ops.OpOverload | None = None

    def to_out_variant(self) -> torch._ops.OpOverload:
        """The overload that writes into a given tensor; RuntimeError when there is none."""
        if self._out_variant is None:
            self._out_variant = find_out_variant(self._op)
        if self._out_variant is None:
            packet = self._op.overloadpacket
            seen = "; ".join(str(getattr(packet, name)._schema) for name in packet.overloads())
            raise RuntimeError(
                f"out variant of operator {self._name} can't be found. Kernels write into given "
                "memory, so its library has to define an overload with the same arguments and a "
                f"keyword-only 'out'. Overloads seen: {seen}"
            )
        return self._out_variant

    def __getattr__(self, name: str) -> Any:
        if name == "_op":
            raise AttributeError(name)
        return getattr(self._op, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.__name__}>: schema = {self._schema.schema}"

    __str__ = __repr__

    # Operators are singletons: copying a graph must keep them, or targets stop comparing equal.
    def __copy__(self) -> EdgeOpOverload:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> EdgeOpOverload:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve_op, ("edge", self._name)


class EdgeOpOverloadPacket:
    """All overloads of one operator name; an attribute per overload."""

    def __init__(
        self,
        qualified_op_name: str,
        op_name: str,
        parent_overload_packet: torch._ops.OpOverloadPacket,
    ) -> None:
        self._qualified_op_name = qualified_op_name
        self._op_name = op_name
        self._parent_overload_packet = parent_overload_packet
        self._op = parent_overload_packet._op
        self._overload_names = parent_overload_packet._overload_names
        self._dir: list[str] = []
        self.__name__ = qualified_op_name.replace("::", ".")

    def _wrap(self, overload: torch._ops.OpOverload) -> EdgeOpOverload:
        return EdgeOpOverload(overload, EdgeDialectFunctionSchema(overload._schema))

    def __getattr__(self, key: str) -> EdgeOpOverload:
        if key.startswith("__") or key in ("_parent_overload_packet", "_qualified_op_name"):
            raise AttributeError(key)
        overload = getattr(self._parent_overload_packet, key, None)
        if not isinstance(overload, torch._ops.OpOverload):
            raise AttributeError(
                f"operator '{self}' has no overload '{key}'; it has: "
                f"{', '.join(self._parent_overload_packet.overloads())}"
            )
        wrapped = self._wrap(overload)
        setattr(self, key, wrapped)
        self._dir.append(key)
        return wrapped

    @property
    def op(self) -> Any:
        return self._op

    def overloads(self) -> list[str]:
        return list(self._parent_overload_packet.overloads())

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._parent_overload_packet(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self._op)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(op='{self}')>"

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")


class BackendOpOverload(EdgeOpOverload):
    """An operator for a pattern of edge operators; `_equivalent_callable` computes it."""

    _module_in_code = _BACKEND_MODULE_IN_CODE

    def __init__(self, op: torch._ops.OpOverload, schema: EdgeDialectFunctionSchema) -> None:
        super().__init__(op, schema)
        self._equivalent_callable: Callable[..., Any] | None = None
        self._has_meta_kernel = op.has_kernel_for_dispatch_key(DispatchKey.Meta)
        self._has_composite_explicit_autograd_kernel = op.has_kernel_for_dispatch_key(
            DispatchKey.CompositeExplicitAutograd
        )
        self._has_composite_implicit_autograd_kernel = op.has_kernel_for_dispatch_key(
            DispatchKey.CompositeImplicitAutograd
        )
        if not (
            self._has_meta_kernel
            or self._has_composite_explicit_autograd_kernel
            or self._has_composite_implicit_autograd_kernel
        ):
            raise AssertionError(
                f"backend operator {op} can be neither traced nor decomposed: register a "
                "CompositeExplicitAutograd, CompositeImplicitAutograd or Meta kernel for it"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve_op, ("backend", self._name)


class BackendOpOverloadPacket(EdgeOpOverloadPacket):
    """All overloads of one backend operator name."""

    def _wrap(self, overload: torch._ops.OpOverload) -> EdgeOpOverload:
        return BackendOpOverload(overload, EdgeDialectFunctionSchema(overload._schema))


class _OpNamespace(types.ModuleType):
    """Operators of one library (`aten`, `quantized_decomposed`, …) in one dialect."""

    def __init__(self, dialect: str, name: str) -> None:
        super().__init__(f"exir.ops.{dialect}.{name}")
        self._dialect = dialect
        self._name = name
        self._dir: list[str] = []

    def __getattr__(self, op_name: str) -> EdgeOpOverloadPacket:
        if op_name.startswith("__"):
            raise AttributeError(op_name)
        parent = getattr(getattr(torch.ops, self._name), op_name, None)
        if parent is None and self._name == NAMESPACE:
            register_quantized_ops()  # torch defines this library when it is asked to
            parent = getattr(getattr(torch.ops, self._name), op_name, None)
        if parent is None:
            raise AttributeError(
                f"'{self._dialect}.{self._name}' has no operator '{op_name}': torch knows no "
                f"{self._name}::{op_name}; import the library that defines it first"
            )
        packet = _PACKET_OF_DIALECT[self._dialect](f"{self._name}::{op_name}", op_name, parent)
        packet.__module__ = f"{self.__name__}"
        setattr(self, op_name, packet)
        self._dir.append(op_name)
        return packet

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)


class _DialectNamespace(types.ModuleType):
    """All libraries seen through one dialect."""

    def __init__(self, dialect: str) -> None:
        super().__init__(f"exir.ops.{dialect}")
        self._dialect = dialect
        self._dir: list[str] = []

    def __getattr__(self, name: str) -> _OpNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._dialect == "backend" and name not in _BACKEND_LIBRARIES:
            raise RuntimeError(
                f"'{name}' is not a library of backend operators; register its operators with "
                "bind_pattern_to_op"
            )
        namespace = _OpNamespace(self._dialect, name)
        setattr(self, name, namespace)
        self._dir.append(name)
        return namespace


class _Ops(types.ModuleType):
    """`ops.edge` and `ops.backend`."""

    def __init__(self) -> None:
        super().__init__("exir.ops")
        self.edge = _DialectNamespace("edge")
        self.backend = _DialectNamespace("backend")

    def __iter__(self) -> Iterator[str]:
        return iter(_PACKET_OF_DIALECT)


_PACKET_OF_DIALECT: dict[str, type[EdgeOpOverloadPacket]] = {
    "edge": EdgeOpOverloadPacket,
    "backend": BackendOpOverloadPacket,
}
_BACKEND_LIBRARIES = ["executorch_prim", "quantized_decomposed", "DO_NOT_USE_TEST_ONLY"]

ops = _Ops()


def resolve_op(dialect: str, qualified_name: str) -> EdgeOpOverload:
    """The operator named `namespace::name.overload` in a dialect ("edge" or "backend")."""
    namespace, _, rest = qualified_name.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(getattr(ops, dialect), namespace), name)
    found: EdgeOpOverload = getattr(packet, overload or "default")
    return found


def edge_op(op: torch._ops.OpOverload) -> EdgeOpOverload:
    """The edge form of a torch operator overload."""
    packet = getattr(getattr(ops.edge, op.namespace), op._schema.name.split("::")[1])
    found: EdgeOpOverload = getattr(packet, op._overloadname)
    return found


def bind_pattern_to_op(library: Library, schema_or_name: str) -> Callable[[_F], _F]:
    """Decorator: make the decorated function the meaning of a backend operator of `library`.

    `schema_or_name` defines the operator ("add_relu(Tensor a, Tensor b) -> Tensor") or names one
    that is already defined. Unless it has a composite or Meta kernel the function becomes its
    CompositeImplicitAutograd kernel, so that re-tracing decomposes it.
    """

    def bind(function: _F) -> _F:
        if library.ns not in _BACKEND_LIBRARIES:
            _BACKEND_LIBRARIES.append(library.ns)
        local = schema_or_name.split("::", 1)[-1] if "(" not in schema_or_name else schema_or_name
        if "(" in local:
            qualifier, paren, _ = local.partition("(")
            local = qualifier.split("::")[-1] + local[len(qualifier) :] if paren else local
            library.define(local)
        name, _, overload = local.partition("(")[0].strip().partition(".")
        torch_op = getattr(getattr(getattr(torch.ops, library.ns), name), overload or "default")
        keys = (
            DispatchKey.CompositeExplicitAutograd,
            DispatchKey.CompositeImplicitAutograd,
            DispatchKey.Meta,
        )
        if not any(torch_op.has_kernel_for_dispatch_key(key) for key in keys):
            library.impl(
                f"{name}.{overload}" if overload else name, function, "CompositeImplicitAutograd"
            )
        bound = getattr(getattr(getattr(ops.backend, library.ns), name), overload or "default")
        bound._equivalent_callable = function
        return function

    return bind
