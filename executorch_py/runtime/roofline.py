"""The roofline of this machine: its peak rates, measured once per number of threads.

The roofline has two parts. Arithmetic: f32 multiply-adds on registers, two operations each; the
peak of f64 is half of that. Memory: bytes per second that the same threads read, write and copy
within a working set, for sets from 16 KiB to 64 MiB, so that data in a cache is compared with the
rate of that cache. Knows rates only; profile.py has the operations and bytes of instructions.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from executorch_py import _C

WORKING_SETS = tuple(1 << k for k in range(14, 27))


@dataclass(frozen=True)
class Rates:
    """Bytes per second within a working set of `nbytes`; `copy` counts bytes read and written."""

    nbytes: int
    read: float
    write: float
    copy: float


@dataclass(frozen=True)
class Roofline:
    """Peak rates of `n_threads` threads: f32 operations per second, and bytes per second."""

    n_threads: int
    flops: float
    rates: tuple[Rates, ...]

    def rates_within(self, nbytes: int) -> Rates:
        """Rates of the smallest measured working set with `nbytes` or more, else of the largest."""
        fitting = (rates for rates in self.rates if rates.nbytes >= nbytes)
        return next(fitting, self.rates[-1])

    def compute_seconds(self, flops: int, dtype: str) -> float:
        """The minimum time of `flops` operations."""
        return flops / (self.flops / 2 if dtype in ("f64", "c128") else self.flops)

    def memory_seconds(self, read: int, written: int, working_set: int) -> float:
        """The minimum time of memory traffic: as much as possible at the rate of a copy."""
        rates = self.rates_within(working_set)
        copied = min(read, written)
        return (
            2 * copied / rates.copy
            + (read - copied) / rates.read
            + (written - copied) / rates.write
        )


@functools.cache
def measured(n_threads: int) -> Roofline:
    """The roofline, measured in about 0.3 s on the first call and then cached."""
    flops, _, found = _C.machine_rates(n_threads, WORKING_SETS)
    rates: list[Rates] = []
    best = (0.0, 0.0, 0.0)
    # A smaller working set is at least as fast as a larger one: a lower measurement was disturbed.
    for nbytes, each in zip(reversed(WORKING_SETS), reversed(found), strict=True):
        best = (max(best[0], each[0]), max(best[1], each[1]), max(best[2], each[2]))
        rates.append(Rates(nbytes, *best))
    return Roofline(n_threads, flops, tuple(reversed(rates)))
