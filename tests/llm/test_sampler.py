"""Samplers in C against transformers' logits processors, in f64, and known distributions."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from support.sampler_driver import (
    DRAWN,
    GENERATED,
    MODEL,
    PROMPT,
    STANDARD,
    UPSTREAM,
    Counts,
    Sampler,
    SamplerError,
    library,
)
from support.tolerance import CANDIDATES, CANDIDATES_OF_128K, LOG_PROBABILITIES, assert_near
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

F32 = np.float32
TINY = 1e-37  # probabilities below it are 0 in f32


def warpers(options: dict[str, Any]) -> LogitsProcessorList:
    """The filters of `_get_logits_processor`, in its order."""
    made = LogitsProcessorList()
    if "top_k" in options:
        made.append(TopKLogitsWarper(options["top_k"]))
    if "top_p" in options:
        made.append(TopPLogitsWarper(options["top_p"]))
    if "min_p" in options:
        made.append(MinPLogitsWarper(options["min_p"]))
    if "typical_p" in options:
        made.append(TypicalLogitsWarper(options["typical_p"]))
    return made


def wanted(logits: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Probabilities by transformers: scores in f32, filters in f64."""
    scores = torch.from_numpy(logits)[None]
    if "temperature" in options:
        scores = TemperatureLogitsWarper(options["temperature"])(None, scores)
    return warpers(options)(None, scores.double())[0].softmax(-1).numpy()


