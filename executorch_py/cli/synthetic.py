"""Synthetic inputs of `executorch_py run`: noise or ones, of given or of the smallest sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from executorch_py.input_spec import InputSpec, parse_input_spec
from executorch_py.runtime import Argument, Signature
from executorch_py.terminal_text import name_text, quoted, quoted_list


def synthetic_inputs(
    signature: Signature, shapes: Sequence[str], random: np.random.Generator | None
) -> tuple[list[Any], str]:
    """One value per input, and a note on the sizes that were chosen; empty for static shapes."""
    given = _given(signature, [parse_input_spec(text, "--shape") for text in shapes])
    values = _symbols(signature, given)
    inputs, notes = [], []
    for argument in signature.inputs:
        if argument.kind != "tensor" or argument.shape is None:
            inputs.append(traced_value(argument))
            continue
        shape = given.get(argument.name) or _sizes(argument, values)
        inputs.append(_filled(argument, shape, random))
        if any(not isinstance(size, int) for size in argument.shape):
            notes.append(f"{name_text(argument.name)}={'x'.join(map(str, shape)) or 'scalar'}")
    if not notes:
        return inputs, ""
    how = "sizes as given" if given else "dynamic sizes are the smallest useful; choose others with"
    return inputs, f"{how}: --shape {' --shape '.join(notes)}"


def _given(signature: Signature, specs: Sequence[InputSpec]) -> dict[str, tuple[int, ...]]:
    """The given shapes by input; a shape without a name is for the only input."""
    tensors = {a.name: a for a in signature.inputs if a.kind == "tensor" and a.shape is not None}
    shapes: dict[str, tuple[int, ...]] = {}
    for spec in specs:
        name = next(iter(tensors), "") if spec.name is None and len(tensors) == 1 else spec.name
        if name not in tensors:
            found = "a shape without a name" if name is None else quoted(name)
            raise ValueError(
                f"--shape: expected one of the inputs {quoted_list(tensors)}, got {found}; write "
                f"{next(iter(tensors), 'name')}={spec._replace(name=None)}"
            )
        argument = tensors[name]
        if spec.dtype not in (None, argument.dtype):
            raise ValueError(f"--shape: expected {argument}, got dtype {spec.dtype}: leave it out")
        if not _fits(argument, spec.shape):
            raise ValueError(f"--shape: expected {argument}, got {list(spec.shape)}")
        shapes[name] = spec.shape
    return shapes


def _fits(argument: Argument, shape: tuple[int, ...]) -> bool:
    bounds = [(dim, dim) if isinstance(dim, int) else dim for dim in argument.shape or ()]
    return len(bounds) == len(shape) and all(
        lower <= size <= upper for size, (lower, upper) in zip(shape, bounds, strict=True)
    )


def _symbols(signature: Signature, given: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """A value for each symbol of the sizes: as the given shapes have it, else the smallest."""
    fixed: dict[str, int] = {}
    least: dict[str, int] = {}
    for argument in signature.inputs:
        for i, follows in enumerate(argument.follows or ()):
            if follows is None:
                continue
            symbol, scale, offset = follows
            if argument.name in given:
                fixed.setdefault(symbol, (given[argument.name][i] - offset) // scale)
            lower = _lower(argument, i)
            least[symbol] = max(least.get(symbol, 0), -((offset - lower) // scale))
    return {**least, **fixed}


def _lower(argument: Argument, i: int) -> int:
    """The smallest useful size: an empty tensor is of no use unless it is the only one."""
    assert argument.shape is not None
    dim = argument.shape[i]
    return dim if isinstance(dim, int) else min(max(dim[0], 1), dim[1])


def _sizes(argument: Argument, values: dict[str, int]) -> tuple[int, ...]:
    follows = argument.follows or (None,) * len(argument.shape or ())
    return tuple(
        _lower(argument, i) if f is None else f.scale * values[f.symbol] + f.offset
        for i, f in enumerate(follows)
    )


def _filled(
    argument: Argument, shape: tuple[int, ...], random: np.random.Generator | None
) -> np.ndarray[Any, Any]:
    """Ones or noise. Integers stay small: they are often indices."""
    dtype = numpy_dtype(str(argument.dtype))
    if random is None:
        return np.ones(shape, dtype)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 8, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def traced_value(argument: Argument) -> Any:
    """The traced value of a scalar input: a constant of the program, which accepts no other."""
    if argument.kind == "none":
        return None
    if argument.value is None:
        raise ValueError(
            f"input {quoted(argument.name)}: expected the traced value of a {argument.kind} in "
            "the file, got none: run this program from Python"
        )
    return argument.value


def numpy_dtype(name: str) -> Any:
    """The NumPy dtype of a name in signatures, of ml_dtypes if NumPy has none."""
    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise ValueError(
                f"NumPy has no dtype {name}: install it with `pip install ml_dtypes`"
            ) from None
        return np.dtype(getattr(ml_dtypes, name))
