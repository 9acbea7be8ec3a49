"""Reasons of refused cells: an error's text, by pattern, to one sentence for a reader.

An error that no pattern matches stands in the table with its own first line.
"""

from __future__ import annotations

import re
from typing import Any

# Stage, pattern of the error's text, reason. The first that matches counts; a reason may name the
# groups of the pattern.
REASONS = (
    (
        "export",
        r"(?s)(?:GuardOnDataDependent|data-dependent).*?Caused by: \(\S*?(\w+\.py):\d+ in (\w+)\)",
        r"torch.export: `\2` in \1 takes a branch or a size from the values of a tensor",
    ),
    (
        "export",
        r"GuardOnDataDependent|data-dependent",
        r"torch.export: the model takes a branch or a size from the values of a tensor",
    ),
    (
        "export",
        r"Attempting to broadcast .*\[1, 1, 8, 8\].*\[1, 4, 4, 8\]",
        r"torch.export: traced with a mask, for which the model fails in eager torch, too",
    ),
    (
        "export",
        r"'NoneType' object (?:has no attribute 'shape'|is not subscriptable)",
        r"torch.export: transformers makes no mask while it is traced, and the model needs one",
    ),
    (
        "quantize",
        r"GuardOnDataDependent|data-dependent",
        r"quantize: torch.export of the prepared graph takes a branch or a size from values",
    ),
    (
        "quantize",
        r"CalibrationError: (\d+) observers saw NaN or infinity",
        r"quantize: \1 observers saw NaN or infinity in calibration",
    ),
    (
        "run",
        r"The graph that torch\.export makes",
        r"torch.export: its graph computes other numbers than the model, which asks for tracing",
    ),
)


def reason_of(cell: dict[str, Any]) -> str:
    """One sentence: why a cell is not ok."""
    error = str(cell.get("error", "no error was recorded"))
    stage = cell.get("stage", "")
    for where, pattern, reason in REASONS:
        found = re.search(pattern, error)
        if where == stage and found:
            return found.expand(reason)
    line = next((x for x in error.splitlines() if x.strip()), "")
    return f"{stage}: {line[:140]}".replace("|", "/")
