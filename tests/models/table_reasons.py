"""Reasons of refused cells: an error's text, by pattern, to one sentence for a reader.

An error that no pattern matches stands in the table with its own first line.
"""

from __future__ import annotations

import re
from typing import Any

# Stage, pattern of the error's text, reason. The first that matches counts.
REASONS = (
    (
        "export",
        r"GuardOnDataDependent|data-dependent",
        "torch.export: the model branches on the values of a tensor",
    ),
)


def reason_of(cell: dict[str, Any]) -> str:
    """One sentence: why a cell is not ok."""
    error = str(cell.get("error", "no error was recorded"))
    stage = cell.get("stage", "")
    for where, pattern, reason in REASONS:
        if where == stage and re.search(pattern, error):
            return reason
    line = next((x for x in error.splitlines() if x.strip()), "")
    return f"{stage}: {line[:140]}".replace("|", "/")
