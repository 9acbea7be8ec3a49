"""Times of two checkouts, measured by turns: import, load, run, call, lowering.

    python checkout_times.py OLD_CHECKOUT NEW_CHECKOUT [--rounds N] [--python P] [--only SUBJECT]
                             [--no-collector]

The model is a MobileNetV2 of full size, delegated to XNNPACK, with own operators and for any
runtime, on one thread. Each round measures both sides, every second round in reverse order, so that
a slower machine affects both. The output has medians, their ratio new/old, and the quartiles of the
rounds' ratios. With --no-collector, Python's garbage collector runs between the actions only: some
checkouts stop it while they lower a program, others leave it alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkout_worker import Worker, answer_channel, serve

WAYS = ("delegated", "own operators", "any runtime")
_IMPORT = """
import time, numpy
start = time.perf_counter()
import executorch_py.runtime
print((time.perf_counter() - start) * 1e3)
"""


# ---- one side, in a separate process


def mobilenet_v2() -> Any:
    """MobileNetV2 in its full size, with seeded weights."""
    from recorded_models import seeded
    from torch import nn

    def normed(inside: int, outside: int, size: int, stride: int, groups: int = 1) -> Any:
        conv = nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outside), nn.ReLU6())

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int, factor: int) -> None:
            super().__init__()
            wide = inside * factor
            self.residual = stride == 1 and inside == outside
            self.body = nn.Sequential(
                *([normed(inside, wide, 1, 1)] if factor > 1 else []),
                normed(wide, wide, 3, stride, wide),
                nn.Conv2d(wide, outside, 1, bias=False),
                nn.BatchNorm2d(outside),
            )

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.residual else self.body(x)

    def build() -> Any:
        layers, inside = [normed(3, 32, 3, 2)], 32
        for factor, outside, n, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            for i in range(n):
                layers.append(Block(inside, outside, stride if i == 0 else 1, factor))
                inside = outside
        head = [normed(320, 1280, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, *head, nn.Linear(1280, 1000))

    return seeded(build)


class Side:
    """A server of one checkout: seconds of one action, done once."""

    def __init__(self) -> None:
        import numpy as np
        import torch
        from recorded_models import data

        torch.set_num_threads(1)
        self.x = np.ascontiguousarray(data(1, 3, 224, 224).numpy())
        with torch.no_grad():
            program = torch.export.export(mobilenet_v2(), (torch.from_numpy(self.x),))
            one = torch.export.export(torch.nn.ReLU(), (torch.ones(1),))
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        self.methods: dict[str, Any] = {}
        for way in WAYS:
            self.lower(way)
            self.load(way)
        self.lower("any runtime", one, "call")
        self.load("call")
        self.one = np.ones(1, np.float32)

    def path(self, way: str) -> Path:
        return Path(self.folder.name) / f"{way}.pte"

    def lower(self, way: str, program: Any = None, name: str | None = None) -> None:
        from executorch_py.backends.xnnpack import XnnpackPartitioner
        from executorch_py.exir import (
            ExecutorchBackendConfig,
            to_edge,
            to_edge_transform_and_lower,
        )

        program = program or self.program
        if way == "delegated":
            edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        else:
            edge = to_edge(program)
        config = ExecutorchBackendConfig(own_operators=way == "own operators")
        self.path(name or way).write_bytes(edge.to_executorch(config).buffer)

    def load(self, way: str) -> None:
        from executorch_py.runtime import Runtime

        program = Runtime.get().load_program(str(self.path(way)), n_threads=1)
        self.methods[way] = program.load_method("forward")

    def run(self, way: str) -> None:
        self.methods[way].execute([self.x])

    def call(self, way: str) -> None:
        execute, inputs = self.methods["call"].execute, [self.one]
        for _ in range(1000):
            execute(inputs)

    def ready(self) -> None:
        """Answers once the side is made."""

    def seconds(self, what: str, way: str) -> float:
        do: Callable[[str], None] = getattr(self, what)
        start = time.perf_counter()
        do(way)
        return time.perf_counter() - start


class WithoutCollector(Side):
    """A side on which Python's garbage collector runs between the actions only."""

    def seconds(self, what: str, way: str) -> float:
        gc.disable()
        try:
            return super().seconds(what, way)
        finally:
            gc.enable()
            gc.collect()


# ---- both sides by turns


def seconds(worker: Worker, what: str, way: str) -> float:
    if what != "import":
        return float(worker.ask("seconds", what, way))
    done = subprocess.run(
        [worker.python, "-c", _IMPORT],
        env=worker.environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout) / 1e3


# Subject → request, way, and how many times as many rounds as of lowering.
SUBJECTS: dict[str, tuple[str, str, int]] = {
    "import": ("import", "", 4),
    "call, 1000 times": ("call", "", 10),
    **{f"load, {way}": ("load", way, 10) for way in WAYS},
    **{f"run, {way}": ("run", way, 20) for way in WAYS},
    **{f"lowering, {way}": ("lower", way, 1) for way in WAYS},
}


def measure(old: Worker, new: Worker, subject: str, rounds: int) -> dict[str, float]:
    """Medians in milliseconds, and quartiles of the rounds' ratios new/old."""
    what, way, factor = SUBJECTS[subject]
    times: dict[Worker, list[float]] = {old: [], new: []}
    for i in range(rounds * factor + 1):
        for worker in (old, new) if i % 2 else (new, old):
            times[worker].append(seconds(worker, what, way) * 1e3)
    before, after = times[old][1:], times[new][1:]  # the first round warms up
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    medians = statistics.median(before), statistics.median(after)
    return {
        "old_ms": medians[0],
        "new_ms": medians[1],
        "ratio": medians[1] / medians[0],
        "low": low,
        "high": high,
        "rounds": len(ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5, help="of lowering; the rest has more")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", action="append", help="subjects that begin with this")
    parser.add_argument("--no-collector", action="store_true", help="on both sides")
    parser.add_argument("--out", type=Path, help="a JSON file of the figures")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"expected at least 2 rounds, got {options.rounds}")
    rest = ["--no-collector"] if options.no_collector else []
    sides = [
        Worker(__file__, path, options.python, rest, OMP_NUM_THREADS="1")
        for path in (options.old, options.new)
    ]
    for side in sides:
        side.ask("ready")
    print(f"{'':28} {'old ms':>10} {'new ms':>10} {'new/old':>8}  quartiles of {'rounds':>8}")
    found = {}
    for subject in SUBJECTS:
        if options.only and not subject.startswith(tuple(options.only)):
            continue
        row = found[subject] = measure(sides[0], sides[1], subject, options.rounds)
        print(
            f"{subject:28} {row['old_ms']:10.3f} {row['new_ms']:10.3f} {row['ratio']:8.3f}  "
            f"{row['low']:.3f} … {row['high']:.3f} {row['rounds']:8d}",
            flush=True,
        )
    for side in sides:
        side.close()
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    if "--serve" in sys.argv:
        channel = answer_channel()
        serve(channel, WithoutCollector() if "--no-collector" in sys.argv else Side())
    else:
        main()
