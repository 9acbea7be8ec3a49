"""How far back rings of keys allow to go, beside a simulation of their slots."""

from __future__ import annotations

import random

from executorch_py.extension.llm.session.interface import Ring
from executorch_py.extension.llm.session.kept import KeptPositions


def test_the_least_position_is_the_first_whose_whole_window_is_kept() -> None:
    choose = random.Random(2)
    for _ in range(200):
        longest, window = choose.randint(1, 6), choose.randint(1, 6)
        slots, sinks = window + longest - 1, choose.choice([0, 0, 1, 3])
        kept, ring, position = KeptPositions((Ring(window, slots, sinks),)), [-1] * slots, 0
        for _ in range(30):
            if choose.random() < 0.3:
                least = kept.least_position()
                position = choose.choice([0, *range(least, position + 1)])
                if position == 0:
                    kept.clear()
                    ring = [-1] * slots
            n = choose.randint(1, longest)
            kept.write(position + n)
            for p in range(max(sinks, position), position + n):
                ring[p % slots] = p
            position += n
            whole = [  # beside the first ones, which see sinks only
                to
                for to in range(sinks + 1, position + 1)
                if all(ring[p % slots] == p for p in range(max(sinks, to - window + 1), to))
            ]
            assert [to for to in whole if to >= kept.least_position()] == whole
            assert not kept.least_position() or kept.least_position() - 1 not in whole
