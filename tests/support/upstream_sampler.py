"""Draws of upstream's own sampler, run by the Python of upstream's virtual environment.

    python upstream_sampler.py CASES.npz DRAWS.npy

It calls the C++ class inside upstream's runner library through its symbols, because upstream has no
Python interface to it. Cases: `logits` [n, vocab_size] f32, `options` [n, 4] f64 (temperature,
top_k, top_p, seed), `n_draws`. The result is [n, n_draws].
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

CLASS = "_ZN10executorch9extension3llm7Sampler"
TOP_K_OFFSET = 12  # of the field after vocab_size, 1 / temperature and top_p


def library() -> ctypes.CDLL:
    from executorch.extension.llm.runner import _llm_runner

    return ctypes.CDLL(_llm_runner.__file__)


def draws(lib: ctypes.CDLL, logits: np.ndarray, options: Any, n: int) -> list[int]:
    temperature, top_k, top_p, seed = options
    construct, sample = lib[f"{CLASS}C1Eiffy"], lib[f"{CLASS}6sampleIfEEiPT_"]
    construct.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_float,
        ctypes.c_float,
        ctypes.c_ulonglong,
    ]
    construct.restype = None
    sample.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    sample.restype = ctypes.c_int
    memory = ctypes.create_string_buffer(256)
    construct(memory, logits.size, temperature, top_p, int(seed))
    ctypes.c_int.from_buffer(memory, TOP_K_OFFSET).value = int(top_k)
    ids = []
    for _ in range(n):
        copy = np.ascontiguousarray(logits, np.float32).copy()  # upstream scales it in place
        ids.append(sample(memory, copy.ctypes.data))
    return ids


def main() -> None:
    lib, cases = library(), np.load(sys.argv[1])
    n = int(cases["n_draws"])
    rows = zip(cases["logits"], cases["options"], strict=True)
    np.save(sys.argv[2], np.array([draws(lib, logits, options, n) for logits, options in rows]))


if __name__ == "__main__":
    main()
