"""Warnings that point at the user's line that called this package."""

from __future__ import annotations

import sys
import warnings

_NOT_THE_USERS = {"executorch_py", "torchao"}  # torchao's prepare and convert call quantizers


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the call of the outermost function of this package on the stack."""
    frame = sys._getframe()
    level = outermost = 1
    while frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_USERS:
            outermost = level
    warnings.warn(message, category, stacklevel=outermost + 1)


__all__ = ["warn_caller"]
