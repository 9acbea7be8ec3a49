"""Values of re-tracing passes: results with their proxies, node metadata, results of passes.

Shared vocabulary of ExportPass and of users' passes; knows nothing of tracing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

Fn = Callable[..., Any]
Argument = Any
Value = Any
NodeMetadataValue = Any
PassType = Callable[[torch.fx.GraphModule], PassResult | None]

# Meta that describes what a node computes; only the pass machinery may write it.
PROTECTED_KEYS = frozenset({"val", "stack_trace", "nn_module_stack", "debug_handle", "tensor_meta"})


class ExportPassBaseError(RuntimeError):
    """An operation of a pass, or a graph, that re-tracing does not support."""


class NodeMetadata:
    """A copy of a node's meta, for the hooks of a pass."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data: dict[str, Any] = data.copy()

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key in PROTECTED_KEYS:
            raise RuntimeError(f"Could not override node key: {key}")
        self.data[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def copy(self) -> NodeMetadata:
        return NodeMetadata(self.data)


class ProxyValue:
    """A value of the program being re-traced: the fake result and the node that makes it."""

    def __init__(self, data: Any, proxy: torch.fx.Proxy | torch.fx.Node) -> None:
        self.data = data
        self.proxy_or_node = proxy

    @property
    def node(self) -> torch.fx.Node:
        if isinstance(self.proxy_or_node, torch.fx.Node):
            return self.proxy_or_node
        return self.proxy_or_node.node

    @property
    def proxy(self) -> torch.fx.Proxy:
        if not isinstance(self.proxy_or_node, torch.fx.Proxy):
            raise RuntimeError(
                "ProxyValue doesn't have attached Proxy object. "
                f"Node: {self.proxy_or_node.format_node()}"
            )
        return self.proxy_or_node

    def to_tensor(self) -> torch.Tensor:
        assert isinstance(self.data, torch.Tensor)
        return self.data

    def is_tensor(self) -> bool:
        return isinstance(self.data, torch.Tensor)

    def _number(self, kinds: tuple[type, ...], use: str) -> Any:
        if isinstance(self.data, kinds):
            raise ExportPassBaseError(
                f"ProxyValue with {type(self.data).__name__} data cannot be {use}: its value is "
                "only known when the program runs."
            )
        return self.data

    def __iter__(self) -> Iterator[Any]:
        yield from self.data

    def __bool__(self) -> bool:
        kinds = (torch.SymInt, torch.SymFloat, torch.SymBool)
        return bool(self._number(kinds, "used in boolean context"))

    def __int__(self) -> int:
        return int(self._number((torch.SymInt,), "converted to int"))

    def __float__(self) -> float:
        return float(self._number((torch.SymFloat,), "converted to float"))

    def __index__(self) -> int:
        return int(self._number((torch.SymInt,), "used in index context"))


@dataclass(frozen=True)
class ExportedProgramPassResult:
    """The result of a pass over an ExportedProgram."""

    exported_program: ExportedProgram
    modified: bool


class ExportedProgramPassBase(ABC):
    """A pass over a whole program: graph, signature, constants."""

    def __call__(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Check `requires`, run `call`, check `ensures` on its result."""
        self.requires(exported_program)
        result = self.call(exported_program)
        self.ensures(result.exported_program)
        return result

    @abstractmethod
    def call(self, exported_program: ExportedProgram) -> ExportedProgramPassResult:
        """Run the pass on a program."""

    def requires(self, exported_program: ExportedProgram) -> None:  # noqa: B027
        """Check preconditions; nothing unless overridden."""

    def ensures(self, exported_program: ExportedProgram) -> None:  # noqa: B027
        """Check postconditions; nothing unless overridden."""


@runtime_checkable
class ArgSchema(Protocol):
    """The part of a schema argument that `map_args` shows to its function."""

    name: str
    kwarg_only: bool
    type: Any


def map_args(
    op: Any, fn: Fn, args: Argument, kwargs: dict[str, Argument]
) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    """Replace each given argument of a call of `op` by fn(argument, its schema)."""
    new_args, new_kwargs = list(args), dict(kwargs)

    def update(holder: MutableMapping[Any, Any] | list[Any], key: Any, schema: Any) -> None:
        holder[key] = fn(holder[key], schema)

    for i, schema in enumerate(op._schema.arguments):
        if schema.name in new_kwargs:
            update(new_kwargs, schema.name, schema)
        elif not schema.kwarg_only and i < len(new_args):
            update(new_args, i, schema)
    return tuple(new_args), new_kwargs
