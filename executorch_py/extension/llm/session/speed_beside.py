"""Speed of a decoder's program beside that of other runtimes, which run as processes by turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from executorch_py.errors import InvalidArgument
from executorch_py.extension.llm.session.speed import Round, check_counts, random_ids, timed_round

# A peer's package, and the name that pip knows it by.
PACKAGES = {"llama.cpp": "llama_cpp", "upstream": "executorch"}
_PIP_NAMES = {"llama_cpp": "llama-cpp-python"}
_PAUSE_SECONDS = 0.1  # after a turn: threads that wait for work spin for a while
OURS = "ours"


@dataclass(frozen=True)
class Comparison:
    """Medians of each side's rounds; `OURS` is the first side."""

    prompt: int
    steps: int
    sides: dict[str, Round]

    def lines(self) -> list[str]:
        """A table: times and speeds, then how many times as fast as each peer ours is."""
        peers = [side for side in self.sides if side != OURS]
        rows = [["", *self.sides, *(f"to {peer}" for peer in peers)]]
        for title, key, n_tokens in (
            ("load to first token", "first", 0),
            (f"prefill {self.prompt}", "prefill", self.prompt),
            (f"decode {self.steps}", "decode", self.steps),
        ):
            seconds = {side: getattr(found, key) for side, found in self.sides.items()}
            texts = [
                f"{n_tokens / value:.1f} tokens/s" if n_tokens else f"{value * 1e3:.1f} ms"
                for value in seconds.values()
            ]
            ratios = [f"{seconds[peer] / seconds[OURS]:.2f}" for peer in peers]
            rows.append([title, *texts, *ratios])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
            )
            for row in rows
        ]


def compare(
    path: str | PathLike[str],
    peers: Mapping[str, str | PathLike[str]],
    *,
    pythons: Mapping[str, str] | None = None,
    prompt: int = 128,
    steps: int = 64,
    rounds: int = 5,
    n_threads: int | None = None,
) -> Comparison:
    """Times a program and the files of peers (of `PACKAGES`) in turns, with the same random ids.

    A round opens the file, reads the prompt, reads it again from an empty context and adds steps.
    A first round of each side is not counted. `pythons` are interpreters of peers whose package
    this one does not have. RuntimeError for a missing package, or by a peer that fails.
    """
    check_counts(prompt=prompt, steps=steps, rounds=rounds)
    threads = n_threads or len(os.sched_getaffinity(0))
    ids = random_ids(path, prompt, steps)
    found: dict[str, list[Round]] = {side: [] for side in (OURS, *peers)}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(_Peer(name, file, (pythons or {}).get(name), threads))
            for name, file in peers.items()
        ]
        for i in range(rounds + 1):
            times = {OURS: timed_round(path, ids, prompt, threads)}
            time.sleep(_PAUSE_SECONDS)
            for peer in processes:
                times[peer.name] = peer.timed_round(ids, prompt)
                time.sleep(_PAUSE_SECONDS)
            if i > 0:  # the first reads files from the disk
                for side, values in times.items():
                    found[side].append(values)
    return Comparison(prompt, steps, {side: _median(values) for side, values in found.items()})


def _median(rounds: list[Round]) -> Round:
    return Round(
        first=statistics.median(one.first for one in rounds),
        prefill=statistics.median(one.prefill for one in rounds),
        decode=statistics.median(one.decode for one in rounds),
    )


class _Peer:
    """The process of a peer, which runs speed_peer.py; left by `with`, it ends."""

    def __init__(
        self, name: str, path: str | PathLike[str], python: str | None, threads: int
    ) -> None:
        if name not in PACKAGES:
            raise InvalidArgument(f"peer: expected one of {', '.join(PACKAGES)}, got {name!r}")
        if not Path(path).is_file():
            raise InvalidArgument(f"{name}: expected a file, got {os.fspath(path)!r}")
        self.name, self._path = name, os.path.abspath(path)
        self._python, self._threads = python or sys.executable, threads

    def _missing(self, package: str) -> RuntimeError:
        return RuntimeError(
            f"{self.name}: expected the package {package}, got none: "
            f"pip install {_PIP_NAMES.get(package, package)}, or name a Python that has it: "
            f"--python {self.name}=/path/to/python"
        )

    def __enter__(self) -> _Peer:
        self._said = tempfile.TemporaryFile()
        script = Path(__file__).with_name("speed_peer.py")
        try:
            self._process = subprocess.Popen(
                [self._python, str(script), self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": str(self._threads)},
            )
        except OSError as error:
            self._said.close()
            raise RuntimeError(
                f"{self.name}: expected a Python that runs, got {self._python!r}: {error.strerror}"
            ) from error
        try:
            begin = self._answer()
            if "missing" in begin:
                raise self._missing(begin["missing"])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip().splitlines()
            raise RuntimeError(
                f"{self.name}: expected an answer, got the end of its process (exit code "
                f"{self._process.returncode}): {said[-1] if said else 'no message'}"
            )
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise RuntimeError(f"{self.name}: {found['error']}")
        return found

    def timed_round(self, ids: list[int], prompt: int) -> Round:
        """Seconds of a round."""
        assert self._process.stdin is not None
        request = {"path": self._path, "ids": ids, "prompt": prompt, "threads": self._threads}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its end is reported by the answer
        return Round(**self._answer())
