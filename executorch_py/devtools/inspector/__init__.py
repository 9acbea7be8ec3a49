"""Upstream's path to its Inspector of ETDump files.

ETDump files are neither recorded nor read yet. The names here raise an error that lists the tools
to use instead.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

from executorch_py._refused_paths import refuse_name


class TimeScale(Enum):
    """Units of time in reports."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


def _unsupported(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: this version neither records nor reads ETDump files; for times use "
        "`executorch_py run FILE --profile`, for the accuracy of outputs "
        "`program.verify(model, *inputs)`, for the contents of a file `executorch_py inspect FILE`"
    )


class Inspector:
    """Upstream's reader of ETDump files; raises NotImplementedError with the tools to use."""

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
        _unsupported(f"Inspector(etdump_path={etdump_path!r})")


def compare_results(*args: Any, **kwargs: Any) -> NoReturn:
    """Upstream's comparison of outputs in an ETDump; raises NotImplementedError."""
    _unsupported("compare_results()")


def __getattr__(name: str) -> Any:
    refuse_name(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Inspector", "TimeScale", "compare_results"]
