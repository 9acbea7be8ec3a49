"""Compilers have no warning about runtime, kernels and llm with the project's flags."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.loop_model import isa_flags, suffix_of
from support.paths import ROOT

CSRC = ROOT / "csrc"


def warning_flags() -> list[str]:
    """The flags of every compiler, from the build's own list."""
    text = (CSRC / "cmake" / "warnings.cmake").read_text()
    lines = [line.split("#")[0] for line in text.splitlines()]
    return [flag for line in lines for flag in re.findall(r"^ +(-W.*?) *$", line)]


def sources_by_flags() -> dict[tuple[str, ...], list[str]]:
    """The C files for this machine, by the flags of their instruction set."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(
        p for room in ("runtime", "kernels", "llm") for p in (CSRC / room).rglob("*.c")
    ):
        machine, flags = isa_flags().get(suffix_of(path), (platform.machine(), ()))
        if machine == platform.machine():
            found.setdefault(flags, []).append(str(path))
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
    for isa, files in sources_by_flags().items():
        command = [compiler, "-O2", "-fsyntax-only", "-std=c11", "-Werror", *flags, *isa]
        command += [f"-I{CSRC}", f"-I{tmp_path}"]
        done = subprocess.run([*command, *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
