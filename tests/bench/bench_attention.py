"""scaled_dot_product_attention: one kernel, the operators it decomposes into, and eager torch.

One process, single calls in turn, medians. Programs are called as users call them, from Python.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from peers import report
from torch import nn

from executorch_py.exir import ExecutorchBackendConfig, to_edge
from executorch_py.runtime import Runtime

# heads, queries, keys, columns of a head
SHAPES = ((12, 197, 197, 64), (12, 128, 128, 32), (8, 1024, 1024, 64), (8, 1, 1024, 64))
SECONDS = 2.0  # for each shape


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v)


def _method(args: tuple[torch.Tensor, ...], whole: bool, threads: int) -> Callable[..., Any]:
    edge = to_edge(torch.export.export(Attention(), args))
    program = edge.to_executorch(ExecutorchBackendConfig(own_operators=whole))
    loaded = Runtime.get().load_program(program.buffer, n_threads=threads)
    return loaded.load_method("forward").execute


def _microseconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def main() -> None:
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for heads, n_queries, n_keys, dim in SHAPES:
            args = (
                torch.randn(1, heads, n_queries, dim),
                torch.randn(1, heads, n_keys, dim),
                torch.randn(1, heads, n_keys, dim),
            )
            whole, parts = (_method(args, kind, threads) for kind in (True, False))
            given = [t.numpy() for t in args]
            calls: dict[str, Callable[[], Any]] = {
                "ours": partial(whole, given),
                "decomposed": partial(parts, given),
                "eager": partial(nn.functional.scaled_dot_product_attention, *args),
            }
            times: dict[str, list[float]] = {name: [] for name in calls}
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                for name, call in calls.items():
                    times[name].append(_microseconds(call))
            us = {name: statistics.median(found) for name, found in times.items()}
            report(
                f"attention {heads} x {n_queries} x {n_keys} x {dim}, {threads} threads",
                ours_us=us["ours"],
                decomposed_us=us["decomposed"],
                eager_us=us["eager"],
                ours_over_eager=us["ours"] / us["eager"],
                ours_over_decomposed=us["ours"] / us["decomposed"],
                bar="≤ 1, ≤ 1",
            )


if __name__ == "__main__":
    main()
