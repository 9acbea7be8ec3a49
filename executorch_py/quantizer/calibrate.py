"""Calibration of a prepared model on data, with a progress line; Ctrl-C keeps the data so far."""

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
    """The positional and named arguments of a sample.

    A tuple or list holds positional arguments, a mapping named ones; anything else is one argument.
    """
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

    data: any iterable of samples, each a tensor, a tuple of positional arguments, or a mapping of
    named ones; a batch counts as one sample. limit: the most samples to run. progress: whether to
    show a line on stderr, or on the given stream, if that is a terminal. Ctrl-C stops and keeps the
    ranges found so far; without any sample it raises KeyboardInterrupt.

    Raises CalibrationError when there is no sample or the model fails on one, and warns if the
    model has no observers.
    """
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
        raise CalibrationError(
            "data: expected at least one sample to calibrate with, got no sample"
        )
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


__all__ = ["arguments_of", "calibrate"]
