"""Calibration of a prepared model on data, with a progress line; Ctrl-C keeps the data so far."""

from __future__ import annotations

import inspect
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import torch
from torch import fx, nn

from executorch_py.exir.settings_check import is_whole_number
from executorch_py.quantizer.observers import CalibrationError, CalibrationWarning, has_observers

BETWEEN_LINES = 0.2  # seconds


def arguments_of(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and named arguments of a sample.

    A tuple or list holds positional arguments, a mapping named ones, and the BoundArguments of the
    standard library both; anything else is one argument.
    """
    if isinstance(sample, inspect.BoundArguments):
        return sample.args, sample.kwargs
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return (tuple(sample), {}) if isinstance(sample, (tuple, list)) else ((sample,), {})


def calibrate(
    prepared: nn.Module,
    data: Iterable[Any],
    *,
    limit: int | None = None,
    progress: bool | TextIO = True,
) -> int:
    """Run a prepared model on data, so that its observers find ranges; the number of samples run.

    data: any iterable or Dataset of samples, each a tensor, a tuple of positional arguments, or a
    mapping of named ones; a batch counts as one sample. limit: the most samples to run. progress:
    whether to show a line on stderr, or on the given stream, if that is a terminal. Ctrl-C stops
    and keeps the ranges found so far; without any sample it raises KeyboardInterrupt.

    Raises CalibrationError when there is no sample or the model fails on one, and warns if the
    model has no observers.
    """
    _check_arguments(prepared, limit, progress)
    samples = samples_of(data)
    if not has_observers(prepared):
        warnings.warn(
            "the model has no observers, so nothing is calibrated: expected what prepare_pt2e gave",
            CalibrationWarning,
            stacklevel=2,
        )
    line = _Line(sys.stderr if progress is True else progress or None, _length(data, limit))
    n_seen = 0
    try:
        with torch.no_grad():
            for sample in samples:
                if limit is not None and n_seen >= limit:
                    break
                positional, named = arguments_of(sample)
                _run(prepared, positional, named, n_seen)
                n_seen += 1
                line.show(n_seen)
    except KeyboardInterrupt:
        if n_seen == 0:
            raise
        line.end(f"calibration stopped after {n_seen} samples; they are kept")
        return n_seen
    line.end()
    if n_seen == 0:
        raise CalibrationError(
            "data: expected at least one sample to calibrate with, got no sample"
        )
    return n_seen


def samples_of(data: Any) -> Iterator[Any]:
    """The samples of an iterable, or of a dataset that has only a length and items by number.

    Such a dataset ends at its length, since not every one raises IndexError behind it.
    """
    if not hasattr(data, "__iter__") and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return (data[i] for i in range(len(data)))
    try:
        return iter(data)
    except TypeError:
        raise TypeError(f"data: expected an iterable of samples, [sample], got {data!r}") from None


def _check_arguments(prepared: Any, limit: Any, progress: Any) -> None:
    if not isinstance(prepared, nn.Module):
        raise TypeError(
            f"prepared: expected what prepare_pt2e returns, got a {type(prepared).__name__}"
        )
    if limit is not None and (not is_whole_number(limit) or limit < 1):
        raise ValueError(f"limit: expected a whole number of 1 or more, got {limit!r}")
    if not (isinstance(progress, bool) or hasattr(progress, "write")):
        raise TypeError(f"progress: expected True, False or a stream, got {progress!r}")


def _run(prepared: nn.Module, positional: Any, named: Any, number: int) -> None:
    try:
        prepared(*positional, **named)
    except Exception as error:
        problem = sample_problem(prepared, positional, named)
        text = problem or f"the model fails on it: {error}"
        raise CalibrationError(f"sample {number}: {text}") from error


def sample_problem(model: nn.Module, positional: Sequence[Any], named: Mapping[str, Any]) -> str:
    """The mistake of a sample that does not fit the inputs of a model; empty if it is unknown."""
    inputs, takes_more, takes_more_named = _inputs_of(model)
    names = list(inputs)
    given = [*positional, *named.values()]
    unknown = [name for name in named if name not in names]
    if names and unknown and not takes_more_named:
        return (
            f"the model takes {names}, the sample has {list(named)}: give the model's names, and "
            "no labels"
        )
    n_known = len(given) - len(unknown)
    if names and n_known > len(names) and not takes_more:
        kept = ", ".join(names)
        return (
            f"the model takes {len(names)} input{'s' * (len(names) > 1)} {names}, the sample has "
            f"{n_known}: labels are no inputs, so give [({kept},) for {kept}, label in data]"
        )
    for name, value in zip([*names[: len(positional)], *named], given, strict=False):
        wanted = inputs.get(name)
        if not isinstance(wanted, torch.Tensor):
            continue
        kind = f"{str(wanted.dtype).removeprefix('torch.')}{list(wanted.shape)}"
        if not isinstance(value, torch.Tensor):
            call = ": pass torch.from_numpy(array)" if hasattr(value, "__array__") else ""
            return f"input {name!r}: expected a tensor {kind}, got a {type(value).__name__}{call}"
        if value.dtype != wanted.dtype:
            return f"input {name!r}: expected {kind}, got {value.dtype}: pass x.to({wanted.dtype})"
        if len(value.shape) != len(wanted.shape) or any(
            isinstance(size, int) and size != n
            for size, n in zip(wanted.shape, value.shape, strict=True)
        ):
            return (
                f"input {name!r}: expected {kind}, got {list(value.shape)}: give samples of that "
                "shape, or export with dynamic_shapes"
            )
    return ""


def _inputs_of(model: nn.Module) -> tuple[dict[str, Any], bool, bool]:
    """Names of a model's inputs, with their traced values if it was exported.

    The flags say whether it takes more inputs by position (*args) and by name (**kwargs).
    """
    if isinstance(model, fx.GraphModule):
        nodes = model.graph.find_nodes(op="placeholder")
        return {str(node.target): node.meta.get("val") for node in nodes}, False, False
    names: dict[str, Any] = {}
    kinds = set()
    for name, parameter in inspect.signature(model.forward).parameters.items():
        kinds.add(parameter.kind)
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            names[name] = None
    one = inspect.Parameter
    return names, one.VAR_POSITIONAL in kinds, one.VAR_KEYWORD in kinds


def _length(data: Iterable[Any], limit: int | None) -> int | None:
    try:
        length = len(data)  # type: ignore[arg-type]
    except TypeError:
        return limit
    return length if limit is None else min(length, limit)


class _Line:
    """A progress line on a terminal, rewritten at most every BETWEEN_LINES seconds."""

    def __init__(self, stream: TextIO | None, total: int | None) -> None:
        self.stream = stream if stream is not None and stream.isatty() else None
        self.total, self.begin, self.last = total, time.monotonic(), 0.0
        self.is_open = False

    def show(self, done: int) -> None:
        now = time.monotonic()
        if self.stream is None or (now - self.last < BETWEEN_LINES and done != self.total):
            return
        self.last, self.is_open = now, True
        left = ""
        if self.total:
            left = f" of {self.total}, {(now - self.begin) / done * (self.total - done):.0f} s left"
        self.stream.write(f"\rcalibrating: {done} samples{left}\x1b[K")
        self.stream.flush()

    def end(self, last_words: str = "") -> None:
        if self.stream is not None and (self.is_open or last_words):
            self.stream.write("\n" * self.is_open + (last_words + "\n" if last_words else ""))


__all__ = ["arguments_of", "calibrate", "sample_problem", "samples_of"]
