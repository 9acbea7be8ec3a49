"""The C compiler: its path, its calls, its error messages. Knows no source file."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

# Flags of all C files of this project; the second makes results the same on every machine.
LANGUAGE_FLAGS = ("-std=c11", "-ffp-contract=off")


class BuildError(RuntimeError):
    """The C compiler failed; the message contains its output."""


def find_compiler(named: str | None) -> list[str]:
    """Command of the named compiler, else of $CC, else cc, split into words as a shell does."""
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
        output = (done.stderr or done.stdout).strip()
        raise BuildError(
            f"{shlex.join(command)}\nfailed with exit code {done.returncode}:\n{output}"
        )


def call_all(commands: Iterable[Sequence[str]], jobs: int) -> None:
    """Run independent commands, `jobs` at a time; BuildError of the first that fails."""
    with ThreadPoolExecutor(max_workers=max(jobs, 1)) as pool:
        for _ in pool.map(call, commands):
            pass
