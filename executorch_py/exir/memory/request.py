"""Requests to the planner's strategies and their answers: sizes with lifetimes in, offsets out.

Pure data, no graph and no specs, so that strategies can be tested and compared by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One storage: bytes (already rounded up to the alignment) and its inclusive lifetime."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """Offset of each request, in the order of the requests, and the bytes needed in all."""

    offsets: tuple[int, ...]
    total: int
    object_ids: tuple[int, ...] = ()


def overlap(a: Request, b: Request) -> bool:
    """Whether two lifetimes have an instruction in common."""
    return a.first <= b.last and b.first <= a.last


def peak_live_bytes(requests: Sequence[Request]) -> int:
    """Bytes live at the busiest instruction: no plan can need less."""
    change: dict[int, int] = {}
    for request in requests:
        change[request.first] = change.get(request.first, 0) + request.size
        change[request.last + 1] = change.get(request.last + 1, 0) - request.size
    live = peak = 0
    for time in sorted(change):
        live += change[time]
        peak = max(peak, live)
    return peak