def got(logits: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    with Sampler(logits.size, **options) as sampler:
        ids, probabilities = sampler.candidates(logits)
    assert (np.diff(ids.astype(np.int64)) > 0).all()
    full = np.zeros(logits.size)
    full[ids] = probabilities
    return full


def logits_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    normal = rng.normal(0.0, rng.uniform(0.1, 6.0), n).astype(F32)
    if kind == "ties":
        return np.round(normal * 2) / 2
    if kind == "bf16":
        return torch.from_numpy(normal).bfloat16().float().numpy()
    if kind == "excluded":
        normal[rng.random(n) < 0.5] = -np.inf
        normal[0] = 1.0
    elif kind == "extreme":
        normal *= F32(rng.choice([1e-3, 1e3, 1e30]))
    elif kind == "peaked":
        normal[rng.integers(0, n, 3)] += F32(25.0)
    return normal


def options_of(n: int, rng: np.random.Generator) -> dict[str, Any]:
    values: dict[str, list[Any]] = {
        "temperature": [0.1, 0.7, 1.3, 5.0],
        "top_k": [1, 5, 50, n // 2 + 1],
        "top_p": [0.01, 0.3, 0.5, 0.9, 0.95, 0.999],
        "min_p": [0.01, 0.05, 0.3, 1.0],
        "typical_p": [0.2, 0.5, 0.9, 0.99],
    }
    chosen = {k: v[rng.integers(len(v))] for k, v in values.items() if rng.random() < 0.4}
    return chosen


@pytest.mark.parametrize("kind", ["normal", "ties", "bf16", "excluded", "extreme", "peaked"])
def test_candidates_are_those_of_transformers(kind: str) -> None:
    """Scores are compared: of equal ones at the border of top-p, torch's sort keeps other ids."""
    rng = np.random.default_rng(len(kind))
    for _ in range(400):
        n = int(rng.choice([1, 2, 17, 64, 65, 300, 5000, 9000]))
        logits, options = logits_of(kind, n, rng), options_of(n, rng)
        want, have = wanted(logits, options), got(logits, options)
        left, mine = np.flatnonzero(want > TINY), np.flatnonzero(have > TINY)
        case = (n, options, left.size, mine.size)
        assert np.array_equal(np.sort(logits[left]), np.sort(logits[mine])), case
        # Scores have 24 bits, so that great ones have great absolute errors.
        finite = logits[np.isfinite(logits)] / options.get("temperature", 1.0)
        scale = 1 + float(np.ptp(finite[np.isfinite(finite)])) / 20
        assert_near(np.sort(have[mine]), np.sort(want[left]), CANDIDATES.times(scale))


def test_equal_tokens_at_the_border_of_top_p_stay_by_least_ids() -> None:
    for n in (10, 5000, 20000):  # in one band, and as one key
        ids = np.flatnonzero(got(np.zeros(n, F32), {"top_p": 0.25}))
        assert abs(ids.size - n // 4) <= 1 and np.array_equal(ids, np.arange(ids.size))
    logits = np.array([0, 1, 1, 1, 0], F32)
    assert np.flatnonzero(got(logits, {"top_p": 0.4})).tolist() == [1, 2]
    assert np.flatnonzero(got(logits, {"top_p": 1e-6})).tolist() == [1]


def test_equal_tokens_at_the_border_of_top_k_and_typical_stay() -> None:
    logits = np.array([3, 1, 1, 1, 0], F32)
    assert np.flatnonzero(got(logits, {"top_k": 2})).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(got(np.zeros(9000, F32), {"typical_p": 0.1})).size == 9000


@pytest.mark.parametrize("spread", [1.0, 3.0, 8.0])
@pytest.mark.parametrize(
    "options",
    [
        {"top_p": 0.9},
        {"top_p": 0.9, "temperature": 0.7},
        {"top_p": 0.5, "min_p": 0.2},
        {"typical_p": 0.9},
        {"top_p": 0.95, "typical_p": 0.5},
        {"top_k": 50, "top_p": 0.9},
        {"top_k": 3000, "top_p": 0.9},
        {"min_p": 0.01},
    ],
    ids=str,
)
def test_candidates_of_a_large_vocabulary(spread: float, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(11)
    logits = rng.normal(0.0, spread, 128_256).astype(F32)
    want, have = wanted(logits, options), got(logits, options)
    # Sums of f32 weights err by 1e-7: a token at the border may be on its other side.
    different = np.flatnonzero((want > TINY) != (have > TINY))
    assert different.size <= 1
    same = np.setdiff1d(np.arange(want.size), different)
    assert_near(have[same], want[same], CANDIDATES_OF_128K)


# ---- draws


def z_of_chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """The statistic as a standard normal number (Wilson and Hilferty)."""
    free = counts.size - 1
    if free == 0:
        return 0.0
    ratio = float(((counts - expected) ** 2 / expected).sum()) / free
    return (ratio ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.6},
        {"temperature": 2.0, "seed": 2**63 + 5},
        {"top_k": 7},
        {"top_p": 0.8},
        {"min_p": 0.1},
        {"typical_p": 0.7},
        {"temperature": 1.5, "top_k": 30, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.95},
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [3, 60, 700])
def test_draws_have_the_distribution(options: dict[str, Any], n: int) -> None:
    logits = np.random.default_rng(n).normal(0.0, 1.0, n).astype(F32)
    n_draws = 200_000
    with Sampler(n, **options) as sampler:
        ids = sampler.draws(logits, n_draws)
    counts, expected = np.bincount(ids, minlength=n), wanted(logits, options) * n_draws
    assert counts[expected == 0].sum() == 0
    kept = expected > 0
    assert abs(z_of_chi_square(counts[kept], expected[kept])) < 4


def test_draws_depend_on_seed_and_position_only() -> None:
    logits = np.random.default_rng(3).normal(0.0, 1.0, 500).astype(F32)
    with Sampler(500, seed=9) as one, Sampler(500, seed=9) as two, Sampler(500, seed=10) as other:
        ids = one.draws(logits, 300)
        backwards = [two.draw(logits, position).id for position in range(299, -1, -1)]
        assert ids.tolist() == backwards[::-1]
        assert one.draws(logits, 100, position=200).tolist() == ids[200:].tolist()
        assert (other.draws(logits, 300) != ids).mean() > 0.9
        assert one.draw(logits, 2**63 + 7).id == two.draw(logits, 2**63 + 7).id


def test_random_numbers_are_those_of_philox() -> None:
    first = library().ets_uniform(0, 0)  # the known answer of Random123 is 6627e8d5 e169c58d …
    assert first == (0xE169C58D6627E8D5 >> 11) * 2.0**-53


def test_tokens_are_those_of_every_machine() -> None:
    """Draws that were recorded on x86-64; aarch64 and riscv64 have given the same."""
    logits = (np.arange(3000) * 7919 % 3001 / 300).astype(F32)
    options = {"temperature": 0.8, "top_p": 0.9, "min_p": 0.001, "seed": 42}
    with Sampler(3000, **options) as sampler:
        ids = sampler.draws(logits, 12)
    assert ids.tolist() == RECORDED


RECORDED = [1412, 969, 1966, 1999, 2511, 875, 2226, 1221, 399, 1185, 1985, 1307]


def test_weights_and_logarithms_are_accurate() -> None:
    y = np.concatenate([np.linspace(0, 90, 200_001), [0.0, np.inf, 1e-30]]).astype(F32)
    out = np.zeros_like(y)
    library().ets_weights(y.ctypes.data, y.size, out.ctypes.data)
    exact = np.exp(-y.astype(np.float64))
    normal = y < 87.3
    assert (np.abs(out - exact)[normal] <= np.spacing(exact.astype(F32))[normal]).all()
    assert out[-3] == 1.0 and out[-2] == 0.0 and (out[y > 87.7] == 0.0).all()
    for x in np.exp(np.linspace(-80, 80, 4001)):
        assert math.isclose(library().ets_log(x), math.log(x), rel_tol=1e-14, abs_tol=1e-12)


def test_temperature_zero_takes_the_first_greatest_logit() -> None:
    rng = np.random.default_rng(4)
    for n in (1, 63, 64, 65, 1000):
        logits = np.round(rng.normal(0.0, 2.0, n)).astype(F32)
        logits[-1] = logits.max()
        for options in ({}, {"top_k": 3, "top_p": 0.1, "typical_p": 0.2}, {"kind": UPSTREAM}):
            with Sampler(n, temperature=0.0, **options) as sampler:
                assert sampler.draw(logits).id == int(logits.argmax())


# ---- changes of logits


def test_logits_change_in_the_order_of_transformers() -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        n = int(rng.integers(2, 400))
        logits = rng.normal(0.0, 4.0, n).astype(F32)
        prompt, generated = rng.integers(0, n, 40), rng.integers(0, n, 30)
        bias = {int(i): float(rng.normal()) for i in rng.integers(0, n, 5)}
        repetition, frequency, presence = rng.uniform(0.5, 2.0), rng.normal(), rng.normal()
        ids = torch.from_numpy(np.concatenate([prompt, generated]))[None]
        scores = torch.from_numpy(logits)[None]
        scores = SequenceBiasLogitsProcessor({(i,): b for i, b in bias.items()})(ids, scores)
        want = RepetitionPenaltyLogitsProcessor(repetition)(ids, scores)[0].numpy()
        for i, times in Counter(generated.tolist()).items():
            want[i] = want[i] - F32(frequency) * F32(times) - F32(presence)
        counts = Counts(n)
        counts.add(PROMPT, prompt)
        counts.add(GENERATED, generated)
        penalties = {
            "repetition_penalty": repetition,
            "frequency_penalty": frequency,
            "presence_penalty": presence,
        }
        before = logits.copy()
        with Sampler(n, bias=bias, **penalties) as sampler:
            assert np.array_equal(sampler.changed(logits, counts), want)
        assert np.array_equal(logits, before)


def test_hook_sees_logits_after_penalties_and_writes_a_copy() -> None:
    logits = np.array([1, 2, 3, 4], F32)
    seen = []

    def only_first(view: np.ndarray) -> int:
        seen.append(view.copy())
        view[1:] = -np.inf
        return 0

    counts = Counts(4)
    counts.add(GENERATED, [3])
    with Sampler(4, hook=only_first, bias={2: 0.5}, presence_penalty=2.0) as sampler:
        assert sampler.draw(logits, counts=counts).id == 0
    assert np.array_equal(seen[0], np.array([1, 2, 3.5, 2], F32))
    assert np.array_equal(logits, np.array([1, 2, 3, 4], F32))
    with Sampler(4, hook=lambda view: 0x12) as sampler, pytest.raises(SamplerError) as raised:
        sampler.draw(logits)
    assert raised.value.status == 0x12


def test_biases_exclude_tokens() -> None:
    logits = np.zeros(8, F32)
    with Sampler(8, bias=dict.fromkeys(range(7), -math.inf)) as sampler:
        assert set(sampler.draws(logits, 100).tolist()) == {7}


def test_counts_follow_a_text_forwards_and_backwards() -> None:
    rng, n = np.random.default_rng(8), 50
    counts, text = Counts(n), list[tuple[int, int]]()
    logits = np.zeros(n, F32)
    with Sampler(n, frequency_penalty=1.0, repetition_penalty=2.0, bias={0: 1.0}) as sampler:
        for _ in range(300):
            if text and rng.random() < 0.45:
                part, token = text.pop(int(rng.integers(len(text))))
                counts.remove(part, [token])
            else:
                part, token = int(rng.integers(2)), int(rng.integers(n))
                text.append((part, token))
                counts.add(part, [token])
            generated = Counter(token for part, token in text if part == GENERATED)
            want = -np.array([generated[i] for i in range(n)], F32)
            want[0] += F32(0.5 if any(token == 0 for _, token in text) else 1.0)
            assert np.array_equal(sampler.changed(logits, counts), want)
            assert counts.n_seen() == len({token for _, token in text})
        counts.clear()
        assert counts.n_seen() == 0
        assert np.array_equal(sampler.changed(logits, counts), np.eye(1, n, dtype=F32)[0])


# ---- log-probabilities


@pytest.mark.parametrize("n", [1, 5, 300, 20_000])
@pytest.mark.parametrize("n_best", [0, 1, 5, 100])
def test_log_probabilities_of_the_model(n: int, n_best: int) -> None:
    n_best = min(n, n_best)
    logits = np.round(np.random.default_rng(n).normal(0.0, 3.0, n) * 8).astype(F32) / 8
    want = torch.from_numpy(logits).double().log_softmax(0).numpy()
    best = sorted(range(n), key=lambda i: (-want[i], i))[:n_best]
    changes = {"bias": {0: 2.0}, "temperature": 0.5, "top_k": 2}
    for options in ({}, changes, {"temperature": 0.0}, {"kind": UPSTREAM, "top_p": 0.5}):
        with Sampler(n, logprobs=MODEL, n_best=n_best, **options) as sampler:
            drawn = sampler.draw(logits)
        assert abs(drawn.logprob - want[drawn.id]) < 1e-6
        assert [i for i, _ in drawn.best] == best
        assert_near(np.array([p for _, p in drawn.best]), want[best], LOG_PROBABILITIES.times(0.5))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.7, "top_k": 20},
        {"top_p": 0.6},
        {"top_p": 0.9, "typical_p": 0.5},
        {"min_p": 0.2},
        {"top_k": 1},
    ],
    ids=str,
)
def test_log_probabilities_of_the_distribution_drawn_from(options: dict[str, Any]) -> None:
    logits = np.random.default_rng(1).normal(0.0, 2.0, 2000).astype(F32)
    want = wanted(logits, options)
    best = [i for i in np.argsort(-want, kind="stable")[:10] if want[i] > 0]
    with Sampler(2000, logprobs=DRAWN, n_best=10, **options) as sampler:
        for position in range(20):
            drawn = sampler.draw(logits, position)
            assert abs(drawn.logprob - math.log(want[drawn.id])) < 2e-6
            assert [i for i, _ in drawn.best] == best
            found = np.array([p for _, p in drawn.best])
            assert_near(found, np.log(want[best]), LOG_PROBABILITIES)


