"""The runtime without an operating system: it needs at most six functions of the C library, and the
embedding example is strict C11.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
from support.c_build import find_tool
from support.paths import ROOT

# Functions of <string.h>. Compilers expand some of them in place.
STRING_FUNCTIONS = {"memcpy", "memset", "memmove", "memcmp", "strcmp", "strlen"}


def names(*arguments: str) -> set[str]:
    done = subprocess.run(["nm", *arguments], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines() if len(line.split()) in (2, 3)}


def test_a_bare_runtime_needs_string_functions_only() -> None:
    build = ROOT / "build" / "bare"
    ninja = f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}"
    for command in (
        [find_tool("cmake"), "--preset", "bare", "-S", str(ROOT / "csrc"), ninja],
        [find_tool("cmake"), "--build", str(build), "--target", "et_runtime"],
    ):
        subprocess.run(command, cwd=ROOT / "csrc", capture_output=True, check=True)
    library = str(build / "libet_runtime.a")
    needed = names("--undefined-only", library) - names("--defined-only", library)
    # Position-independent code refers to a table that the linker makes.
    assert needed - {"_GLOBAL_OFFSET_TABLE_"} <= STRING_FUNCTIONS


@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang") if shutil.which(c)])
@pytest.mark.parametrize("example", ["example_embedding.c", "example_generate.c"])
def test_the_examples_are_strict_c11(example: str, compiler: str) -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only"]
    source = str(ROOT / "tests" / "c" / example)
    command = [find_tool(compiler), *flags, "-I", str(ROOT / "csrc"), source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
