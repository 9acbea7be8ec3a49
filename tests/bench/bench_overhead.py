"""Cost of one instruction and of one call from Python: ours beside upstream and eager torch.

The cost of an instruction is the difference of two runs, a chain of adds and one add. Both are
timed one after the other in every round, and the median of the differences is reported, so that the
load of the machine affects both alike.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from peers import Peer, report

ROUNDS, RUNS = 40, 200
LENGTHS = {"one_add": 1, "add_chain": 100}


def start(stack: ExitStack, side: str, folder: Path) -> dict[str, Peer]:
    """A worker per model of one side, ready to be timed."""
    peers = {}
    for model in LENGTHS:
        peer = peers[model] = stack.enter_context(Peer(side))
        path = model
        if side != "eager":
            path = str(folder / f"{model}.{side}.pte")
            peer.ask("lower", model=model, path=path)
        peer.ask("load", path=path, threads=1)
        peer.ask("inputs", model=model)
        peer.ask("time", repeat=RUNS)
    return peers


def main() -> None:
    one: dict[str, list[float]] = {"ours": [], "upstream": [], "eager": []}
    step: dict[str, list[float]] = {side: [] for side in one}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = {side: start(stack, side, Path(folder)) for side in one}
        for _ in range(ROUNDS):
            for side, peers in sides.items():
                ms = {
                    model: statistics.median(peer.ask("time", repeat=RUNS)["ms"])
                    for model, peer in peers.items()
                }
                one[side].append(ms["one_add"])
                step[side].append(
                    (ms["add_chain"] - ms["one_add"]) / (LENGTHS["add_chain"] - LENGTHS["one_add"])
                )
    call = {side: statistics.median(values) for side, values in one.items()}
    operator = {side: statistics.median(values) for side, values in step.items()}
    report(
        "execute from Python, one-element add",
        ours_us=call["ours"] * 1e3,
        upstream_us=call["upstream"] * 1e3,
        eager_us=call["eager"] * 1e3,
        ratio=call["ours"] / call["upstream"],
        bar=1 / 3,
    )
    report(
        "overhead per operator, chain of 100 adds",
        ours_ns=operator["ours"] * 1e6,
        upstream_ns=operator["upstream"] * 1e6,
        ratio=operator["ours"] / operator["upstream"],
        bar=0.5,
    )


if __name__ == "__main__":
    main()
