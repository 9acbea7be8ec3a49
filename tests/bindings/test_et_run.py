"""The command-line runner in C: its output, and independence of its runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.c_build import build_c
from support.program_maker import MethodMaker, program_bytes


@pytest.fixture(scope="module")
def et_run() -> Path:
    return build_c("release", "et_run") / "et_run"


def said(*command: object, status: int = 0) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def doubled(path: Path, dtype: str = "float32") -> Path:
    """A program of x + x, written over x."""
    maker = MethodMaker()
    x = maker.tensor([2, 2], dtype=dtype)
    maker.add(x, x, x)
    maker.inputs.append(x)
    maker.outputs.append(x)
    path.write_bytes(program_bytes(maker))
    return path


def test_every_run_starts_with_the_inputs_that_were_given(et_run: Path, tmp_path: Path) -> None:
    program = doubled(tmp_path / "doubled.pte")
    assert "= 2 2 2 2" in said(et_run, program)
    assert "= 2 2 2 2" in said(et_run, program, "--repeat", 5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_filled_and_printed(et_run: Path, tmp_path: Path, dtype: str) -> None:
    printed = said(et_run, doubled(tmp_path / "half.pte", dtype), "--input", "0=random")
    values = [float(word) for word in printed.rpartition("= ")[2].split()]
    assert len(set(values)) == 4 and all(0 <= value < 2 for value in values)


def test_the_manual_is_printed_on_request_and_where_no_program_is_named(et_run: Path) -> None:
    assert said(et_run, "--help").startswith("usage: et_run model.pte [--method M]")
    assert "no model; usage: et_run" in said(et_run, status=2)