# ---- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "expected temperature 0, or a finite one .*, got -1"),
        ({"temperature": math.nan}, "expected temperature 0, .* got nan"),
        ({"temperature": math.inf}, "expected temperature 0, .* got inf"),
        ({"temperature": 1e-40}, "expected temperature 0, .* got 1e-40"),
        ({"top_k": -1}, "expected top_k of at least 0, got -1"),
        ({"top_p": 0.0}, r"expected top_p in \(0, 1\], got 0"),
        ({"top_p": 1.1}, r"expected top_p in \(0, 1\], got 1.1"),
        ({"top_p": math.nan}, r"expected top_p in \(0, 1\], got nan"),
        ({"min_p": -0.1}, r"expected min_p in \[0, 1\], got -0.1"),
        ({"min_p": math.nan}, r"expected min_p in \[0, 1\], got nan"),
        ({"typical_p": 0.0}, r"expected typical_p in \(0, 1\], got 0"),
        ({"repetition_penalty": 0.0}, "expected a finite repetition_penalty above 0, got 0"),
        ({"repetition_penalty": math.nan}, "expected a finite repetition_penalty above 0"),
        ({"frequency_penalty": math.inf}, "expected a finite frequency_penalty, got inf"),
        ({"presence_penalty": math.nan}, "expected a finite presence_penalty, got nan"),
        ({"bias": {10: 1.0}}, "expected biases of ids below 10, got id 10"),
        ({"bias": {3: math.nan}}, "expected a bias that is finite or -infinity for id 3, got nan"),
        ({"bias": {3: math.inf}}, "expected a bias that is finite or -infinity for id 3, got inf"),
        ({"kind": 2}, "expected kind 0 or 1, got 2"),
        ({"logprobs": 3}, "expected logprobs 0, 1 or 2, got 3"),
        ({"n_best": 3}, "expected logprobs for n_best 3, got none"),
        ({"n_best": 11, "logprobs": MODEL}, "expected n_best of at most 10, got 11"),
        ({"kind": UPSTREAM, "min_p": 0.1}, "expected min_p 0 and typical_p 1 for upstream's"),
        ({"kind": UPSTREAM, "logprobs": DRAWN}, "expected log-probabilities of the model"),
    ],
    ids=str,
)
def test_options_outside_of_their_ranges_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplerError, match=f"^sampler: {message}"):
        Sampler(10, **options)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.0}, {"kind": UPSTREAM}], ids=str)
