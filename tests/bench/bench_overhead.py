"""Cost of one instruction and of one call from Python: ours beside upstream and eager torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from peers import Peer, interleaved, report

ROUNDS = {"ours": (30, 200), "upstream": (30, 200), "eager": (30, 200)}


def measure(model: str, folder: Path) -> dict[str, float]:
    with Peer("ours") as ours, Peer("upstream") as upstream, Peer("eager") as eager:
        for peer in (ours, upstream):
            path = str(folder / f"{model}.{peer.side}.pte")
            peer.ask("lower", model=model, path=path)
            peer.ask("load", path=path, threads=1)
        eager.ask("load", path=model, threads=1)
        for peer in (ours, upstream, eager):
            peer.ask("inputs", model=model)
        return interleaved([ours, upstream, eager], ROUNDS)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = measure("one_add", Path(folder))
        chain = measure("add_chain", Path(folder))
    report(
        "execute from Python, one-element add",
        ours_us=one["ours"] * 1e3,
        upstream_us=one["upstream"] * 1e3,
        eager_us=one["eager"] * 1e3,
        ratio=one["ours"] / one["upstream"],
        bar=1 / 3,
    )
    ours, upstream = ((chain[s] - one[s]) / 99 * 1e6 for s in ("ours", "upstream"))
    report(
        "overhead per operator, chain of 100 adds",
        ours_ns=ours,
        upstream_ns=upstream,
        ratio=ours / upstream,
        bar=0.5,
    )


if __name__ == "__main__":
    main()
