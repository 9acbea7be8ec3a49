"""Unpartitioned models, 1 and 2 threads:

ours beside upstream's unpartitioned file and eager torch; load times.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from peers import Peer, interleaved, report

# Upstream needs seconds to minutes per run, so it runs in few rounds.
ROUNDS = {
    "mobilenet_v2": {"ours": (10, 5), "upstream": (3, 1), "eager": (10, 5)},
    "resnet18": {"ours": (10, 3), "upstream": (2, 1), "eager": (10, 3)},
    "vit_b_16": {"ours": (5, 2), "upstream": (1, 1), "eager": (5, 2)},
}


def lower(model: str, folder: Path) -> dict[str, str]:
    paths = {}
    for side in ("ours", "upstream"):
        with Peer(side) as peer:
            paths[side] = str(folder / f"{model}.{side}.pte")
            peer.ask("lower", model=model, path=paths[side])
    return paths


def run_model(model: str, paths: dict[str, str], threads: int, with_upstream: bool) -> None:
    with (
        Peer("ours", threads) as ours,
        Peer("upstream", threads) as upstream,
        Peer("eager", threads) as eager,
    ):
        peers = [ours, eager] + ([upstream] if with_upstream else [])
        for peer in peers:
            peer.ask("load", path=paths.get(peer.side, model), threads=threads)
            peer.ask("inputs", model=model)
        ms = interleaved(peers, ROUNDS[model])
    figures = {f"{side}_ms": value for side, value in ms.items()}
    if with_upstream:
        figures["upstream_over_ours"] = ms["upstream"] / ms["ours"]
    report(
        f"{model}, unpartitioned, {threads} thread{'s' if threads > 1 else ''}",
        **figures,
        ours_over_eager=ms["ours"] / ms["eager"],
        bar="≥ 20 × upstream, ≤ 2 × eager",
    )


def load_time(model: str, paths: dict[str, str]) -> None:
    times: dict[str, list[float]] = {"ours": [], "upstream": []}
    with Peer("ours") as ours, Peer("upstream") as upstream:
        for _ in range(8):
            for peer in (ours, upstream):
                times[peer.side].append(peer.ask("load", path=paths[peer.side], threads=1)["ms"])
    ms = {side: statistics.median(values[1:]) for side, values in times.items()}
    report(
        f"{model}, load",
        ours_ms=ms["ours"],
        upstream_ms=ms["upstream"],
        ratio=ms["ours"] / ms["upstream"],
        bar=1.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(ROUNDS))
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--no-upstream", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            paths = lower(model, Path(folder))
            if model == "mobilenet_v2":
                load_time(model, paths)
            for threads in options.threads:
                run_model(model, paths, threads, not options.no_upstream)


if __name__ == "__main__":
    main()
