"""Gap strategies: each storage goes to the smallest gap between those alive at the same time.

Unlike shared objects, gaps have no fixed borders, so large tensors split into many small ones and
merge again. The orders differ in what they place first; which one wins depends on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from executorch_py.exir.memory.request import Layout, Request

Key = Callable[[Request], tuple[int, ...]]

ORDERS: dict[str, Key] = {
    "size": lambda r: (-r.size, r.first),
    "lifetime": lambda r: (r.first - r.last, -r.size, r.first),
    "area": lambda r: (-r.size * (r.last - r.first + 1), r.first),
    "start": lambda r: (r.first, -r.size),
}


def place_in_gaps(requests: Sequence[Request], order: Key) -> Layout:
    """Plan with best fit; each storage takes the tightest gap, or grows the arena as little as it
    can.
    """
    count = len(requests)
    ranked = sorted(range(count), key=lambda i: (*order(requests[i]), i))
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    offsets = [0] * count
    total = 0
    for placed, index in enumerate(ranked):
        request = requests[index]
        alive = (first[:placed] <= request.last) & (last[:placed] >= request.first)
        offset = _tightest_gap(start[:placed][alive], end[:placed][alive], request.size)
        offsets[index] = offset
        first[placed], last[placed] = request.first, request.last
        start[placed], end[placed] = offset, offset + request.size
        total = max(total, offset + request.size)
    return Layout(tuple(offsets), total)


def _tightest_gap(start: np.ndarray, end: np.ndarray, size: int) -> int:
    if start.size == 0:
        return 0
    by_start = np.argsort(start, kind="stable")
    reached = np.maximum.accumulate(end[by_start])
    gap_starts = np.concatenate(([0], reached[:-1]))
    gaps = start[by_start] - gap_starts
    fitting = np.flatnonzero(gaps >= size)
    if fitting.size == 0:
        return int(reached[-1])
    return int(gap_starts[fitting[np.argmin(gaps[fitting])]])
