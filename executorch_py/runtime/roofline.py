"""The roofline of this machine: what no instruction can beat, measured once per number of threads.

A roof has two sides. Arithmetic: f32 multiply-adds on registers, two operations each; f64 has half
of them. Memory: bytes a second that the same threads read, write and copy within a working set,
for sets from 16 KiB to 64 MiB, so that data in a cache is held against that cache. Knows numbers
only: what an instruction computes and moves is said in profile.py.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from executorch_py import _C

WORKING_SETS = tuple(1 << k for k in range(14, 27))


@dataclass(frozen=True)
class Rates:
    """Bytes a second within a working set of `nbytes`; `copy` counts both what is read and what is
    written."""

    nbytes: int
    read: float
    write: float
    copy: float


@dataclass(frozen=True)
class Roofline:
    """Peak of `n_threads` threads: f32 operations a second, and bytes a second."""

    n_threads: int
    flops: float
    rates: tuple[Rates, ...]

    def rates_within(self, nbytes: int) -> Rates:
        """Of the smallest measured working set that holds that many bytes, else of the largest."""
        fitting = (rates for rates in self.rates if rates.nbytes >= nbytes)
        return next(fitting, self.rates[-1])

    def compute_seconds(self, flops: int, dtype: str) -> float:
        """The least time for that much arithmetic."""
        return flops / (self.flops / 2 if dtype in ("f64", "c128") else self.flops)

    def memory_seconds(self, read: int, written: int, working_set: int) -> float:
        """The least time for moving bytes: as much as can be is a copy, the rest is one way."""
        rates = self.rates_within(working_set)
        copied = min(read, written)
        return (
            2 * copied / rates.copy
            + (read - copied) / rates.read
            + (written - copied) / rates.write
        )


@functools.cache
def measured(n_threads: int) -> Roofline:
    """Takes about 0.3 s the first time; later calls in this process return the same."""
    flops, found = _C.machine_rates(n_threads, WORKING_SETS)
    rates: list[Rates] = []
    best = (0.0, 0.0, 0.0)
    # A smaller working set is at least as fast as a larger one: disturbed measurements are lifted.
    for nbytes, each in zip(reversed(WORKING_SETS), reversed(found), strict=True):
        best = (max(best[0], each[0]), max(best[1], each[1]), max(best[2], each[2]))
        rates.append(Rates(nbytes, *best))
    return Roofline(n_threads, flops, tuple(reversed(rates)))
