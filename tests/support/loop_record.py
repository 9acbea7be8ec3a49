"""Recorded figures of the hot loops, one line for each function, and the comparison with them.

Figures depend on the major versions of gcc and LLVM, which the head of the record names. Another
gcc makes single loops much better or worse, so that the mean of all loops is compared. Scheduling
models of another LLVM give other cycles, so that instructions are compared in place of cycles.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from support.loop_model import MICRO, TUNED, Row, machine_of, versions
from support.paths import TESTS

RECORD = TESTS / "bench" / "loop_figures.txt"
COMMAND = "make bench-model ARGS=--record"
# Families whose figures are recorded: sums of products. `make bench-model` prints all of them.
FAMILIES = ("attention", "bgemm", "conv", "fft", "gemm", "qgemm", "tuned")
SAME_COMPILER, OTHER_COMPILER = 1.05, 1.15  # largest ratio of a figure to the recorded one
HEAD = f"""\
# The hottest loop of each function, for each iteration: multiply-adds, instructions, cycles on each
# processor by llvm-mca. `calls`: hot loops of a file that call functions. Written by `{COMMAND}`.
"""


@dataclass(frozen=True)
class Line:
    """A recorded loop; one that calls functions has no cycles."""

    multiply_adds: int
    instructions: int
    cycles: dict[str, float]


@dataclass
class Record:
    versions: dict[str, str]
    lines: dict[tuple[str, str], Line]  # by file and function
    calls: dict[str, int]  # by file


def record_of(rows: Iterable[Row]) -> Record:
    """The record of the hottest loop of each function among all loops of some files."""
    rows = list(rows)
    lines = {}
    for row in rows:
        if row.hottest:
            cycles = {name: round(f.cycles, 2) for name, f in row.figures.items()}
            loop = row.loop
            lines[row.file, loop.function] = Line(
                loop.multiply_adds, len(loop.instructions), cycles
            )
    calls = Counter(row.file for row in rows if row.loop.calls)
    return Record(versions(), lines, dict(calls))


def read(path: Path = RECORD) -> Record:
    record = Record({}, {}, {})
    for line in path.read_text().splitlines():
        words = line.split()
        if match := re.match(r"# Versions: (.*)", line):
            record.versions = dict(word.split("=") for word in match[1].split())
        elif words[1] == "calls":
            record.calls[words[0]] = int(words[2])
        elif words[0] != "#":
            cycles = {name: float(n) for name, n in (word.split("=") for word in words[4:])}
            record.lines[words[0], words[1]] = Line(int(words[2]), int(words[3]), cycles)
    return record


def write(record: Record, path: Path = RECORD) -> None:
    text = [f"# Versions: {' '.join(f'{k}={v}' for k, v in record.versions.items())}\n"]
    text += [f"{file} calls {n}\n" for file, n in sorted(record.calls.items())]
    for (file, function), line in sorted(record.lines.items()):
        cycles = " ".join(f"{name}={n:.2f}" for name, n in line.cycles.items())
        counts = f"{line.multiply_adds} {line.instructions}"
        text.append(f"{file} {function} {counts} {cycles}".rstrip() + "\n")
    path.write_text(HEAD + "".join(text))


def differences(found: Record, recorded: Record) -> list[str]:
    """How the tools differ from those of the record, and what is compared all the same."""
    told = []
    for tool, version in found.versions.items():
        if version != recorded.versions[tool]:
            rule = f"the mean of all loops may be {OTHER_COMPILER - 1:.0%} worse"
            if tool == "llvm":
                rule = "instructions per multiply-add are compared, not cycles"
            told.append(f"{tool}: recorded {recorded.versions[tool]}, got {version}: {rule}")
    return told


def worse(found: Record, recorded: Record) -> list[str]:
    """A message for each loop that is worse than recorded or not recorded."""
    told = []
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)  # with another gcc
    for (file, function), line in found.lines.items():
        old = recorded.lines.get((file, function))
        same = same_compiler(found, recorded, file)
        if old is None and same:
            told.append(f"{file} {function}: expected a recorded figure, got none")
        for name, got, expected in _figures(line, old, found, recorded) if old else ():
            if not same:
                ratios[machine_of(file), name].append(got / expected)
            elif got > SAME_COMPILER * expected:
                told.append(
                    f"{file} {function}, {name} per multiply-add: expected at most "
                    f"{SAME_COMPILER} × {expected:.4f}, the recorded figure, got {got:.4f}"
                )
    for (machine, name), each in ratios.items():
        if (mean := geometric_mean(each)) > OTHER_COMPILER:
            told.append(
                f"{len(each)} loops by {found.versions[machine]}, {name} per multiply-add: "
                f"expected a mean of {OTHER_COMPILER} × the recorded figures, got {mean:.2f}"
            )
    for file, n in found.calls.items():
        expected_calls = recorded.calls.get(file, 0)
        if n > expected_calls and same_compiler(found, recorded, file):
            told.append(
                f"{file}, hot loops that call functions: expected {expected_calls}, got {n}"
            )
    return told


def missing(found: Record, recorded: Record) -> list[str]:
    """A message for each recorded loop of the files found that is no more, with the same gcc."""
    files = {file for file, _ in found.lines}
    return [
        f"{file} {function}: expected a hot loop as recorded, got none"
        for file, function in recorded.lines
        if file in files and (file, function) not in found.lines
        if same_compiler(found, recorded, file)
    ]


def same_compiler(found: Record, recorded: Record, file: str) -> bool:
    machine = machine_of(file)
    return found.versions[machine] == recorded.versions[machine]


def _figures(
    line: Line, old: Line, found: Record, recorded: Record
) -> list[tuple[str, float, float]]:
    """Names, found and recorded values of the figures of a loop that can be compared."""
    if found.versions["llvm"] != recorded.versions["llvm"]:
        per = line.instructions / line.multiply_adds, old.instructions / old.multiply_adds
        return [("instructions", *per)]
    return [
        (f"cycles of {name}", cycles / line.multiply_adds, old.cycles[name] / old.multiply_adds)
        for name, cycles in line.cycles.items()
        if name in old.cycles
    ]


def merged(found: Record, recorded: Record, existing: set[str]) -> Record:
    """The found record, with the recorded lines of other files, if they exist."""
    others = existing - {file for file, _ in found.lines} - set(found.calls)
    lines = {key: line for key, line in recorded.lines.items() if key[0] in others}
    calls = {file: n for file, n in recorded.calls.items() if file in others}
    return Record(found.versions, {**lines, **found.lines}, {**calls, **found.calls})


def existing_files() -> set[str]:
    """The C files of micro-kernels, as the record names them."""
    paths = [*MICRO.rglob("*.c"), *TUNED.rglob("*.c")]
    return {f"{path.parent.name}/{path.name}" for path in paths}
