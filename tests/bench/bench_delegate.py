"""Models delegated to XNNPACK beside upstream's own delegated files.

Four questions, each answered in one run by turns: how fast a run is (1 and 2 threads; ours,
upstream, upstream's file on our runtime, and ours without a partitioner), how long a delegated
program of one operator takes from Python, how long loading takes, and how much memory load and run
take beyond what was there before. How long lowering takes is told on the way.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from peers import Peer, interleaved, report

MODELS = ("mobilenet_v2", "mobilenet_v3_large", "resnet50", "vit_b_16", "swin_t", "minilm")
BARS = {model: 1.0 for model in MODELS[:3]} | {model: 0.8 for model in MODELS[3:]}
LOWERED = ("xnnpack", "upstream_xnnpack", "ours")
ROUNDS, RUNS = 12, 4
SMALL_ROUNDS, SMALL_RUNS = 40, 200


def lower(model: str, folder: Path) -> dict[str, str]:
    """A file of each side that makes one."""
    paths, figures = {}, {}
    for side in LOWERED:
        path = str(folder / f"{model}.{side}.pte")
        with Peer(side) as peer:
            answer = peer.ask("lower", model=model, path=path)
        paths[side] = path
        figures[f"{side}_s"] = answer["ms"] / 1e3
    ratio = figures["xnnpack_s"] / figures["upstream_xnnpack_s"]
    report(f"{model}, lowering to bytes", **figures, ratio=ratio, bar=1 / 3)
    return paths


def run_model(model: str, paths: dict[str, str], threads: int) -> None:
    """How long one run takes; upstream's file on our runtime is named crossed."""
    sides = {**{side: (side, path) for side, path in paths.items()}}
    sides["crossed"] = ("xnnpack", paths["upstream_xnnpack"])
    with ExitStack() as stack:
        peers = []
        for name, (side, path) in sides.items():
            peer = stack.enter_context(Peer(side, threads))
            peer.side = name
            peer.ask("load", path=path, threads=threads)
            peer.ask("inputs", model=model)
            peers.append(peer)
        ms = interleaved(peers, {peer.side: (ROUNDS, RUNS) for peer in peers})
    report(
        f"{model}, {threads} thread{'s' if threads > 1 else ''}",
        **{f"{name}_ms": value for name, value in ms.items()},
        ratio=ms["xnnpack"] / ms["upstream_xnnpack"],
        bar=BARS.get(model),
    )


def load_and_memory(model: str, paths: dict[str, str]) -> None:
    load: dict[str, list[float]] = {side: [] for side in LOWERED[:2]}
    peak: dict[str, list[float]] = {side: [] for side in LOWERED[:2]}
    for _ in range(5):
        for side in load:
            with Peer(side) as peer:
                peer.ask("inputs", model=model)
                peak[side].append(peer.ask("memory", path=paths[side], threads=1)["peak_mb"])
            with Peer(side) as peer:
                load[side].append(peer.ask("load", path=paths[side], threads=1)["ms"])
    ms = {side: statistics.median(values) for side, values in load.items()}
    mb = {side: statistics.median(values) for side, values in peak.items()}
    ours, theirs = LOWERED[:2]
    report(
        f"{model}, load", ours_ms=ms[ours], upstream_ms=ms[theirs], ratio=ms[ours] / ms[theirs],
        bar=1.0,
    )  # fmt: skip
    report(
        f"{model}, memory of load and run", ours_mb=mb[ours], upstream_mb=mb[theirs],
        ratio=mb[ours] / mb[theirs], bar=1.0,
    )  # fmt: skip


def one_operator(folder: Path) -> None:
    times: dict[str, list[float]] = {side: [] for side in LOWERED[:2]}
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(side)) for side in times]
        for peer in peers:
            path = str(folder / f"one_add.{peer.side}.pte")
            peer.ask("lower", model="one_add", path=path)
            peer.ask("load", path=path, threads=1)
            peer.ask("inputs", model="one_add")
        for _ in range(SMALL_ROUNDS):
            for peer in peers:
                ms = peer.ask("time", repeat=SMALL_RUNS)["ms"]
                times[peer.side].append(statistics.median(ms))
    ours, theirs = (statistics.median(times[side]) * 1e3 for side in LOWERED[:2])
    report(
        "execute from Python, one delegated add",
        ours_us=ours,
        upstream_us=theirs,
        ratio=ours / theirs,
        bar=1 / 3,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one_operator(Path(folder))
        for model in options.models:
            paths = lower(model, Path(folder))
            for threads in options.threads:
                run_model(model, paths, threads)
            load_and_memory(model, paths)


if __name__ == "__main__":
    main()
