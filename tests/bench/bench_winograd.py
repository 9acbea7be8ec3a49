"""Winograd convolutions beside the direct one: single layers, and whole models in turn.

Layers: one JSON line each, microseconds of the direct convolution and of each size of tiles, the
least of some rounds, in turn; weights come from a cache, where it holds them. Models: files of
math="exact" and math="fast", medians of runs in turn in one process. Words as arguments restrict
the run to subjects that contain them all.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from peers import report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from subjects import MODELS, exported
from support.op_driver import Const, Doubles, Out, Tensors, time_op

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.runtime import Runtime

ROUNDS = 7
ROUND_NS = 15e6
TILES = (2, 4, 6)
# channels in and out, pixels a side
LAYERS = [
    (64, 64, 56),
    (128, 128, 28),
    (256, 256, 14),
    (512, 512, 7),
    (64, 64, 112),
    (128, 128, 56),
    (256, 256, 28),
    (512, 512, 14),
    (16, 16, 56),
    (24, 24, 56),
    (32, 32, 56),
    (48, 48, 28),
    (64, 64, 14),
    (64, 64, 7),
    (128, 128, 7),
    (256, 256, 7),
    (128, 128, 14),
]
WHOLE_MODELS = ("resnet50", "resnet18")
SECONDS = 8.0


def _layer(c_in: int, c_out: int, size: int, threads: int) -> None:
    x = torch.randn(1, c_in, size, size).to(memory_format=torch.channels_last)
    weight, bias = Const(torch.randn(c_out, c_in, 3, 3)), Const(torch.randn(c_out))
    plain = (x, weight, bias, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    epilogue = ("relu", Doubles(), Tensors([]))
    out = [Out(torch.float32, (1, c_out, size, size), (0, 2, 3, 1))]
    calls: dict[str, tuple[str, tuple[Any, ...]]] = {
        "direct": ("executorch_py::convolution.out", (*plain, *epilogue)),
        **{
            f"tile_{m}": ("executorch_py::winograd_convolution.out", (*plain, m, *epilogue))
            for m in TILES
        },
    }
    repeats = {
        k: max(1, int(ROUND_NS / time_op(n, *a, out=out, repeats=3, threads=threads)))
        for k, (n, a) in calls.items()
    }
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for key, (name, args) in calls.items():
            ns = time_op(name, *args, out=out, repeats=repeats[key], threads=threads, rounds=1)
            best[key] = min(best[key], ns)
    report(
        _subject(c_in, c_out, size, threads),
        **{f"{key}_us": ns / 1e3 for key, ns in best.items()},
        **{f"{key}_over_direct": best[key] / best["direct"] for key in calls if key != "direct"},
    )


def _subject(c_in: int, c_out: int, size: int, threads: int) -> str:
    return f"layer {c_in} -> {c_out} at {size}x{size}, {threads} threads"


def _model(name: str, threads: int) -> None:
    methods, inputs = {}, [value.numpy() for value in MODELS[name][1]()]
    for math in ("exact", "fast"):
        config = ExecutorchBackendConfig(own_operators=True, math=math)
        program = to_edge(exported(name)).to_executorch(config)
        loaded = Runtime.get().load_program(bytes(program.buffer), n_threads=threads)
        methods[math] = loaded.load_method("forward")
        methods[math].execute(inputs)
    times: dict[str, list[float]] = {math: [] for math in methods}
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for math, method in methods.items():
            start = time.perf_counter()
            method.execute(inputs)
            times[math].append((time.perf_counter() - start) * 1e3)
    ms = {math: statistics.median(found) for math, found in times.items()}
    report(
        f"model {name}, {threads} threads",
        exact_ms=ms["exact"],
        fast_ms=ms["fast"],
        fast_over_exact=ms["fast"] / ms["exact"],
    )


def main() -> None:
    words = sys.argv[1:]
    for threads in (1, 2):
        for layer in LAYERS:
            if all(word in _subject(*layer, threads) for word in words):
                _layer(*layer, threads)
        for name in WHOLE_MODELS:
            if all(word in f"model {name}, {threads} threads" for word in words):
                _model(name, threads)


if __name__ == "__main__":
    main()
