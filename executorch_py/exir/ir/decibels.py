"""Signal-to-noise ratio in decibels, from the powers of both. Relies on nothing."""

from __future__ import annotations

import math


def sqnr_db(signal: float, noise: float) -> float:
    """The ratio of two powers in decibels: infinite without noise, -infinite without a signal.

    NaN or infinite noise leave nothing of the signal.
    """
    if math.isnan(signal) or not math.isfinite(noise):
        return -math.inf
    if noise == 0:
        return math.inf
    if signal == 0:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))
