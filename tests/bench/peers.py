"""Starts the workers of a comparison and times them in turn.

Relies on worker.py; knows no model and no threshold.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHONS = {
    "ours": ROOT / ".venv" / "bin" / "python",
    "own_operators": ROOT / ".venv" / "bin" / "python",
    "own_bf16": ROOT / ".venv" / "bin" / "python",
    "reading": ROOT / ".venv" / "bin" / "python",
    "xnnpack": ROOT / ".venv" / "bin" / "python",
    "eager": ROOT / ".venv" / "bin" / "python",
    "compiled": ROOT / ".venv" / "bin" / "python",
    "upstream": ROOT / ".venv-upstream" / "bin" / "python",
    "upstream_xnnpack": ROOT / ".venv-upstream" / "bin" / "python",
    "onnxruntime": ROOT / ".venv-peers" / "bin" / "python",
    "openvino": ROOT / ".venv-peers" / "bin" / "python",
    "openvino_bf16": ROOT / ".venv-peers" / "bin" / "python",
    "int8": ROOT / ".venv" / "bin" / "python",
    "own_int8": ROOT / ".venv" / "bin" / "python",
    "int7": ROOT / ".venv" / "bin" / "python",
    "upstream_int8": ROOT / ".venv-upstream" / "bin" / "python",
    "onnxruntime_int8": ROOT / ".venv-peers" / "bin" / "python",
    "openvino_int8": ROOT / ".venv-peers" / "bin" / "python",
}


SAMPLE_SECONDS = 2e-4
OWN = ("RssAnon", "RssShmem")  # lines of /proc/self/status, in KiB


class Peer:
    """A worker process of one side, which may be limited: `memory` in bytes, `seconds` of each
    answer."""

    def __init__(
        self,
        side: str,
        threads: int = 1,
        memory: int | None = None,
        seconds: float | None = None,
    ) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        self.side = side
        self.seconds = seconds
        self.process = subprocess.Popen(
            [PYTHONS[side], HERE / "worker.py", "--side", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        if memory is not None:
            resource.prlimit(self.process.pid, resource.RLIMIT_AS, (memory, memory))

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self.process.stdin.flush()
        limit = threading.Timer(self.seconds or threading.TIMEOUT_MAX, self.process.kill)
        limit.daemon = True
        limit.start()
        line = self.process.stdout.readline()
        limit.cancel()
        if not line:
            raise RuntimeError(f"the {self.side} worker ended while answering {do} {request}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def ask_watched(self, do: str, **request: Any) -> dict[str, Any]:
        """The answer of `ask` with "own_mb": the peak of anonymous memory minus the memory held
        before. Pages of mapped files are not counted. The kernel shares them between processes and
        may map two megabytes for one byte that is read."""
        samples = [self._own_mb()]
        is_over = threading.Event()

        def sample() -> None:
            while not is_over.wait(SAMPLE_SECONDS):
                samples.append(self._own_mb())

        watcher = threading.Thread(target=sample)
        watcher.start()
        answer = self.ask(do, **request)
        is_over.set()
        watcher.join()
        samples.append(self._own_mb())
        return {**answer, "own_mb": max(samples) - samples[0]}

    def _own_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(OWN)) / 1024

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


# Threads of some sides spin after a run (ONNX Runtime's for 40 ms) on cores that the next side
# needs.
PAUSE_SECONDS = 0.1
# Time of a turn: threads of the side before may spin for some milliseconds.
TURN_MS = 40
LEAST_ROUNDS = 3


def interleaved(peers: Sequence[Peer], rounds: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Median ms per run of each peer, in turns. A turn begins with a pause and a warm-up run.

    rounds maps a side to (its number of rounds, runs per round). A side with a single run, which
    takes long, has no warm-up run.
    """
    times: dict[str, list[float]] = {peer.side: [] for peer in peers}
    for peer in peers:  # warm-up, not counted
        if rounds[peer.side][0] > 1:
            peer.ask("time", repeat=min(rounds[peer.side][1], 3))
    for index in range(max(count for count, _ in rounds.values())):
        for peer in peers:
            count, repeat = rounds[peer.side]
            if index < count:
                time.sleep(PAUSE_SECONDS)
                warm_up = 0 if repeat == 1 else 1
                times[peer.side] += peer.ask("time", repeat=warm_up + repeat)["ms"][warm_up:]
    return {side: statistics.median(values) for side, values in times.items()}


def timed(
    model: str,
    paths: Mapping[str, str],
    threads: int,
    rounds: int,
    runs: int,
    seconds: float = math.inf,
) -> dict[str, float]:
    """Median ms per run of each side that can run its path; the others are reported with the
    reason. Each turn has at least `runs` runs, and takes at least TURN_MS. Rounds beyond
    LEAST_ROUNDS are left out if they end after `seconds`."""
    with ExitStack() as stack:
        peers = []
        turns: dict[str, tuple[int, int]] = {}
        turn_seconds = 0.0
        for side, path in paths.items():
            peer = stack.enter_context(Peer(side, threads))
            try:
                peer.ask("load", path=path, threads=threads)
                peer.ask("inputs", model=model)
                least = min(peer.ask("time", repeat=3)["ms"])
                turns[side] = (rounds, max(runs, math.ceil(TURN_MS / least)))
                turn_seconds += PAUSE_SECONDS + (1 + turns[side][1]) * least / 1e3
                peers.append(peer)
            except RuntimeError as error:
                report(f"{model}: {side} is left out", reason=str(error))
        if seconds < rounds * turn_seconds:
            rounds = max(LEAST_ROUNDS, int(seconds / turn_seconds))
        return interleaved(peers, {side: (rounds, turns[side][1]) for side in turns})


def report(subject: str, **figures: Any) -> None:
    """One JSON line per measurement."""
    rounded = {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in figures.items()
    }
    print(json.dumps({"subject": subject, **rounded}), flush=True)
