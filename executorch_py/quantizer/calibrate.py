"""Calibration: a prepared model is shown data, with progress, and may be stopped at any time."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

import torch
from torch import nn

from executorch_py.quantizer.observers import CalibrationError, CalibrationWarning, has_observers

BETWEEN_LINES = 0.2  # seconds


def arguments_of(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A sample as positional and named arguments: a tuple or list is the former, a mapping the
    latter, anything else one argument."""
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
    """Run a prepared model on data, whose ranges its observers note; how many samples it was.

    data: any iterable of samples, each a tensor, a tuple of positional arguments, or a mapping of
    named ones; batches count as one. limit: at most so many of them. progress: a line on stderr, or
    on the given stream, where that is a terminal. Ctrl-C stops after what has been seen, which is
    kept, unless nothing has.

    Raises CalibrationError when there is no sample, or the model fails on one, and warns of a model
    in which nothing notes anything.
    """
    if not has_observers(prepared):
        warnings.warn(
            "the model has no observers, so nothing is calibrated: give it what prepare_pt2e gave",
            CalibrationWarning,
            stacklevel=2,
        )
    line = _Line(sys.stderr if progress is True else progress or None, _length(data, limit))
    n_seen = 0
    try:
        with torch.no_grad():
            for sample in data:
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
        raise CalibrationError("no sample to calibrate with: the data is empty")
    return n_seen


def _run(prepared: nn.Module, positional: Any, named: Any, number: int) -> None:
    try:
        prepared(*positional, **named)
    except Exception as error:
        raise CalibrationError(f"sample {number}: the model fails on it: {error}") from error


def _length(data: Iterable[Any], limit: int | None) -> int | None:
    try:
        length = len(data)  # type: ignore[arg-type]
    except TypeError:
        return limit
    return length if limit is None else min(length, limit)


class _Line:
    """One line on a terminal, written again as time goes by."""

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


__all__ = ["arguments_of", "calibrate"]
