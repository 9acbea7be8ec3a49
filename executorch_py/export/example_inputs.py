"""Example inputs from the options of a command: shapes, files, and dynamic dimensions.

`--input NAME=SHAPE:DTYPE` or a file per input, `--dynamic NAME.DIM=MIN..MAX` per dimension; equal
sizes share one option, as in `--dynamic ids.1,mask.1=1..128`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.export import Dim

from executorch_py.input_spec import InputSpec, parse_input_spec

_DYNAMIC = re.compile(
    r"(?P<places>[\w.]+\.\d+(?:,[\w.]+\.\d+)*)=(?:(?P<low>\d+)\.\.)?(?P<high>\d+)"
)
_FILES = (".npy", ".npz", ".pt", ".pth")


class Examples(NamedTuple):
    """Example inputs of a model, and the dynamic shapes for torch.export."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: Any


class Range(NamedTuple):
    """A dynamic dimension: the places that have it, and its bounds."""

    places: tuple[tuple[str, int], ...]
    low: int
    high: int


def example_inputs(model: nn.Module, inputs: Sequence[str], dynamic: Sequence[str]) -> Examples:
    """The inputs of the options, by the names of the model's arguments."""
    names, required = _argument_names(model)
    if len(inputs) > len(names):
        raise ValueError(f"--input: expected at most one for each of {names}, got {len(inputs)}")
    ranges = [_range(text) for text in dynamic]
    given: dict[str, Any] = {}
    for i, text in enumerate(inputs):
        name, value = _given(text, names[i] if i < len(names) else f"input {i}")
        if name not in names:
            raise ValueError(f"--input: expected the model's arguments {names}, got {name!r}")
        given[name] = value
    missing = [name for name in required if name not in given]
    if missing:
        wanted = " ".join(f"--input {name}=2x3" for name in missing)
        raise ValueError(
            f"--input: expected one for each argument, got none for {missing}: write "
            f"{wanted} with your sizes"
        )
    tensors = {
        name: _tensor(value, name, ranges) if isinstance(value, InputSpec) else value
        for name, value in given.items()
    }
    n_positional = 0
    while n_positional < len(names) and names[n_positional] in given:
        n_positional += 1
    args = tuple(tensors[name] for name in names[:n_positional])
    kwargs = {name: value for name, value in tensors.items() if name not in names[:n_positional]}
    return Examples(args, kwargs, _shapes(tensors, ranges, names))


def _argument_names(model: nn.Module) -> tuple[list[str], list[str]]:
    """Names of the arguments that the model's forward takes by position, and of those it needs."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    parameters = inspect.signature(model.forward).parameters.values()
    taken = [parameter for parameter in parameters if parameter.kind in kinds]
    return [p.name for p in taken], [p.name for p in taken if p.default is inspect.Parameter.empty]


def _given(text: str, name: str) -> tuple[str, Any]:
    """The name of an input and its tensor or its shape."""
    before, equals, after = text.partition("=")
    path = after if equals else text
    if Path(path).suffix in _FILES:
        return (before if equals else name), _from_file(path)
    spec = parse_input_spec(text, "--input")
    return spec.name or name, spec


def _from_file(path: str) -> torch.Tensor:
    """The tensor of a file of NumPy or torch."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"--input: there is no file {path!r}")
    if path.endswith((".pt", ".pth")):
        loaded = torch.load(path, weights_only=True)
    else:
        loaded = np.load(path, allow_pickle=False)
        loaded = torch.from_numpy(loaded) if isinstance(loaded, np.ndarray) else loaded
    if not isinstance(loaded, torch.Tensor):
        raise ValueError(
            f"--input {path}: expected a file of one tensor, got a {type(loaded).__name__}"
        )
    return loaded


