"""Quantized models compared with those of other runtimes and with our f32.

Static int8, weights by channel: ours and upstream's by PT2E, each with its own quantizer and
partitioner, ours with weights of 7 bits too (int7) and not delegated (own_int8), and ONNX Runtime's
own static quantization, which OpenVINO runs as well. One run by turns, 1 and 2 threads, medians;
file sizes too. Then products with weights of 4 bits in groups of 32 and rows quantized at run time
(8da4w), ours and upstream's. One row is compared with reading as many bytes as its weights have.
The weights of one layer come from the cache, those of a hundred layers from memory.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

from peers import Peer, report, timed

MODELS = ("mobilenet_v2", "mobilenet_v3_large", "resnet50", "vit_b_16", "swin_t")
SIDES = (
    "int8",
    "own_int8",
    "int7",
    "xnnpack",
    "upstream_int8",
    "onnxruntime_int8",
    "openvino_int8",
)
BARS = {"resnet50": 1.0}  # other models: 0.8 of upstream's time
PRODUCTS = (
    *(f"8da4w_{m}x2048x{n}" for n in (2048, 8192) for m in (1, 128)),
    "8da4w_1x2048x2048x100",  # a hundred layers: no cache can hold their weights
)
ROUNDS, RUNS = 12, 4
# With one row, the runs of a layer take less than a millisecond. Threads of the previous side may
# still spin for so long, and a virtual machine may take some milliseconds to schedule other
# processors.
RUNS_OF_ONE_ROW = 1000


def lower(model: str, folder: Path, sides: list[str]) -> dict[str, str]:
    """A file of each side; sides that cannot make one are reported with the reason."""
    paths: dict[str, str] = {}
    for side in sides:
        if side == "openvino_int8":
            if "onnxruntime_int8" in paths:
                paths[side] = paths["onnxruntime_int8"]
            continue
        path = str(folder / f"{model}.{side}.{'onnx' if 'onnx' in side else 'pte'}")
        try:
            with Peer(side) as peer:
                peer.ask("lower", model=model, path=path)
            paths[side] = path
        except RuntimeError as error:
            report(f"{model}: {side} is left out", reason=str(error))
    return paths


def sizes(model: str, paths: dict[str, str]) -> None:
    if "int8" in paths and "xnnpack" in paths:
        ours, f32 = (Path(paths[side]).stat().st_size for side in ("int8", "xnnpack"))
        report(f"{model}, file", int8_mb=ours / 2**20, ratio=ours / f32, bar=0.27)


def run_model(model: str, paths: dict[str, str], threads: int) -> None:
    ms = timed(model, paths, threads, ROUNDS, RUNS)
    if "int8" not in ms:  # reported above, with the reason
        return
    report(
        f"{model}, int8, {threads} thread{'s' if threads > 1 else ''}",
        **{f"{side}_ms": value for side, value in ms.items()},
        **{f"over_{side}": ms["int8"] / value for side, value in ms.items() if side != "int8"},
        **{
            f"int7_over_{side}": ms["int7"] / value
            for side, value in ms.items()
            if "int7" in ms and side not in ("int7", "int8")
        },
        **{
            f"own_over_{side}": ms["own_int8"] / value
            for side, value in ms.items()
            if "own_int8" in ms and side != "own_int8"
        },
        bar=BARS.get(model, 0.8),
    )


def run_product(subject: str, folder: Path, threads: int) -> None:
    """With one row, reading as many bytes as the weights have is timed by turns too."""
    rows, n_k, n_cols, *layers = (int(n) for n in subject.removeprefix("8da4w_").split("x"))
    products = n_k * n_cols * math.prod(layers)
    # 32 weights of a group and their scale. Reading runs first, because the host of a virtual
    # machine allocates memory at its first access.
    paths = {"reading": str(products * (32 // 2 + 2) // 32)} if rows == 1 else {}
    paths |= lower(subject, folder, ["xnnpack", "upstream_xnnpack"])
    runs = RUNS if rows > 1 else RUNS_OF_ONE_ROW // math.prod(layers)
    ms = timed(subject, paths, threads, ROUNDS, runs)
    ours = ms["xnnpack"]
    report(
        f"{subject}, {threads} thread{'s' if threads > 1 else ''}",
        **{f"{side}_ms": value for side, value in ms.items()},
        ratio=ours / ms["upstream_xnnpack"],
        bar=1.0,
        giga_products_per_s=rows * products / ours / 1e6,
        **({"of_read_bandwidth": ms["reading"] / ours} if rows == 1 else {}),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--products", nargs="*", default=PRODUCTS)
    parser.add_argument("--sides", nargs="*", default=SIDES)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            paths = lower(model, Path(folder), options.sides)
            sizes(model, paths)
            for threads in options.threads:
                run_model(model, paths, threads)
        for threads in options.threads:
            for subject in options.products:
                run_product(subject, Path(folder), threads)


if __name__ == "__main__":
    main()
