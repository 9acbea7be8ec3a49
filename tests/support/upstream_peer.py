"""Runs upstream in a worker process: one worker per test process, one request at a time.

The worker imports upstream once, in upstream's own virtual environment, and works on files in a
folder that both sides see. A worker that dies is replaced, so that the next test does not suffer.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from support.paths import TESTS
from support.paths import UPSTREAM_PYTHON as PYTHON

WORKER = TESTS / "interop" / "upstream_worker.py"
TIMEOUT_S = 600.0


class UpstreamError(AssertionError):
    """Upstream's traceback, or the end of its process."""


class Upstream:
    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers: IO[str]
        self._log: IO[str]

    def ask(self, action: str, name: str, folder: Path) -> None:
        """Raises UpstreamError with the reason when upstream cannot do it."""
        process = self._process or self._start()
        request = {"action": action, "name": name, "folder": str(folder)}
        assert process.stdin is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            answer = self._answers.readline() if selector.select(TIMEOUT_S) else ""
        if not answer:
            self._log.seek(0)
            reason = f"upstream died or hung in {request}: {self._log.read()[-2000:]}"
            self.stop()
            raise UpstreamError(reason)
        error = json.loads(answer)["error"]
        if error is not None:
            raise UpstreamError(error)

    def _start(self) -> subprocess.Popen[str]:
        assert PYTHON.exists(), f"{PYTHON} is missing: run `make test`"
        answers, worker_end = os.pipe()
        self._answers = os.fdopen(answers)
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by stop()
        self._process = subprocess.Popen(
            [PYTHON, WORKER, str(worker_end)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[worker_end],
            text=True,
        )
        os.close(worker_end)
        return self._process

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._answers.close()
            self._log.close()
            self._process = None
