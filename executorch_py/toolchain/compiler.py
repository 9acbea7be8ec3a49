"""Running a C compiler: which one, and what it said when it failed. Knows no source file."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

# How all C of this project is compiled; the second makes results the same on every machine.
LANGUAGE_FLAGS = ("-std=c11", "-ffp-contract=off")


class BuildError(RuntimeError):
    """The C compiler refused; its own words are in the message."""


def find_compiler(named: str | None) -> list[str]:
    """The compiler asked for, else $CC, else cc; with its words split as a shell does."""
    words = shlex.split(named or os.environ.get("CC") or "cc")
    if not words or shutil.which(words[0]) is None:
        name = words[0] if words else "cc"
        raise FileNotFoundError(
            f"the C compiler {name!r} is not on PATH: install one (Debian: apt-get install gcc), "
            "or name it with --cc"
        )
    return words


def call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise BuildError(f"{shlex.join(command)}\nfailed with exit code {done.returncode}:\n{said}")


def call_all(commands: Iterable[Sequence[str]], jobs: int) -> None:
    """Several commands that do not need each other, `jobs` at a time; the first failure is told."""
    with ThreadPoolExecutor(max_workers=max(jobs, 1)) as pool:
        for _ in pool.map(call, commands):
            pass
