"""Compilers have no warning about runtime, kernels, backends and llm with the project's flags."""

from __future__ import annotations

import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.c_build import build_c
from support.loop_model import isa_flags, suffix_of
from support.paths import ROOT

CSRC = ROOT / "csrc"


def warning_flags() -> list[str]:
    """The flags of every compiler, from the build's own list."""
    text = (CSRC / "cmake" / "warnings.cmake").read_text()
    lines = [line.split("#")[0] for line in text.splitlines()]
    return [flag for line in lines for flag in re.findall(r"^ +(-W.*?) *$", line)]


def backend_flags() -> list[str]:
    """Definitions and XNNPACK's headers, with which the built library compiled its backends."""
    build = build_c("release", "et_runtime")
    entries = json.loads((build / "compile_commands.json").read_text())
    command = next(e["command"] for e in entries if "/et_backends.dir/" in e["command"])
    words = shlex.split(command)
    headers = [words[i : i + 2] for i, word in enumerate(words) if word == "-isystem"]
    return [w for w in words if w.startswith("-D")] + [w for pair in headers for w in pair]


def sources_by_flags() -> dict[tuple[str, ...], list[str]]:
    """The C files for this machine, by the flags of their instruction set and backend."""
    found: dict[tuple[str, ...], list[str]] = {}
    backend = tuple(backend_flags())
    rooms = ["runtime", "kernels", "llm", "backends"]
    if "-DET_HAVE_XNNPACK=1" not in backend:
        rooms[-1] = "backends/reference"
    for path in sorted(p for room in rooms for p in (CSRC / room).rglob("*.c")):
        machine, flags = isa_flags().get(suffix_of(path), (platform.machine(), ()))
        if machine == platform.machine():
            more = backend if CSRC / "backends" in path.parents else ()
            found.setdefault((*flags, *more), []).append(str(path))
    return found


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_no_compiler_warns_about_c_of_the_library(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    flags = [word for line in warning_flags() for word in line.split()]
    assert {"-Wall", "-Wextra", "-Wconversion", "-Wwrite-strings"} <= set(flags)
    tables = tmp_path / "unicode_tables.inc.h"
    subprocess.run(
        [sys.executable, str(CSRC / "cmake" / "make_unicode.py"), str(tables)], check=True
    )
    for own, files in sources_by_flags().items():
        command = [compiler, "-O2", "-fsyntax-only", "-std=c11", "-Werror", *flags, *own]
        command += [f"-I{CSRC}", f"-I{tmp_path}"]
        done = subprocess.run([*command, *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
