"""Signal-to-noise ratios: of powers, and at the ends of the scale."""

from __future__ import annotations

import math

import pytest

from executorch_py.exir.ir.decibels import sqnr_db


@pytest.mark.parametrize(
    ("signal", "noise", "found"),
    [
        (100.0, 1.0, 20.0),
        (1.0, 10.0, -10.0),
        (1.0, 0.0, math.inf),
        (0.0, 0.0, math.inf),
        (0.0, 1.0, -math.inf),
        (1.0, math.inf, -math.inf),
        (math.inf, math.inf, -math.inf),
        (math.nan, 0.0, -math.inf),
        (1.0, math.nan, -math.inf),
        (1e-300, 1e300, -6000.0),
    ],
)
def test_the_ratio_of_two_powers_in_decibels(signal: float, noise: float, found: float) -> None:
    assert sqnr_db(signal, noise) == pytest.approx(found)