def test_logits_without_a_distribution_are_refused(options: dict[str, Any]) -> None:
    for n in (5, 64, 1000):
        with Sampler(n, **options) as sampler:
            for bad, name in ((math.nan, "NaN"), (math.inf, "[+]infinity")):
                logits = np.zeros(n, F32)
                logits[n - 2] = bad
                with pytest.raises(SamplerError, match=f"got {name} for id {n - 2}$"):
                    sampler.draw(logits)
            with pytest.raises(SamplerError, match="expected a logit above -infinity, got none"):
                sampler.draw(np.full(n, -np.inf, F32))
    with (
        Sampler(4, temperature=1e-30, kind=options.get("kind", STANDARD)) as sampler,
        pytest.raises(SamplerError, match="expected a finite greatest logit / temperature"),
    ):
        sampler.draw(np.full(4, 3e38, F32))


def test_memory_counts_and_positions_are_checked() -> None:
    with pytest.raises(SamplerError, match=r"expected \d+ bytes of scratch memory, got \d+"):
        Sampler(100, missing=64)
    with pytest.raises(SamplerError, match=r"token counts: expected \d+ bytes, got \d+"):
        Counts(100, missing=64)
    for n in (0, 2**31 + 1):
        with pytest.raises(SamplerError, match=r"expected a vocabulary of 1 to 2\^31 tokens"):
            Sampler(n)
        with pytest.raises(SamplerError, match=r"expected a vocabulary of 1 to 2\^31 tokens"):
            Counts(n)
        assert library().ets_scratch_bytes(n) == 0
    logits = np.zeros(10, F32)
    with Sampler(10, presence_penalty=1.0) as sampler:
        with pytest.raises(SamplerError, match="expected counts of tokens for penalties"):
            sampler.draw(logits)
        with pytest.raises(SamplerError, match="expected counts for 10 tokens, got 11"):
            sampler.draw(logits, counts=Counts(11))
    with (
        Sampler(10, kind=UPSTREAM) as sampler,
        pytest.raises(SamplerError, match=r"expected a position below 2\^26"),
    ):
        sampler.draw(logits, 2**26)
    counts = Counts(10)
    counts.add(PROMPT, [1, 2, 2])
    with pytest.raises(SamplerError, match="expected ids below 10, got 10"):
        counts.add(PROMPT, [3, 10])
    for part, ids in ((PROMPT, [1, 3]), (PROMPT, [2, 2, 2]), (GENERATED, [1]), (PROMPT, [10])):
        with pytest.raises(SamplerError, match=r"expected \d tokens that were added, got others"):
            counts.remove(part, ids)
    assert counts.n_seen() == 2
