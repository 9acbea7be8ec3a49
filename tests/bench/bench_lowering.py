"""Exported program to bytes, undelegated:

time and peak memory beside upstream, fresh processes in turn.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from peers import Peer, report

BARS = {"mobilenet_v2": 0.7, "vit_b_16": 0.5}
ROUNDS = 3


def main() -> None:
    for model, bar in BARS.items():
        times: dict[str, list[float]] = {"ours": [], "upstream": []}
        peaks: dict[str, list[float]] = {"ours": [], "upstream": []}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(ROUNDS):
                for side in times:
                    with Peer(side) as peer:
                        answer = peer.ask("lower", model=model, path=str(Path(folder) / "m.pte"))
                    times[side].append(answer["ms"])
                    peaks[side].append(answer["peak_mb"])
        ms = {side: statistics.median(values) for side, values in times.items()}
        peak = {side: statistics.median(values) for side, values in peaks.items()}
        report(
            f"{model}, lowering",
            ours_ms=ms["ours"],
            upstream_ms=ms["upstream"],
            ratio=ms["ours"] / ms["upstream"],
            bar=bar,
            ours_peak_mb=peak["ours"],
            upstream_peak_mb=peak["upstream"],
        )


if __name__ == "__main__":
    main()
