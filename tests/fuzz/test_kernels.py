"""Operators of the table, called with random arguments under sanitizers: for any arguments of a
file, each returns a status in a short time, an error has a message, and nothing but the outputs is
written.

calls.txt has a few good calls per operator, from which most of the random ones start. Each change
(a size, an element type, a number, a dim order, one tensor in two places, shared memory) is seeded.
An operator without a line is called with arguments guessed from its error messages. A failure
prints the operator, the call and its arguments; --op and --seed repeat it.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CALLS = FOLDER / "calls.txt"
N_CALLS = int(os.environ.get("ET_FUZZ_CALLS", "1500"))  # of each operator
SEED = os.environ.get("ET_FUZZ_SEED", "1")


def operators_with_calls() -> set[str]:
    return {line.split(" ", 1)[0] for line in CALLS.read_text().splitlines()}


@dataclass
class Run:
    """The counts that the fuzzer prints."""

    operators: int
    calls: int
    succeeded: int
    learned: int  # operators of which it learned the kind of an argument
    never: set[str]  # operators without a call that succeeded


def fuzz(c_build: Path, *options: str) -> Run:
    command = [str(c_build / "fuzz_kernels"), "--calls", str(N_CALLS), "--seed", SEED, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
    found = re.search(
        r"called (\d+) operators, (\d+) calls, (\d+) succeeded, \d+ never, (\d+) learned",
        done.stdout,
    )
    assert found is not None
    operators, calls, succeeded, learned = map(int, found.groups())
    assert calls == operators * N_CALLS
    never = set(re.findall(r"never succeeded: (\S+)", done.stderr))
    return Run(operators, calls, succeeded, learned, never)


def test_no_operator_misbehaves_whatever_its_arguments(c_build: Path) -> None:
    run = fuzz(c_build, "--good", str(CALLS))
    assert run.succeeded > 0.4 * run.calls  # few of the others should end in an error at once
    assert not run.never & operators_with_calls(), run.never


def test_arguments_are_learned_from_the_messages_of_operators(c_build: Path) -> None:
    run = fuzz(c_build)
    assert run.learned > 0.95 * run.operators
    assert len(run.never) < 0.3 * run.operators  # those with arguments that depend on each other


def test_the_good_calls_are_of_operators_that_exist() -> None:
    lines = CALLS.read_text().splitlines()
    table = (FOLDER.parents[1] / "csrc" / "kernels" / "ops.inc.h").read_text()
    assert operators_with_calls() <= set(re.findall(r'"([a-z_]+::[^"]+)"', table))
    assert lines == sorted(lines)
