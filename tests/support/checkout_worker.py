"""One side of a comparison of two checkouts: a process that imports one and answers requests.

A request is the name of a method of the served object and its arguments, an answer its result; both
are lines of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def serve(channel: Any, side: object) -> None:
    """Answers requests with the methods of `side` until the input ends."""
    for line in sys.stdin:
        name, *rest = json.loads(line)
        channel.write(json.dumps(getattr(side, name)(*rest)) + "\n")


def answer_channel() -> Any:
    """The standard output for answers alone: libraries, which print to it too, get stderr."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return channel


class Worker:
    """A process of a script with `--serve`, in which executorch_py is that of a checkout."""

    def __init__(
        self, script: str, checkout: Path, python: str, options: Sequence[str] = (), **settings: str
    ) -> None:
        self.python = python
        self.environment = dict(os.environ, PYTHONPATH=str(checkout.resolve()), **settings)
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else imports compile each time
        self.process = subprocess.Popen(
            [python, "-W", "ignore", script, "--serve", *options],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *request: Any) -> Any:
        """The answer to a request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"a side failed at {request}; run it with --serve to see why")
        return json.loads(answer)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
