"""Whole models compared with other runtimes on a CPU: fp32, 1 and 2 threads, batch 1.

Ours unpartitioned, in a file for any runtime and in one for ours only (own_operators), and
delegated to XNNPACK; torch eager and compiled, upstream's XNNPACK-delegated file, ONNX Runtime and
OpenVINO, in turn in one run; medians. A side that cannot convert or run a model is reported with
the reason. The last row is the geometric mean over the models.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

from peers import Peer, report, timed

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
SIDES = (
    "ours",
    "own_operators",
    "xnnpack",
    "eager",
    "compiled",
    "upstream_xnnpack",
    "onnxruntime",
    "openvino",
)
OURS = ("ours", "own_operators", "own_bf16", "xnnpack")
LOWERED = (*OURS, "upstream_xnnpack", "onnxruntime")
ROUNDS, RUNS = 12, 4


def lower(model: str, sides: list[str], folder: Path) -> dict[str, str]:
    paths = {}
    for side in sides:
        if side in LOWERED:
            path = folder / f"{model}.{side}.{'onnx' if side == 'onnxruntime' else 'pte'}"
            try:
                with Peer(side) as peer:
                    peer.ask("lower", model=model, path=str(path))
                paths[side] = str(path)
            except RuntimeError as error:
                report(f"{model}: {side} is left out", reason=str(error))
        else:
            paths[side] = model
    return paths


def run_model(model: str, paths: dict[str, str], threads: int) -> dict[str, float]:
    ms = timed(model, paths, threads, ROUNDS, RUNS)
    ratios = {
        f"{mine}_over_{side}": ms[mine] / ms[side]
        for mine in OURS
        if mine in ms
        for side in ms
        if side not in OURS
    }
    figures = {f"{side}_ms": value for side, value in ms.items()}
    report(f"{model}, {threads} thread{'s' if threads > 1 else ''}", **figures, **ratios)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--sides", nargs="*", default=SIDES)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    options = parser.parse_args()
    logs: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            paths = lower(model, options.sides, Path(folder))
            for threads in options.threads:
                for name, ratio in run_model(model, paths, threads).items():
                    logs.setdefault((threads, name), []).append(math.log(ratio))
    for threads in options.threads:
        means = {
            name: math.exp(sum(values) / len(values))
            for (count, name), values in logs.items()
            if count == threads
        }
        report(f"geometric mean, {threads} thread{'s' if threads > 1 else ''}", **means)


if __name__ == "__main__":
    main()
