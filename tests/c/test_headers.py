"""Each public header compiles alone, as C11 and as C++17, with every installed compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-Wundef",
    "-pedantic-errors",
    "-Werror",
]
CASES = [
    (compiler, language, standard)
    for compilers, language, standard in (
        (("gcc", "clang"), "c", "c11"),
        (("g++", "clang++"), "c++", "c++17"),
    )
    for compiler in compilers
    if shutil.which(compiler)
]


@pytest.mark.parametrize(
    "header",
    [
        "runtime/et.h",
        "runtime/signature/et_named_data.h",
        "runtime/signature/et_names.h",
        "runtime/training/et_train.h",
        "llm/et_sampler.h",
        "llm/et_tokenizer.h",
    ],
)
@pytest.mark.parametrize(("compiler", "language", "standard"), CASES)
def test_a_public_header_needs_nothing_else(
    compiler: str, language: str, standard: str, header: str, tmp_path: Path
) -> None:
    source = tmp_path / "user.txt"
    source.write_text(
        f'#include "{header}"\n'
        "et_status use(et_method *m, et_error *e);\n"
        "et_status use(et_method *m, et_error *e) { return et_method_execute(m, e); }\n"
    )
    command = [compiler, f"-std={standard}", *WARNINGS, "-x", language, "-fsyntax-only"]
    done = subprocess.run(
        [*command, "-I", str(ROOT / "csrc"), str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
