"""Models delegated to XNNPACK beside upstream's own delegated files.

Four questions, each answered in one run by turns: how fast a run is (1 and 2 threads; ours,
upstream, upstream's file on our runtime, and ours without a partitioner), how long a delegated
program of one operator takes from Python, how long loading takes (cold: in a new process, the file
in the page cache; and with the file of packed weights that an earlier load wrote), and how much
memory load and run take beyond the memory before them and the file. The time of lowering is
reported too.
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
LOADS = 5
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


def begin_often(model: str, paths: dict[str, str]) -> dict[str, dict[str, float]]:
    """Medians of the first load and the first run in processes of their own, by turns. The files
    are in the page cache, and the file of packed weights has been written before."""
    ours, theirs = LOWERED[:2]
    packed = f"{paths[ours]}.packed"
    sides = {"packed": (ours, packed), "ours": (ours, None), "upstream": (theirs, None)}
    answers: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for index in range(LOADS + 1):
        for name, (side, file) in sides.items():
            with Peer(side) as peer:
                peer.ask("inputs", model=model)
                given = {} if file is None else {"packed": file}
                peer.ask("prepare", threads=1)
                answer = peer.ask_watched("begin", path=paths[side], threads=1, **given)
            if index > 0:
                answers[name].append(answer)
    return {
        name: {key: statistics.median(answer[key] for answer in of) for key in of[0]}
        for name, of in answers.items()
    }


def load_and_memory(model: str, paths: dict[str, str]) -> None:
    """Reports three figures: the time from a path to a loaded method; the same with the first run,
    which verifies packed weights; and the peak private memory of the process minus the file's
    bytes. The last is negative if the process never holds all of these bytes. The resident memory,
    which includes mapped files, is reported too."""
    medians = begin_often(model, paths)
    theirs = medians["upstream"]
    for name, words, bar in (("ours", "cold", 1.0), ("packed", "with packed weights", 0.2)):
        ms, upstream_ms = medians[name]["ms"], theirs["ms"]
        ratio = ms / upstream_ms
        report(
            f"{model}, load {words}", ours_ms=ms, upstream_ms=upstream_ms, ratio=ratio, bar=bar,
            met=ratio <= bar,
        )  # fmt: skip
    for name, words in (("ours", "cold"), ("packed", "with packed weights")):
        ms, upstream_ms = (
            medians[side]["ms"] + medians[side]["run_ms"] for side in (name, "upstream")
        )
        report(
            f"{model}, load {words} and first run", ours_ms=ms, upstream_ms=upstream_ms,
            ratio=ms / upstream_ms,
        )  # fmt: skip
    size = {side: Path(paths[side]).stat().st_size / 2**20 for side in LOWERED[:2]}
    upstream_mb = theirs["own_mb"] - size[LOWERED[1]]
    for name, words in (("ours", "cold"), ("packed", "with packed weights")):
        mb = medians[name]["own_mb"] - size[LOWERED[0]]
        report(
            f"{model}, memory of load {words} and run beyond the file", ours_mb=mb,
            upstream_mb=upstream_mb, file_mb=size[LOWERED[0]], ours_own_mb=medians[name]["own_mb"],
            upstream_own_mb=theirs["own_mb"], ours_resident_mb=medians[name]["peak_mb"],
            upstream_resident_mb=theirs["peak_mb"], met=mb <= upstream_mb,
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
