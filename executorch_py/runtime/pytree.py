"""Nested structures of inputs and outputs, without torch.

The module parses the JSON tree that PyTorch's pytree writes into program files, flattens nested
arguments to a method's list of inputs, and unflattens its list of outputs. It supports tuples,
lists, dicts, OrderedDict, defaultdict, deque and named tuples. A tree with any other node is None,
and callers then use flat lists.
"""

from __future__ import annotations

import json
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from executorch_py.terminal_text import shortened

_MAPPINGS = {
    "builtins.dict": dict,
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": dict,
}
_SEQUENCES: dict[str, Any] = {
    **{"builtins.tuple": tuple, "builtins.list": list, "collections.deque": deque},
    "collections.namedtuple": tuple,
}
# Default factories that a file may contain by name.
_FACTORIES = {cls.__name__: cls for cls in (list, dict, set, tuple, int, float, str, bool)}


def _listed(keys: Iterable[Any]) -> str:
    return ", ".join(sorted(map(_key, keys))) or "none"


def _key(key: Any) -> str:
    return shortened(repr(key))


class Tree:
    """One node: its type name (None for a leaf), the keys of its children, the children."""

    __slots__ = ("children", "cls", "keys", "kind", "n_leaves")

    def __init__(
        self, kind: str | None, keys: Sequence[Any], children: Sequence[Tree], cls: Any = None
    ) -> None:
        self.kind = kind
        self.cls = cls  # class of a named tuple, or default factory of a defaultdict
        self.keys = tuple(keys)
        self.children = tuple(children)
        self.n_leaves: int = 1 if kind is None else sum(child.n_leaves for child in children)

    def flatten(self, value: Any, path: str = "") -> list[Any]:
        """The leaves of a value with this structure; TypeError names the place of a difference."""
        if self.kind is None:
            return [value]
        leaves: list[Any] = []
        for child, key, item in self._items(value, path):
            leaves.extend(child.flatten(item, f"{path}[{_key(key)}]"))
        return leaves

    def _items(self, value: Any, path: str) -> Iterator[tuple[Tree, Any, Any]]:
        where = path or "the inputs"
        if self.kind in _MAPPINGS:
            if not isinstance(value, Mapping):
                raise TypeError(f"{where}: expected a dict, got a {type(value).__name__}")
            if set(value) != set(self.keys):
                raise TypeError(f"{where}: expected {_listed(self.keys)}, got {_listed(value)}")
            return zip(self.children, self.keys, (value[key] for key in self.keys), strict=True)
        expected = _SEQUENCES[str(self.kind)]
        if not isinstance(value, expected):
            raise TypeError(
                f"{where}: expected a {expected.__name__}, got a {type(value).__name__}"
            )
        if len(value) != len(self.children):
            raise TypeError(f"{where}: expected {len(self.children)} items, got {len(value)}")
        return zip(self.children, range(len(value)), value, strict=True)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The value with this structure and these leaves."""
        if len(leaves) != self.n_leaves:
            raise TypeError(f"expected {self.n_leaves} leaves, got {len(leaves)}")
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        items = [child._build(leaves) for child in self.children]
        if self.kind in _MAPPINGS:
            pairs = zip(self.keys, items, strict=True)
            if self.kind == "collections.defaultdict":
                return defaultdict(self.cls, pairs)
            return _MAPPINGS[self.kind](pairs)
        if self.kind == "collections.namedtuple":
            return self.cls(*items)
        return _SEQUENCES[self.kind](items)

    def paths(self, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The path of keys to each leaf."""
        if self.kind is None:
            yield prefix
        for i, child in enumerate(self.children):
            key = self.keys[i] if self.kind in _MAPPINGS else i
            yield from child.paths((*prefix, key))


def _named_tuple_class(context: Any, n_fields: int) -> Any:
    """The class of a named tuple if its module is loaded; else a new class like it."""
    module, _, name = str(context).rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    # The name comes from a file: only a class of named tuples of the right size may be called.
    is_tuple = isinstance(found, type) and issubclass(found, tuple)
    if is_tuple and len(getattr(found, "_fields", ())) == n_fields:
        return found
    fields = [f"field_{i}" for i in range(n_fields)]
    return namedtuple(name if name.isidentifier() else "Result", fields)


def parse(text: str) -> tuple[Tree | None, dict[str, Any]]:
    """A tree from its JSON text, and the root's other keys; (None, {}) for any other text.

    The file format allows any text here, so this function must not raise.
    """
    if not text.startswith("["):
        return None, {}
    try:
        protocol, root = json.loads(text)
        extra = {k: v for k, v in root.items() if k not in ("type", "context", "children_spec")}
        return (_node(root, 0) if protocol == 1 else None), extra
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, {}


def _node(record: dict[str, Any], depth: int) -> Tree:
    if depth > 200:
        raise ValueError("nested too deeply")
    kind = record["type"]
    children = [_node(child, depth + 1) for child in record["children_spec"]]
    if kind is None:
        return Tree(None, (), ())
    if kind == "collections.namedtuple":
        cls = _named_tuple_class(record["context"], len(children))
        return Tree(kind, cls._fields, children, cls)
    if kind in _SEQUENCES:
        return Tree(kind, range(len(children)), children)
    context = record["context"]
    context = json.loads(context) if isinstance(context, str) else context
    factory = None
    if kind == "collections.defaultdict":
        if context["default_factory_module"] == "builtins":
            factory = _FACTORIES.get(context["default_factory_name"])
        context = context["dict_context"]
    if kind in _MAPPINGS:
        if len(context) != len(children):
            raise ValueError(f"expected {len(children)} keys, one per child, got {len(context)}")
        return Tree(kind, context, children, factory)
    raise ValueError(f"unknown node type {kind}")
