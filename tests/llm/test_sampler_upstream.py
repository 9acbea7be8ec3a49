"""Draws with kind UPSTREAM: against a transcription of upstream's algorithm and upstream itself."""

from __future__ import annotations

import ctypes
import ctypes.util
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from support.paths import TESTS, UPSTREAM_PYTHON
from support.sampler_driver import UPSTREAM, Sampler

F32 = np.float32


def coins(seed: int, n: int) -> list[np.float32]:
    """Numbers of xorshift64*."""
    state, mask, made = seed, 2**64 - 1, []
    for _ in range(n):
        state ^= state >> 12
        state ^= state << 25 & mask
        state ^= state >> 27
        made.append(F32((state * 0x2545F4914F6CDD1D & mask) >> 40) / F32(2**24))
    return made


def softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    exp = ctypes.CDLL(ctypes.util.find_library("m")).expf
    exp.argtypes, exp.restype = [ctypes.c_float], ctypes.c_float
    scaled = logits * (F32(1) / F32(temperature))
    weights = np.array([exp(float(x)) for x in scaled - scaled.max()], F32)
    total = F32(0)
    for w in weights:
        total += w
    return weights / total


def taken(order: np.ndarray, p: np.ndarray, r: np.float32) -> int:
    total = F32(0)
    for i in order:
        total += p[i]
        if r < total:
            return int(i)
    return int(order[-1])


def transcribed(p: np.ndarray, top_k: int, top_p: float, coin: np.float32) -> int:
    """Equal probabilities are ordered by id here, so that there should be none."""
    n = p.size
    order = np.argsort(-p, kind="stable")
    if 0 < top_k < n:
        order = order[:top_k]
    elif 0 < top_p < 1:
        order = order[p[order] >= (F32(1) - F32(top_p)) / F32(n - 1)]
        kept, total = 0, F32(0)
        while kept < order.size and total <= F32(top_p):
            total += p[order[kept]]
            kept += 1
        order = order[:kept]
    else:
        return taken(np.arange(n), p, coin)
    total = F32(0)
    for i in order:
        total += p[i]
    return taken(order, p, coin * total)


@pytest.mark.parametrize("top_k", [0, 1, 12, 200])
@pytest.mark.parametrize("top_p", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.0])
def test_draws_are_those_of_the_algorithm(top_k: int, top_p: float, temperature: float) -> None:
    logits = np.random.default_rng(5).permutation(np.linspace(-6, 6, 200)).astype(F32)
    p, seed = softmax(logits, temperature), 1234567
    want = [transcribed(p, top_k, top_p, coin) for coin in coins(seed, 40)]
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    with Sampler(200, kind=UPSTREAM, **options) as sampler:
        assert sampler.draws(logits, 40).tolist() == want
        assert [sampler.draw(logits, i).id for i in (39, 7, 8, 0)] == [
            want[i] for i in (39, 7, 8, 0)
        ]


def cases(n: int, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits, many of them with equal numbers, and options."""
    rng = np.random.default_rng(vocab_size)
    logits = rng.normal(0.0, 1.0, (n, vocab_size)) * rng.uniform(0.5, 5.0, (n, 1))
    rows = logits.astype(F32)
    rows[1::5] = torch.from_numpy(rows[1::5]).bfloat16().float().numpy()
    rows[2::5] = np.round(rows[2::5])
    rows[3::5][rng.random(rows[3::5].shape) < 0.3] = -np.inf
    rows[:, 0] = 0
    top_k = rng.integers(1, vocab_size + 2, n) * rng.integers(0, 2, n)
    options = [
        rng.choice([0.0, 0.3, 0.7, 0.8, 1.0, 1.5], n),
        top_k.astype(np.float64),
        rng.choice([0.5, 0.9, 0.95, 0.99, 1.0], n),
        rng.integers(0, 2**40, n).astype(np.float64),
    ]
    return rows, np.stack(options, 1)


@pytest.mark.skipif(not UPSTREAM_PYTHON.exists(), reason="upstream is not installed")
@pytest.mark.parametrize("vocab_size", [17, 300, 5000, 32_000])
def test_draws_are_those_of_upstream(vocab_size: int, tmp_path: Path) -> None:
    logits, options = cases(60, vocab_size)
    n_draws = 30
    np.savez(tmp_path / "cases.npz", logits=logits, options=options, n_draws=n_draws)
    worker = [UPSTREAM_PYTHON, TESTS / "support" / "upstream_sampler.py"]
    command = [*worker, tmp_path / "cases.npz", tmp_path / "draws.npy"]
    subprocess.run(command, check=True, capture_output=True)
    want = np.load(tmp_path / "draws.npy")
    for i, (temperature, top_k, top_p, seed) in enumerate(options.tolist()):
        chosen = {"temperature": temperature, "top_k": int(top_k), "top_p": top_p}
        with Sampler(vocab_size, kind=UPSTREAM, seed=int(seed), **chosen) as sampler:
            assert sampler.draws(logits[i], n_draws).tolist() == want[i].tolist(), chosen
