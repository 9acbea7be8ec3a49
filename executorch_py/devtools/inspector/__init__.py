"""Upstream's path to its Inspector of ETDump files. Runs are not recorded in that form yet, so that
asking for one says what to use instead, before anything is read.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn


class TimeScale(Enum):
    """Units of time in reports."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


def _not_here(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what}: this version neither records nor reads ETDump files; for times use "
        "`executorch_py run FILE --profile`, for the accuracy of outputs "
        "`program.verify(model, *inputs)`, for what is in the file `executorch_py inspect FILE`"
    )


class Inspector:
    """Would read an ETDump; raises NotImplementedError with what to use instead."""

    def __init__(
        self,
        etdump_path: str | None = None,
        etdump_data: bytes | None = None,
        etrecord: Any = None,
        source_time_scale: TimeScale = TimeScale.NS,
        target_time_scale: TimeScale = TimeScale.MS,
        debug_buffer_path: str | None = None,
        delegate_metadata_parser: Any = None,
        delegate_time_scale_converter: Any = None,
        enable_module_hierarchy: bool = False,
        reference_graph_name: str | None = None,
    ) -> None:
        _not_here(f"Inspector(etdump_path={etdump_path!r})")


def compare_results(*args: Any, **kwargs: Any) -> NoReturn:
    """Would compare outputs found in an ETDump; raises NotImplementedError."""
    _not_here("compare_results()")


__all__ = ["Inspector", "TimeScale", "compare_results"]
