"""A method's signature: names, dtypes and bounds of its inputs and outputs, and their structure.

This project's exporter writes names and bounds into the file (the `signature` key of the input
structure). For other files they are derived from the structure and the plan's upper bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from executorch_py.runtime import pytree
from executorch_py.terminal_text import name_text, quoted, quoted_list, shortened

# Names of dtypes in NumPy and torch, by the short names in C and in signatures.
DTYPE_NAMES = {
    **{"u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"},
    **{"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "b8": "bool"},
    **{"c32": "complex32", "c64": "complex64", "c128": "complex128"},
    **{"u16": "uint16", "u32": "uint32", "u64": "uint64"},
    **{"f8e5m2": "float8_e5m2", "f8e4m3": "float8_e4m3fn"},
    **{"f8e5m2z": "float8_e5m2fnuz", "f8e4m3z": "float8_e4m3fnuz"},
}
_KINDS = {"Tensor": "tensor", "Int": "int", "Double": "float", "Bool": "bool", "String": "str"}

Dim = int | tuple[int, int]
SIZE_LIMIT = 2**31  # sizes are 32-bit in the file format


class Follows(NamedTuple):
    """Dependence of a size on a symbol: size == scale * (value of the symbol) + offset."""

    symbol: str
    scale: int = 1
    offset: int = 0


class Argument(NamedTuple):
    """One input or output. `shape` items are sizes or (smallest, largest) bounds.

    `kind` is `tensor`, `int`, `float`, `bool`, `str`, `none` or `list`. `value` is the traced value
    of an input that is not a tensor, the only one allowed, if the file has it. `follows` has for
    each dim the symbol on which its size depends; it is None if the file has no bounds.
    """

    name: str
    kind: str
    dtype: str | None = None
    shape: tuple[Dim, ...] | None = None
    value: Any = None
    follows: tuple[Follows | None, ...] | None = None

    def __str__(self) -> str:
        if self.kind != "tensor" or self.shape is None:
            value = "" if self.value is None else f" = {shortened(repr(self.value))}"
            return f"{name_text(self.name)}: {self.kind}{value}"
        dims = ", ".join(str(d) if isinstance(d, int) else f"{d[0]}…{d[1]}" for d in self.shape)
        return f"{name_text(self.name)}: {self.dtype}[{dims}]"


class Signature:
    """Inputs and outputs of one method, in the flat order of `execute`, and their structure."""

    __slots__ = ("input_tree", "inputs", "method", "output_tree", "outputs")

    def __init__(self, info: dict[str, Any]) -> None:
        self.method: str = info["name"]
        tree, extra = pytree.parse(info["input_structure"])
        out_tree, _ = pytree.parse(info["output_structure"])
        given = extra.get("signature")
        given = given if isinstance(given, dict) else {}
        self.input_tree = tree if tree and tree.n_leaves == len(info["inputs"]) else None
        self.output_tree = (
            out_tree if out_tree and out_tree.n_leaves == len(info["outputs"]) else None
        )
        names = _names_from_paths(self.input_tree)
        self.inputs = _arguments(info["inputs"], given.get("inputs"), names or "input")
        self.outputs = _arguments(info["outputs"], given.get("outputs"), "output")

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.outputs)

    def input_bounds(self) -> list[list[tuple[int, int, int, int, int]] | None]:
        """Bounds of each input: None, or (smallest, largest, symbol, scale, offset) per dim.

        An input has None if the plan has all bounds: no tensor, a static tensor, or a file without
        bounds. Symbols are numbers; -1 is a symbol that no other dim depends on.
        """
        dims = [f for argument in self.inputs for f in argument.follows or () if f is not None]
        uses = Counter(follows.symbol for follows in dims)
        shared = {f.symbol for f in dims if uses[f.symbol] > 1 or f.scale != 1}
        numbers = {symbol: i for i, symbol in enumerate(sorted(shared))}
        bounds: list[list[tuple[int, int, int, int, int]] | None] = []
        for argument in self.inputs:
            if argument.follows is None or all(isinstance(d, int) for d in argument.shape or ()):
                bounds.append(None)
                continue
            sizes = []
            for dim, follows in zip(argument.shape or (), argument.follows, strict=True):
                lower, upper = (dim, dim) if isinstance(dim, int) else dim
                symbol, scale, offset = follows or Follows("")
                sizes.append((lower, upper, numbers.get(symbol, -1), scale, offset))
            bounds.append(sizes)
        return bounds

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Arguments in the model's structure as the flat list of inputs."""
        if self.input_tree is None:
            if kwargs:
                raise TypeError(
                    f"method {quoted(self.method)}: expected positional arguments, got keyword "
                    f"arguments {sorted(kwargs)}, whose names the file does not have (its input "
                    "structure is missing or unreadable): pass all inputs by position"
                )
            return list(args)
        placed, named = self._positional_by_name(args, kwargs)
        try:
            return self.input_tree.flatten((placed, named))
        except TypeError as error:
            problem = self._wrong_call(args, kwargs) or _readable(str(error))
            names = ", ".join(map(str, self.inputs))
            raise TypeError(
                f"method {quoted(self.method)}: {problem} (its inputs: {names})"
            ) from None

    def _wrong_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Inputs of a call that are unknown, missing or too many; None for any other mistake."""
        assert self.input_tree is not None
        paths = list(self.input_tree.paths())
        if any(len(path) != 2 for path in paths):
            return None  # an input is a nested structure
        wanted = list(self.input_names)
        taken = wanted[: len(args)]
        if len(args) > len(wanted):
            return f"expected {_count(wanted)}, got {len(args)}"
        if len(args) == 1 < len(wanted) and isinstance(args[0], (list, tuple)) and not kwargs:
            return (
                f"expected {_count(wanted)}, got one {type(args[0]).__name__} of {len(args[0])}: "
                "write method(*inputs) or method.execute(inputs)"
            )
        unknown = [name for name in kwargs if name not in wanted]
        if unknown:
            return f"expected inputs {quoted_list(wanted)}, got {quoted(unknown[0])}"
        twice = [name for name in kwargs if name in taken]
        if twice:
            return f"expected input {quoted(twice[0])} once, got it by position and by name"
        missing = [name for name in wanted[len(args) :] if name not in kwargs]
        given = [*taken, *kwargs]
        return f"expected {_count(wanted)}, got {quoted_list(given)}" if missing else None

    def _positional_by_name(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments in which inputs that were exported by position may be passed by name."""
        assert self.input_tree is not None
        paths = [path for path in self.input_tree.paths() if path[0] == 0]
        if len(args) >= len(paths) or any(len(path) != 2 for path in paths):
            return args, kwargs  # all inputs are there, or one is a nested structure
        names = [argument.name for argument in self.inputs[len(args) : len(paths)]]
        if any(name not in kwargs for name in names):
            return args, kwargs
        rest = {name: value for name, value in kwargs.items() if name not in names}
        return (*args, *(kwargs[name] for name in names)), rest

    def unflatten(self, outputs: Sequence[Any]) -> Any:
        """The flat outputs in the model's structure; the list itself if that is unknown."""
        return outputs if self.output_tree is None else self.output_tree.unflatten(outputs)

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        return f"{name_text(self.method)}({inputs}) -> ({outputs})"

    def __repr__(self) -> str:
        return f"<Signature {self}>"


