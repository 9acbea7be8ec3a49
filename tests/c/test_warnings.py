"""Clang has no warning about runtime and kernels with the project's flags; gcc's are those of each
build.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess

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
    for path in sorted(p for room in ("runtime", "kernels") for p in (CSRC / room).rglob("*.c")):
        machine, flags = isa_flags().get(suffix_of(path), (platform.machine(), ()))
        if machine == platform.machine():
            found.setdefault(flags, []).append(str(path))
    return found


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_clang_has_no_warning_about_runtime_and_kernels() -> None:
    flags = [word for line in warning_flags() for word in line.split()]
    assert {"-Wall", "-Wextra", "-Wconversion", "-Wwrite-strings"} <= set(flags)
    for isa, files in sources_by_flags().items():
        command = ["clang", "-fsyntax-only", "-std=c11", "-Werror", *flags, *isa, f"-I{CSRC}"]
        done = subprocess.run([*command, *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
