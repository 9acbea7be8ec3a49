"""CProfilerFlameGraph: Python's profile of a block, as a page of HTML that needs nothing else.

    with CProfilerFlameGraph("export.html"):
        to_edge_transform_and_lower(program)

The page lists functions by the time spent in them and in all that they call, with a bar each.
Upstream's page needs snakeviz and a network; this one needs neither.
"""

from __future__ import annotations

import cProfile
import html
import pstats
from types import TracebackType
from typing import Any

from executorch_py.atomic_file import write_text

__all__ = ["CProfilerFlameGraph"]

_STYLE = (
    "body{font:13px sans-serif}td{padding:2px 8px;text-align:right}td:last-child{text-align:left}"
    "div{background:#e8743b;height:10px}"
)
_HEADINGS = ("calls", "own ms", "with callees ms", "", "function")
_WIDEST = 240  # pixels of the bar of all time


class CProfilerFlameGraph:
    """Profile a block, and write the page when it ends, with an exception too."""

    def __init__(self, filename: str) -> None:
        if not isinstance(filename, str) or "." not in filename:
            raise ValueError(f"filename: expected a name such as 'profile.html', got {filename!r}")
        self.filename = filename
        self.pr = cProfile.Profile()

    def __enter__(self) -> CProfilerFlameGraph:
        self.pr.enable()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.pr.disable()
        write_text(self.filename, _page(pstats.Stats(self.pr), self.filename))


def _page(stats: pstats.Stats, title: str) -> str:
    found: dict[Any, Any] = stats.stats  # type: ignore[attr-defined]
    functions = sorted(found.items(), key=lambda item: -item[1][3])
    whole = max((numbers[3] for _, numbers in functions), default=0.0) or 1.0
    head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    rows = "\n".join(_row(function, numbers, whole) for function, numbers in functions)
    return (
        f"<!doctype html><html><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style></head><body><table><tr>{head}</tr>\n{rows}\n</table></body>"
        "</html>\n"
    )


def _row(function: tuple[str, int, str], numbers: tuple[Any, ...], whole: float) -> str:
    file, line, name = function
    _, calls, own, total, _ = numbers
    place = f"{name} ({file}:{line})" if line else name
    bar = f"<div style='width:{round(_WIDEST * total / whole)}px'></div>"
    cells = (calls, f"{own * 1e3:.3f}", f"{total * 1e3:.3f}", bar, html.escape(place))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