def _count(names: Sequence[str]) -> str:
    return f"{len(names)} input{'' if len(names) == 1 else 's'} {quoted_list(names)}"


def _readable(message: str) -> str:
    """The message with words for the paths [0], positional, and [1], keyword arguments."""
    if message.startswith("[0]"):
        return "positional arguments" + message[3:]
    return "keyword arguments" + message[3:] if message.startswith("[1]") else message


def _names_from_paths(tree: pytree.Tree | None) -> list[str]:
    """Names of inputs: those of keyword arguments, and numbers for positional arguments."""
    if tree is None:
        return []
    names = []
    for i, path in enumerate(tree.paths()):
        keyword = len(path) > 1 and path[0] == 1
        names.append(".".join(map(str, path[1:])) if keyword else f"input_{i}")
    return names


def _arguments(
    values: list[dict[str, Any]], given: Any, names: list[str] | str
) -> tuple[Argument, ...]:
    usable = isinstance(given, list) and len(given) == len(values)
    return tuple(
        _argument(
            value,
            given[i] if usable and isinstance(given[i], dict) else {},
            f"{names}_{i}" if isinstance(names, str) else names[i],
        )
        for i, value in enumerate(values)
    )


def _argument(info: dict[str, Any], given: dict[str, Any], name: str) -> Argument:
    """An argument with kind and dtype of the plan, and names and bounds of the signature."""
    name = str(given.get("name") or name)
    kind = _KINDS.get(info["tag"], "none" if info["tag"] == "None" else "list")
    if kind != "tensor":
        return Argument(name, kind, value=given.get("value"))
    sizes = info["sizes"]
    shape: tuple[Dim, ...] = tuple((0, size) if info["dynamic"] else size for size in sizes)
    bounds = given.get("shape")
    if not isinstance(bounds, list) or len(bounds) != len(sizes):
        return Argument(name, kind, str(info["dtype_name"]), shape)
    dims = [_dim(bound, size) for bound, size in zip(bounds, sizes, strict=True)]
    shape = tuple(dim for dim, _ in dims)
    return Argument(
        name, kind, str(info["dtype_name"]), shape, follows=tuple(follows for _, follows in dims)
    )


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < SIZE_LIMIT


def _dim(bound: Any, size: int) -> tuple[Dim, Follows | None]:
    """One size of the signature: a number, or [smallest, largest] and its symbol.

    Any other value is ignored, and the plan's upper bound holds.
    """
    if _is_size(bound) and bound <= size:
        return int(bound), None
    if not isinstance(bound, list) or len(bound) not in (2, 3, 5):
        return (0, size), None
    lower, upper, *rest = bound
    if not (_is_size(lower) and _is_size(upper) and lower <= upper <= size):
        return (0, size), None
    if not rest:
        return (lower, upper), None
    follows = Follows(*rest)
    known = isinstance(follows.symbol, str) and type(follows.scale) is type(follows.offset) is int
    if not known or not 1 <= follows.scale < SIZE_LIMIT or abs(follows.offset) >= SIZE_LIMIT:
        return (lower, upper), None
    return (lower, upper), follows
