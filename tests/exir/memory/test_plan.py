"""The planning strategies: every plan is sound, and the chosen one is never worse than greedy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executorch_py.exir.memory.greedy import place_in_shared_objects
from executorch_py.exir.memory.plan import STRATEGIES, least_bytes
from executorch_py.exir.memory.request import Layout, Request, overlap, peak_live_bytes


def requests() -> st.SearchStrategy[list[Request]]:
    one = st.builds(
        lambda size, first, length: Request(16 * size, first, first + length),
        st.integers(0, 40),
        st.integers(0, 30),
        st.integers(0, 12),
    )
    return st.lists(one, min_size=1, max_size=40)


def assert_sound(asked: list[Request], layout: Layout) -> None:
    for i, a in enumerate(asked):
        assert layout.offsets[i] >= 0 and layout.offsets[i] + a.size <= layout.total
        for j in range(i):
            b = asked[j]
            apart = (
                layout.offsets[i] + a.size <= layout.offsets[j]
                or layout.offsets[j] + b.size <= layout.offsets[i]
            )
            assert apart or not overlap(a, b) or a.size == 0 or b.size == 0


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@settings(max_examples=60, deadline=None)
@given(asked=requests())
def test_no_strategy_lets_live_storages_overlap(name: str, asked: list[Request]) -> None:
    assert_sound(asked, STRATEGIES[name](asked))


@settings(max_examples=60, deadline=None)
@given(asked=requests())
def test_the_chosen_plan_needs_no_more_than_greedy_and_no_less_than_is_live(
    asked: list[Request],
) -> None:
    _, layout = least_bytes(asked)
    assert peak_live_bytes(asked) <= layout.total <= place_in_shared_objects(asked).total


def test_a_large_dead_storage_is_split_among_later_ones() -> None:
    asked = [Request(64, 0, 1), Request(32, 2, 3), Request(32, 2, 3)]
    assert least_bytes(asked)[1].total == 64


def test_greedy_reuses_the_first_object_whose_occupants_are_dead() -> None:
    asked = [Request(48, 0, 1), Request(32, 1, 2), Request(16, 2, 3)]
    layout = place_in_shared_objects(asked)
    assert layout.offsets == (0, 48, 0)
    assert layout.total == 80
