"""The range of a histogram with the least quantization error.

The search is torchao's, step by step and with its numbers: a share of the counts is cut off at the
end whose bin moves, while the error shrinks. torchao reads a tensor element for every bin that it
passes, which takes most of the time of a conversion; here bins are looked up in blocks of steps.
Knows no observers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch

_STEP = 1e-5
_MAX_STEPS = 100_002  # either end alone would have cut off everything by then
_BLOCK = 4096


def range_of_least_error(
    counts: torch.Tensor, error: Callable[[int, int], float]
) -> tuple[int, int]:
    """The first and the last bin to keep; `error` gives the quantization error of a range."""
    low, high = _Ends(counts, from_below=True), _Ends(counts, from_below=False)
    taken_low = taken_high = start = 0
    end, least = len(counts) - 1, float("inf")
    while low.share(taken_low) < high.share(taken_high):
        left = min(max(low.bin(taken_low + 1), start), end)
        right = max(min(high.bin(taken_high + 1), end), start)
        after = (start, end)
        if left - start > end - right:
            after, taken_low = (left, end), taken_low + 1
        else:
            after, taken_high = (start, right), taken_high + 1
        if after == (start, end):
            continue
        found = error(*after)
        if found > least:
            break
        least, (start, end) = found, after
    return start, end


class _Ends:
    """One end of the range as a function of the number of steps cut off there."""

    def __init__(self, counts: torch.Tensor, from_below: bool) -> None:
        self._from_below = from_below
        self._total = float(counts.sum())
        self._cumulated = np.asarray(torch.cumsum(counts, dim=0))
        self._all_shares = _shares(from_below)
        self._shares: list[float] = []
        self._bins: list[int] = []

    def share(self, steps: int) -> float:
        """The share of the counts up to the end."""
        self._reach(steps)
        return self._shares[steps]

    def bin(self, steps: int) -> int:
        """The bin of the end."""
        self._reach(steps)
        return self._bins[steps]

    def _reach(self, steps: int) -> None:
        while steps >= len(self._shares):
            block = self._all_shares[len(self._shares) : len(self._shares) + _BLOCK]
            limits = (block * self._total).astype(self._cumulated.dtype)
            if self._from_below:  # the first bin that reaches the limit
                bins = np.searchsorted(self._cumulated, limits, "left")
            else:  # the last that does not exceed it
                bins = np.searchsorted(self._cumulated, limits, "right") - 1
            self._shares += block.tolist()
            self._bins += bins.tolist()


@cache
def _shares(from_below: bool) -> np.ndarray:
    """The share after each number of steps, accumulated with the rounding of repeated addition."""
    steps = np.full(_MAX_STEPS, _STEP if from_below else -_STEP)
    steps[0] = 0.0 if from_below else 1.0
    return np.add.accumulate(steps)


__all__ = ["range_of_least_error"]
