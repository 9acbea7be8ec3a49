"""Own files with packed weights beside own files without: size, first run, later runs, and memory
that a process has for itself.

    python tests/bench/bench_prepack.py [MODEL …] [--turns 5] [--threads 1]

Each figure is of fresh processes that start by turns: medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers import report
from subjects import MODELS, exported

NAMES = ("mobilenet_v2", "mobilenet_v3_large", "resnet50", "swin_t", "vit_b_16")
RUN = """
import json, sys, time
import numpy as np
from executorch_py.runtime import Runtime
path, n_threads, repeat = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
method = Runtime.get().load_program(path, n_threads=n_threads).load_method("forward")
shapes = [info.sizes() for info in map(method.metadata.input_tensor_meta, range(1))]
inputs = [np.ones(shape, np.float32) for shape in shapes]
times = []
for _ in range(1 + repeat):
    start = time.perf_counter()
    method.execute(inputs)
    times.append(time.perf_counter() - start)
private = [line for line in open("/proc/self/smaps_rollup") if line.startswith("Private_Dirty")]
later = sorted(times[1:])
print(json.dumps([times[0] * 1e3, later[len(later) // 2] * 1e3, int(private[0].split()[1]) / 1024]))
"""


def lower(name: str, folder: Path) -> dict[str, Path]:
    """Files of a model without and with packed weights."""
    from executorch_py.exir import ExecutorchBackendConfig, to_edge

    edge, files = to_edge(exported(name)), {}
    for side, prepack in (("plain", False), ("packed", True)):
        config = ExecutorchBackendConfig(own_operators=True, prepack=prepack)
        files[side] = folder / f"{name}_{side}.pte"
        edge.to_executorch(config).save(str(files[side]))
    return files


def measure(
    files: dict[str, Path], turns: int, threads: int, repeat: int
) -> dict[str, list[float]]:
    """Medians of ms of the first run, of later runs, and private MB, by side."""
    found: dict[str, list[list[float]]] = {side: [] for side in files}
    for _ in range(turns):
        for side, path in files.items():
            command = [sys.executable, "-c", RUN, str(path), str(threads), str(repeat)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[side].append(json.loads(done.stdout))
    return {
        side: [statistics.median(column) for column in zip(*rows, strict=True)]
        for side, rows in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=NAMES, choices=(*MODELS, []))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=10, help="later runs of a process")
    options = parser.parse_args()
    for name in options.models or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            files = lower(name, Path(folder))
            sizes = {side: path.stat().st_size for side, path in files.items()}
            found = measure(files, options.turns, options.threads, options.repeat)
        figures = {
            f"{what}_{side}": found[side][i]
            for i, what in enumerate(("first_ms", "later_ms", "private_mb"))
            for side in files
        }
        growth = sizes["packed"] / sizes["plain"] - 1
        report(f"{name}, {options.threads} thread(s)", size_growth=growth, **figures)


if __name__ == "__main__":
    main()
