"""Choice of a plan: several strategies are tried, and the one that needs the fewest bytes wins.

Upstream's greedy is among them, so the result is never larger than its plan. The search stops when
a plan reaches the lower bound, the number of bytes alive at the busiest instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from executorch_py.exir.memory.best_fit import ORDERS, place_in_gaps
from executorch_py.exir.memory.greedy import place_in_shared_objects
from executorch_py.exir.memory.naive import place_sequentially
from executorch_py.exir.memory.request import Layout, Request, peak_live_bytes

Strategy = Callable[[Sequence[Request]], Layout]


def _gap_strategy(name: str) -> Strategy:
    return lambda requests: place_in_gaps(requests, ORDERS[name])


STRATEGIES: dict[str, Strategy] = {
    "gaps_by_size": _gap_strategy("size"),
    "shared_objects": place_in_shared_objects,
    "gaps_by_area": _gap_strategy("area"),
    "gaps_by_lifetime": _gap_strategy("lifetime"),
    "gaps_by_start": _gap_strategy("start"),
    "sequential": place_sequentially,
}


def least_bytes(requests: Sequence[Request]) -> tuple[str, Layout]:
    """The best plan over all strategies and the name of the strategy that found it."""
    floor = peak_live_bytes(requests)
    best: tuple[str, Layout] | None = None
    for name, strategy in STRATEGIES.items():
        layout = strategy(requests)
        if best is None or layout.total < best[1].total:
            best = (name, layout)
        if best[1].total <= floor:
            break
    assert best is not None
    return best