def _tensor(spec: InputSpec, name: str, ranges: Sequence[Range]) -> torch.Tensor:
    """A tensor of the shape; integers are 0 and 1, since they are often indices."""
    shape = list(spec.shape)
    for found in ranges:
        for place, dim in found.places:
            if place == name and dim < len(shape):
                # torch takes an example size of 1 for a constant.
                shape[dim] = min(max(shape[dim], found.low, 2), found.high)
    dtype = getattr(torch, spec.dtype or "float32", None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(
            f"--input {spec}: expected a dtype such as float32, int64 or bool, got {spec.dtype!r}"
        )
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


# ---- dynamic dimensions


def _range(text: str) -> Range:
    found = _DYNAMIC.fullmatch(text)
    if found is None:
        raise ValueError(
            "--dynamic: expected INPUT.DIMENSION=MIN..MAX such as images.0=1..64, several with "
            f"commas where sizes are equal, got {text!r}"
        )
    low, high = int(found["low"] or 1), int(found["high"])
    if not low < high or high < 2:
        raise ValueError(
            "--dynamic: expected a smallest size below the largest, which is 2 or more, got "
            f"{low} and {high} in {text!r}"
        )
    places = tuple(
        (name, int(dim)) for name, _, dim in (p.rpartition(".") for p in found["places"].split(","))
    )
    return Range(places, low, high)


def _shapes(tensors: dict[str, Any], ranges: Sequence[Range], names: Sequence[str]) -> Any:
    """The dynamic shapes of all inputs; None without dynamic dimensions."""
    if not ranges:
        return None
    shapes: dict[str, dict[int, Any] | None] = dict.fromkeys(tensors)
    for found in ranges:
        name, number = found.places[0]
        dim = Dim(f"{name}_{number}".replace(".", "_"), min=found.low, max=found.high)
        for place, i in found.places:
            if place not in tensors:
                raise ValueError(f"--dynamic: expected inputs of {list(tensors)}, got {place!r}")
            rank = tensors[place].dim()
            if i >= rank:
                raise ValueError(
                    f"--dynamic {place}.{i}: expected a dimension below {rank}, got {i}"
                )
            shapes[place] = {**(shapes[place] or {}), i: dim}
    return shapes


# ---- calibration


def calibration_samples(paths: Sequence[str], examples: Examples) -> list[Examples]:
    """Samples to calibrate with, from files of NumPy, else the example inputs.

    A .npz file has an array for each input, in order; a .npy file is for the only input. An array
    of more rows than the example has is split into samples of as many rows.
    """
    if not paths:
        return [examples]
    wanted = [*examples.args, *examples.kwargs.values()]
    samples = []
    for path in paths:
        loaded = np.load(path, allow_pickle=False)
        is_one = isinstance(loaded, np.ndarray)
        arrays = [loaded] if is_one else [loaded[name] for name in loaded.files]
        if len(arrays) != len(wanted):
            raise ValueError(
                f"--calibrate {path}: expected {len(wanted)} arrays, one for each input, got "
                f"{len(arrays)}"
            )
        parts = [_rows(array, like) for array, like in zip(arrays, wanted, strict=True)]
        if len({len(part) for part in parts}) > 1:
            counts = [len(array) for array in arrays]
            raise ValueError(f"--calibrate {path}: expected as many rows in each, got {counts}")
        for sample in zip(*parts, strict=True):
            named = dict(zip(examples.kwargs, sample[len(examples.args) :], strict=True))
            samples.append(Examples(sample[: len(examples.args)], named, None))
    if not samples:
        raise ValueError(
            f"--calibrate: expected at least one sample in {', '.join(paths)}, got none"
        )
    return samples


def _rows(array: Any, like: torch.Tensor) -> list[torch.Tensor]:
    """An array in parts of as many rows as the example has."""
    tensor = torch.from_numpy(array).to(like.dtype)
    n_rows = like.shape[0] if like.dim() else 0
    if not n_rows or tensor.dim() != like.dim():
        return [tensor]
    return [part for part in tensor.split(n_rows) if len(part) == n_rows]
