"""The sizes at which a program with dynamic shapes is checked, and inputs of those sizes.

Sizes come from an exported program's range constraints: the given sizes, every dynamic dimension at
its minimum, middle and maximum while the others keep the given size, and all of them at once at
each of the three. A minimum of 0 becomes 1 where a delegate refuses tensors without elements.
Inputs of another size repeat or crop the given inputs along the dynamic dimensions, so that their
values stay valid (token ids, masks). Runs no program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from executorch_py.testing.empty_sizes import refused_when_empty

# Span above the minimum that is tested of a dimension without an upper bound.
UNBOUNDED_SPAN = 64
GIVEN = "the given sizes"


@dataclass(frozen=True)
class SizedInputs:
    """Inputs of one size: a label for messages and the flat inputs."""

    label: str
    flat: tuple[Any, ...]

    @property
    def is_given(self) -> bool:
        return self.label == GIVEN

    @property
    def sizes(self) -> str:
        """Dtypes and sizes of all tensors among the inputs."""
        tensors = (value for value in self.flat if isinstance(value, torch.Tensor))
        return ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}" for t in tensors)


def resize_by_repetition(tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """The tensor repeated or cropped along each dimension to the given sizes.

    An empty dimension is filled with zeros. Every repetition of floating values is a little smaller
    than the one before, so that no value ties with its original: with ties the results of topk or
    argmax are not comparable.
    """
    result = tensor
    for dim, size in enumerate(sizes):
        old = result.shape[dim]
        if size == old:
            continue
        if old == 0:
            shape = list(result.shape)
            shape[dim] = size
            result = result.new_zeros(shape)
        else:
            at = torch.arange(size)
            result = result.index_select(dim, at % old)
            if result.is_floating_point() and result.element_size() > 1:
                shrink = (1 - (at // old % 32) / 64).to(result.dtype)
                result = result * shrink.reshape(-1, *[1] * (result.dim() - dim - 1))
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        result = result.contiguous(memory_format=torch.channels_last)
    return result


def _symbolic_sizes(program: ExportedProgram) -> list[list[Any] | None]:
    """Sizes of each user input as ints and sympy expressions, or None if it is no tensor."""
    # Numbers, strings and None have no name among the signature's user_inputs: they are constants.
    specs = program.graph_signature.input_specs
    names = {spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT}
    sizes: list[list[Any] | None] = []
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.name not in names:
            continue
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            sizes.append(None)
            continue
        sizes.append([s if isinstance(s, int) else s.node.expr for s in value.shape])
    return sizes


def _free_symbols(sizes: Sequence[Sequence[Any] | None]) -> list[sympy.Symbol]:
    found: dict[str, sympy.Symbol] = {}
    for dims in sizes:
        for size in dims or ():
            if not isinstance(size, int):
                found.update({str(s): s for s in size.free_symbols})
    return [found[name] for name in sorted(found)]


def _bounds(program: ExportedProgram, symbol: sympy.Symbol) -> tuple[int, int]:
    constraint = program.range_constraints.get(symbol)
    lower = 0 if constraint is None else int(constraint.lower)
    if constraint is None or not constraint.upper.is_finite or constraint.upper > 2**31:
        return lower, lower + UNBOUNDED_SPAN
    return lower, int(constraint.upper)


def _given_values(
    symbols: Sequence[sympy.Symbol], sizes: Sequence[Sequence[Any] | None], flat: Sequence[Any]
) -> dict[sympy.Symbol, int]:
    """Values of the symbols at the given inputs, read off the dimensions that name them."""
    values: dict[sympy.Symbol, int] = {}
    for dims, value in zip(sizes, flat, strict=True):
        for expression, size in zip(dims or (), getattr(value, "shape", ()), strict=False):
            if isinstance(expression, sympy.Symbol):
                values[expression] = int(size)
            elif not isinstance(expression, int) and len(expression.free_symbols) == 1:
                (symbol,) = expression.free_symbols
                solutions = sympy.solve(expression - int(size), symbol)
                if len(solutions) == 1:
                    values.setdefault(symbol, int(solutions[0]))
    return {symbol: values[symbol] for symbol in symbols if symbol in values}


def _points(
    given: Mapping[sympy.Symbol, int], bounds: Mapping[sympy.Symbol, tuple[int, int]]
) -> Iterator[tuple[str, dict[sympy.Symbol, int]]]:
    yield GIVEN, dict(given)
    corners = {
        "min": {s: low for s, (low, _) in bounds.items()},
        "middle": {s: (low + high) // 2 for s, (low, high) in bounds.items()},
        "max": {s: high for s, (_, high) in bounds.items()},
    }
    for name, corner in corners.items():
        yield f"every dynamic dim at its {name}", {**given, **corner}
    if len(bounds) > 1:
        for symbol in bounds:
            for name, corner in corners.items():
                yield (
                    f"{symbol} at its {name} ({corner[symbol]})",
                    {**given, symbol: corner[symbol]},
                )


@dataclass
class Sizes:
    """The sizes at which to check a program; `left_out` lists sizes that are not checked."""

    program: ExportedProgram
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    left_out: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[SizedInputs]:
        """The given inputs, then the same at min, middle and max of every dynamic dimension.

        Each set of sizes comes once.
        """
        flat, _ = pytree.tree_flatten((tuple(self.args), dict(self.kwargs)))
        sizes = _symbolic_sizes(self.program)
        symbols = _free_symbols(sizes)
        given = _given_values(symbols, sizes, flat)
        bounds = self._bounds(given, sizes)
        seen: set[tuple[tuple[int, ...], ...]] = set()
        for label, values in _points(given, bounds):
            resized = []
            for dims, value in zip(sizes, flat, strict=True):
                if dims is None or not isinstance(value, torch.Tensor) or values == given:
                    resized.append(value)
                    continue
                target = [d if isinstance(d, int) else int(d.subs(values)) for d in dims]
                resized.append(resize_by_repetition(value, target))
            key = tuple(tuple(v.shape) for v in resized if isinstance(v, torch.Tensor))
            if key not in seen:
                seen.add(key)
                yield SizedInputs(label, tuple(resized))

    def _bounds(
        self, given: Mapping[sympy.Symbol, int], sizes: Sequence[Sequence[Any] | None]
    ) -> dict[sympy.Symbol, tuple[int, int]]:
        """The bounds of each symbol, without sizes that delegates refuse."""
        bounds = {symbol: _bounds(self.program, symbol) for symbol in given}
        for symbol, backend in refused_when_empty(self.program, bounds).items():
            bounds[symbol] = (1, bounds[symbol][1])
            self.left_out.append(
                f"{_dimension_of(symbol, sizes)} of 0: {backend} runs no tensors without elements; "
                "export with torch.export.Dim(..., min=1) to exclude this size"
            )
        return bounds


def _dimension_of(symbol: sympy.Symbol, sizes: Sequence[Sequence[Any] | None]) -> str:
    """The first dimension of an input whose size is the symbol."""
    for i, dims in enumerate(sizes):
        if symbol in (dims or ()):
            return f"dim {list(dims or ()).index(symbol)} of input {i}"
    return str(symbol)
