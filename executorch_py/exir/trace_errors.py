"""Errors of torch.export in a few lines: the cause, the user's line, and a rewrite that works.

    with readable_errors():
        exported = torch.export.export(model, inputs)

torch's page stays available: it is the error's `__context__`, and printed with verbose=True or
EXECUTORCH_PY_VERBOSE=1 in the environment. Errors unknown to trace_advice.py pass unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from executorch_py.exir.error import ExportError, ExportErrorType
from executorch_py.exir.trace_advice import Advice, advice_for

VERBOSE = "EXECUTORCH_PY_VERBOSE"
LONGEST_LINE = 160


class TraceError(ExportError, RuntimeError):
    """torch.export cannot trace the model, or an argument of the call is wrong."""


def is_verbose() -> bool:
    """Whether the environment asks for torch's own messages."""
    return os.environ.get(VERBOSE, "0") not in ("", "0")


@contextmanager
def readable_errors(
    verbose: bool = False, more: str = f"{VERBOSE}=1, or error.__context__"
) -> Iterator[None]:
    """Raise errors of torch.export as a TraceError of at most twelve lines.

    verbose: print torch's message as well, as the cause. more: how the caller gets that message.
    """
    try:
        yield
    except Exception as error:
        advice = None if isinstance(error, ExportError) else advice_for(error)
        if advice is None:
            raise
        text = advice_text(advice, more)
        made = _class_for(error)(ExportErrorType.NOT_SUPPORTED, text)
        raise made from (error if verbose or is_verbose() else None)


def advice_text(advice: Advice, more: str) -> str:
    """The cause, the place and the rewrite as lines."""
    lines = [advice.cause]
    if advice.place is not None:
        place = advice.place
        lines.append(f"  File {place.file}, line {place.line}, in {place.function}")
        if place.code:
            lines.append(f"    {place.code[:LONGEST_LINE]}")
    lines += advice.remedy
    lines.append(f"torch's own message: {more}")
    return "\n".join(lines)


def _also(builtin: type[Exception]) -> type[TraceError]:
    return type("TraceError", (TraceError, builtin), {"__module__": __name__})


_CLASSES = {builtin: _also(builtin) for builtin in (ValueError, TypeError, IndexError)}


def _class_for(error: Exception) -> type[TraceError]:
    """The error's class: also a ValueError or TypeError where torch's error is one."""
    return next((made for cls, made in _CLASSES.items() if isinstance(error, cls)), TraceError)


__all__ = ["TraceError", "readable_errors"]
