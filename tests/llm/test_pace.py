"""Lengths of drafts: what drafts may cost where they are wrong, and gain where they are right."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from support.llm_driver import Pace

MOST = 8


def time_of(n_tokens: int, step: float, token: float, hits: Callable[[int], bool]) -> float:
    """The time of a text whose reads take `step`, and `token` more for each token of a draft;
    hits(i) says whether a draft of token i is right."""
    pace, spent, done = Pace(), 0.0, 0
    while done < n_tokens:
        n = pace.length(MOST)
        if n == 0:
            pace.read_one(step)
            spent, done = spent + step, done + 1
            continue
        accepted = 0
        while accepted < n and hits(done + accepted):
            accepted += 1
        took = step + n * token
        pace.read_draft(n, accepted, took)
        spent, done = spent + took, done + accepted + 1
    return spent


@pytest.mark.parametrize("token", [0.02, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("n_tokens", [60, 300, 3000])
def test_wrong_drafts_cost_at_most_a_twentieth(n_tokens: int, token: float) -> None:
    # The first drafts may cost the time of one read, and its share while this is not yet known.
    assert time_of(n_tokens, 1.0, token, lambda i: False) <= 1.05 * n_tokens + 4 * token


@pytest.mark.parametrize("token", [0.02, 0.1, 0.3])
def test_right_drafts_gain_what_they_can(token: float) -> None:
    best = (1 + MOST * token) / (MOST + 1)
    assert time_of(400, 1.0, token, lambda i: True) <= 400 * best * 1.1 + 2


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("token", [0.05, 0.15, 0.5, 1.2])
def test_drafts_that_are_right_at_times_are_never_a_loss(share: float, token: float) -> None:
    draw = random.Random(3)
    right = [draw.random() < share for _ in range(4000)]
    assert time_of(3000, 1.0, token, lambda i: right[i]) <= 1.05 * 3000


def test_a_text_that_repeats_itself_late_gains_soon() -> None:
    took = time_of(1000, 1.0, 0.1, lambda i: i >= 500)
    assert took <= 1.05 * 500 + 0.35 * 500


def test_one_slow_read_does_not_end_drafts() -> None:
    pace = Pace()
    pace.read_one(1.0)
    pace.read_one(1.0)
    for _ in range(6):
        pace.read_draft(4, 4, 1.4)
    pace.read_draft(4, 4, 50.0)
    spent = 0
    while pace.length(MOST) == 0:
        pace.read_one(1.0)
        spent += 1
    assert spent < 20
