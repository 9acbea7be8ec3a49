"""Warnings that point at the line of the user's that called into this package."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the call of the outermost function of this package, however deep the cause lies."""
    frame = sys._getframe()
    level = outermost = 1
    while frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            outermost = level
    warnings.warn(message, category, stacklevel=outermost + 1)


__all__ = ["warn_caller"]
