"""Times of whole models of two checkouts, measured by turns, on one thread and on two.

    python checkout_models.py OLD_CHECKOUT NEW_CHECKOUT [--rounds N] [--only MODEL] [--ways WAY...]

Each side lowers the benchmarks' models (tests/bench/subjects.py) and runs its own files on its own
runtime. A round runs both sides, every second one in reverse order. The output has the least and
the median time of each side and the ratio new/old of both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from checkout_worker import Worker, answer_channel, serve

HERE = Path(__file__).resolve().parent
MODELS = (
    "mobilenet_v2",
    "mobilenet_v3_large",
    "resnet50",
    "vit_b_16",
    "swin_t",
    "minilm",
    "lstm",
    "gru",
)
WAYS = ("delegated", "any runtime", "own operators", "int8 delegated", "int8 own operators")


# ---- one side, in a separate process


def lower(model: str, way: str, path: str) -> None:
    sys.path.insert(0, str(HERE.parent / "bench"))
    import subjects

    from executorch_py.backends.xnnpack import XnnpackPartitioner
    from executorch_py.exir import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower

    def prepare(module: Any) -> Any:
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        from executorch_py.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )

        config = get_symmetric_quantization_config(is_per_channel=True)
        return prepare_pt2e(module, XNNPACKQuantizer().set_global(config))

    is_int8 = way.startswith("int8")
    program = subjects.quantized(model, prepare) if is_int8 else subjects.exported(model)
    if way.endswith("delegated"):
        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    else:
        edge = to_edge(program)
    config = ExecutorchBackendConfig(own_operators=way.endswith("own operators"))
    Path(path).write_bytes(edge.to_executorch(config).buffer)


class Side:
    """A loaded method of one checkout and its inputs; each request has one answer."""

    def lower(self, model: str, way: str, path: str) -> int:
        lower(model, way, path)
        return os.path.getsize(path)

    def load(self, model: str, path: str, threads: int) -> None:
        import subjects

        from executorch_py.runtime import Runtime

        self.inputs = [x.numpy() for x in subjects.MODELS[model][1]()]
        program = Runtime.get().load_program(path, n_threads=threads)
        self.method = program.load_method("forward")

    def run(self) -> float:
        start = time.perf_counter()
        self.method.execute(self.inputs)
        return (time.perf_counter() - start) * 1e3


# ---- both sides by turns


def measure(sides: list[Worker], rounds: int) -> list[list[float]]:
    """Milliseconds of both sides: rounds of one second or less, and a first one that warms up."""
    times: list[list[float]] = [[], []]
    least = max(side.ask("run") for side in sides)
    for i in range(rounds * max(1, min(20, int(200 / least)))):
        for k in (0, 1) if i % 2 else (1, 0):
            times[k].append(sides[k].ask("run"))
    return times


def compare(options: argparse.Namespace, model: str, way: str, folder: Path) -> None:
    checkouts = (options.old, options.new)
    sides = [Worker(__file__, path, options.python) for path in checkouts]
    paths = [str(folder / f"{k}.pte") for k in (0, 1)]
    try:
        sizes = [side.ask("lower", model, way, paths[k]) for k, side in enumerate(sides)]
        for threads in options.threads:
            for k, side in enumerate(sides):
                side.ask("load", model, paths[k], threads)
            old, new = measure(sides, options.rounds)
            medians = statistics.median(old), statistics.median(new)
            print(
                f"{model:20} {way:20} {threads:7d} {min(old):10.3f} {min(new):10.3f} "
                f"{min(new) / min(old):6.3f} {medians[0]:10.3f} {medians[1]:10.3f} "
                f"{medians[1] / medians[0]:6.3f} {sizes[1] / sizes[0]:6.3f} {len(old):6d}",
                flush=True,
            )
    finally:
        for side in sides:
            side.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=6, help="more for models that run fast")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument("--ways", choices=WAYS, nargs="*", default=list(WAYS))
    options = parser.parse_args()
    print(
        f"{'':20} {'':20} {'threads':>7} {'old least':>10} {'new least':>10} {'ratio':>6} "
        f"{'old median':>10} {'new median':>10} {'ratio':>6} {'bytes':>6} {'rounds':>6}"
    )
    for model in options.only or MODELS:
        for way in options.ways:
            with tempfile.TemporaryDirectory() as folder:
                compare(options, model, way, Path(folder))


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(answer_channel(), Side())
    else:
        main()
