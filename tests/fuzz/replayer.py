"""Golden files, and replayers of fuzz inputs: programs in C that damage files and run them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from support.paths import GOLDEN as FOLDER
from support.paths import ROOT

GOLDEN = sorted(FOLDER.glob("*.pt[ed]"))


def beside(path: Path) -> list[str]:
    """The file that accompanies another one: external data for a program, and the reverse."""
    other = path.with_suffix(".pte" if path.suffix == ".ptd" else ".ptd")
    return ["--with", str(other)] if other in GOLDEN else []


def replay(fuzzer: Path, *arguments: str) -> dict[str, int]:
    done = subprocess.run(
        [fuzzer, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout}\n{done.stderr[-4000:]}"
    return {word: int(n) for n, word in re.findall(r"(\d+) (?:methods )?(\w+)", done.stdout)}


def replay_all(fuzzer: Path, folder: Path, files: Iterable[bytes], *options: str) -> dict[str, int]:
    paths = []
    for i, data in enumerate(files):
        paths.append(folder / f"{i}")
        paths[-1].write_bytes(data)
    found = replay(fuzzer, *options, *map(str, paths))
    assert found["inputs"] == len(paths)
    return found
