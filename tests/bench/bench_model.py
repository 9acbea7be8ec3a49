"""Cycles per multiply-add of the hot loops of micro-kernels, by llvm-mca, beside their port limits.

`make bench-model`; ARGS="gemm qgemm" models some families, `--hottest` one loop of each function,
`--far 1.15` the loops whose cycles are above so many times their port limit; `--record` writes the
figures that tests/c/test_loop_figures.py compares with.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.loop_model import Row, families, llvm_mca, model_name, rows_of_all, versions
from support.loop_record import FAMILIES, RECORD, existing_files, merged, read, record_of, write

NOTES = {
    "cortex-a76": "as neoverse-n1, with its pipelines; LLVM takes the A57, with half as many",
    "icelake-server": "one port for 512-bit FMAs, as clients have; servers have two",
    "znver4": "vpdpbusd once in two cycles; machines have one of 512 bits in each",
}
# Titles and widths of the table's columns.
COLUMNS = {
    "file": 34,
    "function": 30,
    "loop": 4,
    "processor": 15,
    "multiply-adds": 13,
    "cycles each": 11,
    "port limit": 10,
    "ratio": 5,
    "multiplier limit": 16,
}


def print_head(processors: Iterable[str]) -> None:
    tools = ", ".join(f"{name}: {version}" for name, version in versions().items())
    print(f"{llvm_mca()}; {tools}")
    for name in processors:
        note = f" ({NOTES[name]})" if name in NOTES else ""
        print(f"  {name}: model {model_name(name)} of LLVM{note}")


def print_cells(*cells: object) -> None:
    padded = [f"{cell:<{width}}" for cell, width in zip(cells, COLUMNS.values(), strict=True)]
    print(" ".join(padded).rstrip())


def print_rows(rows: list[Row], far: float) -> None:
    """Cycles and limits for each multiply-add; the ratio is of the cycles to the port limit."""
    print_cells(*COLUMNS)
    for row in rows:
        n = row.loop.multiply_adds
        for name, figure in row.figures.items():
            ratio = figure.cycles / figure.port_limit
            if ratio >= far:
                each = [f"{x / n:.4f}" for x in (figure.cycles, figure.port_limit)]
                floor = f"{figure.multiplier_limit / n:.4f}"
                loop = row.loop
                print_cells(
                    row.file, loop.function, loop.number, name, n, *each, f"{ratio:.2f}", floor
                )
    calls = Counter(f"{row.file} {row.loop.function}" for row in rows if row.loop.calls)
    for function, n in calls.items():
        print(f"{function}: {n} loops without figures, since they call functions")


def record(names: Sequence[str], rows: list[Row]) -> None:
    """Writes the figures of some families; those of other families stay, with the same tools."""
    new = record_of(rows)
    if RECORD.exists():
        old = read()
        if new.versions == old.versions:
            new = merged(new, old, existing_files())
        elif set(names) != set(FAMILIES):
            sys.exit(f"expected {old.versions} or all families, got {new.versions} and {names}")
    write(new)


def main() -> None:
    known = families()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", help=f"of {', '.join(known)}")
    parser.add_argument("--hottest", action="store_true", help="one loop of each function")
    parser.add_argument("--far", type=float, default=0.0, help="smallest ratio to the port limit")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    arguments = parser.parse_args()
    if "tuned" not in known:
        print("tuned: expected the headers of XNNPACK of a built extension, got none: left out")
    can = [name for name in known if name in FAMILIES or not arguments.record]
    names = arguments.families or can
    if unknown := set(names) - set(can):
        parser.error(f"expected families of {', '.join(can)}, got {', '.join(sorted(unknown))}")
    hottest_only = arguments.hottest or arguments.record
    paths = [path for name in names for path in known[name]]
    rows = list(rows_of_all(paths, every_loop=not hottest_only))
    if arguments.record:
        record(names, rows)
    else:
        print_head(dict.fromkeys(name for row in rows for name in row.figures))
        print_rows(rows, arguments.far)


if __name__ == "__main__":
    main()
