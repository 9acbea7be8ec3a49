"""The naive strategy: one tensor after another, nothing reused."""

from __future__ import annotations

from collections.abc import Sequence

from executorch_py.exir.memory.request import Layout, Request


def place_sequentially(requests: Sequence[Request]) -> Layout:
    """Offsets in the order given."""
    offsets: list[int] = []
    end = 0
    for request in requests:
        offsets.append(end)
        end += request.size
    return Layout(tuple(offsets), end, tuple(range(len(offsets))))
