"""Errors of the exporter that callers may catch: ExportError (the user's program or request),
InternalError (a broken invariant of the exporter), NotSupportedError (both, for upstream's
scripts), and the enum that classifies the first.

Relies on nothing; every other module of the exporter may import it.
"""

from __future__ import annotations

from enum import Enum


class ExportErrorType(Enum):
    """Kinds of requests that could not be met; the numbers are part of the public interface."""

    INVALID_INPUT_TYPE = 1
    INVALID_OUTPUT_TYPE = 2
    VIOLATION_OF_SPEC = 3
    NOT_SUPPORTED = 4
    MISSING_PROPERTY = 5
    UNINITIALIZED = 6


class InternalError(Exception):
    """An invariant of the exporter does not hold; this is our defect, not the user's."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class ExportError(Exception):
    """The program cannot be exported, or an argument of the call is wrong."""

    def __init__(self, error_code: ExportErrorType, message: str) -> None:
        super().__init__(f"[{error_code}]: {message}")
        self.error_code = error_code


class NotSupportedError(ExportError, InternalError):
    """The program file cannot hold a value; upstream raises InternalError for it."""

    def __init__(self, message: str) -> None:
        super().__init__(ExportErrorType.NOT_SUPPORTED, message)


def internal_assert(pred: bool, assert_msg: str) -> None:
    """Raise InternalError with `assert_msg` unless `pred` holds."""
    if not pred:
        raise InternalError(assert_msg)
