"""Samplers in Python: options by name, the hook, and counts for penalties."""

from __future__ import annotations

import numpy as np
import pytest

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.sampler import Sampler, SamplingOptions

LOGITS = np.random.default_rng(0).normal(0.0, 2.0, 50).astype(np.float32)


def test_temperature_0_takes_the_first_of_the_greatest_logits() -> None:
    logits = np.array([1, 3, 3, 2], np.float32)
    assert Sampler(4, SamplingOptions(temperature=0.0)).draw(logits, 0).token == 1


def test_positions_and_seeds_decide_the_draw_alone() -> None:
    def drawn(seed: int, positions: list[int]) -> list[int]:
        sampler = Sampler(50, SamplingOptions(seed=seed))
        return [sampler.draw(LOGITS, p).token for p in positions]

    forward = drawn(7, list(range(20)))
    assert drawn(7, list(range(19, -1, -1))) == forward[::-1]
    assert drawn(8, list(range(20))) != forward


def test_biases_and_penalties_change_the_token() -> None:
    best = int(LOGITS.argmax())
    excluded = SamplingOptions(temperature=0.0, bias={best: float("-inf")})
    assert Sampler(50, excluded).draw(LOGITS, 0).token != best
    penalty = Sampler(50, SamplingOptions(temperature=0.0, presence_penalty=100.0))
    assert penalty.draw(LOGITS, 0).token == best
    penalty.add([best], generated=True)
    assert penalty.draw(LOGITS, 0).token != best
    penalty.clear()
    assert penalty.draw(LOGITS, 0).token == best


def test_the_hook_changes_a_copy() -> None:
    def only_5(logits: np.ndarray) -> None:
        logits[:] = -np.inf
        logits[5] = 0.0

    before = LOGITS.copy()
    assert Sampler(50, SamplingOptions(hook=only_5)).draw(LOGITS, 0).token == 5
    assert np.array_equal(LOGITS, before)


def test_log_probabilities_of_the_best_tokens() -> None:
    options = SamplingOptions(logprobs="model", n_best=3)
    drawn = Sampler(50, options).draw(LOGITS, 0)
    assert [token for token, _ in drawn.best] == np.argsort(-LOGITS, kind="stable")[:3].tolist()
    assert sum(np.exp(p) for _, p in drawn.best) < 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": -1.0}, "expected temperature 0, or a finite one"),
        ({"temperature": float("nan")}, "expected temperature 0, or a finite one"),
        ({"top_p": 1.5}, r"expected top_p in \(0, 1\], got 1.5"),
        ({"bias": {50: 1.0}}, "expected biases of ids below 50, got id 50"),
    ],
)
def test_options_out_of_their_ranges_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Sampler(50, SamplingOptions(**changes))  # type: ignore[arg-type]


def test_logits_that_are_no_distribution_are_refused() -> None:
    sampler = Sampler(50)
    for wrong in (np.full(50, np.nan), np.full(50, -np.inf), np.full(50, np.inf)):
        with pytest.raises(InvalidArgument, match=r"expected .*logit"):
            sampler.draw(wrong, 0)
    with pytest.raises(InvalidArgument, match="expected 50 logits of f32"):
        sampler.draw(np.zeros(49, np.float32), 0)
    with pytest.raises(ValueError, match="expected one of standard, upstream, got 'other'"):
        Sampler(50, SamplingOptions(sampler="other"))
