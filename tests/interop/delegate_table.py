"""Networks of real size on XNNPACK, exported by one side and run by the other, in both directions.

  python tests/interop/delegate_table.py [--keep FOLDER] [PATTERN…]

A row per network, element type, writer of the file and runtime: how many delegates the writer's
file has, the greatest difference from eager torch as a share of the greatest value, the same from
the network in float64 (and how far eager itself is from that), the tolerance, and the time of one
run. Upstream's file on upstream's runtime is only for comparison and is no failure; only our side
writes networks with sizes known at run time. The exit status is the number of failures. --keep
saves the programs, so that the next run skips upstream's lowering (half a minute for a
transformer).
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from support.upstream_peer import Upstream
from torch.utils import _pytree as pytree

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.exir.backend.delegation_summary import summary_of_file
from executorch_py.exir.program.config import ExecutorchBackendConfig
from executorch_py.runtime import Runtime
from interop.cases import Case, expected
from interop.delegated import SHARE, Delegated, in_type, worst_share
from interop.real_size import REAL

RUNS = 5
COLUMNS = (
    "network",
    "file",
    "runtime",
    "delegates",
    "share",
    "tolerance",
    "from f64",
    "eager's",
    "ms",
)
WIDTHS = (-27, -8, -8, 9, 9, 9, 9, 9, 9)


@dataclass(frozen=True)
class Reference:
    """Expected results of a network: eager's outputs, and those in float64 if that is possible."""

    eager: list[list[Any]]
    exact: list[list[Any]] | None


def reference(d: Delegated) -> Reference:
    exact = None
    if d.kind in ("f32", "f16"):
        case = d.case
        wide = Case(
            case.name,
            lambda: case.build().double(),
            lambda: in_type(case.inputs(), torch.float64),
            more=case.more and (lambda: [in_type(inputs, torch.float64) for inputs in case.more()]),
            stateful=case.stateful,
        )
        exact = expected(wide)
    return Reference(expected(d.case), exact)


class Files:
    """Programs of both sides in a folder."""

    def __init__(self, folder: Path, upstream: Upstream) -> None:
        self.folder, self.upstream = folder, upstream

    def written_by(self, side: str, d: Delegated) -> str:
        """The name of a side's file."""
        name = f"{d.case.name}.{side}"
        if side == "ours":
            self._write(d, name)
        elif not (self.folder / f"{name}.pte").exists():
            if d.case.from_library:
                torch.export.save(d.case.export(), self.folder / f"{d.case.name}.pt2")
            self.upstream.ask("delegate_real", d.case.name, self.folder)
            (self.folder / f"{d.case.name}.pte").rename(self.folder / f"{name}.pte")
        return name

    def _write(self, d: Delegated, name: str) -> None:
        edge = to_edge_transform_and_lower(d.case.export(), partitioner=[XnnpackPartitioner()])
        config = ExecutorchBackendConfig(target="executorch-1.5")
        edge.to_executorch(config).save(self.folder / f"{name}.pte")

    def run_by(self, side: str, name: str, d: Delegated) -> tuple[list[list[Any]], float]:
        """Outputs for every set of inputs, in order on one method, and the minimum time of one."""
        sets = [pytree.tree_flatten(inputs)[0] for inputs in d.case.all_inputs()]
        if side == "ours":
            return run_sets(self.folder / f"{name}.pte", sets)
        torch.save(sets, self.folder / f"{name}.inputs.pt")
        self.upstream.ask("time_inputs", name, self.folder)
        found = torch.load(self.folder / f"{name}.pt")
        return found["outputs"], found["ms"]


def run_sets(path: Path, sets: Sequence[Sequence[Any]]) -> tuple[list[list[Any]], float]:
    method = Runtime.get().load_program(path, n_threads=2).load_method("forward")
    outputs = [list(method.execute(list(inputs))) for inputs in sets]
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        method.execute(list(sets[0]))
        times.append(time.perf_counter() - begin)
    return outputs, min(times) * 1e3


def row(*cells: object) -> None:
    texts = (f"{cell:.1e}" if isinstance(cell, float) else str(cell) for cell in cells)
    print(
        *(f"{t:<{-w}}" if w < 0 else f"{t:>{w}}" for t, w in zip(texts, WIDTHS, strict=False)),
        flush=True,
    )


def compare(d: Delegated, files: Files) -> int:
    """Prints the rows of one network; returns the number of failures."""
    failed, right, tolerance = 0, reference(d), SHARE[d.kind]
    eager = worst_share(right.eager, right.exact) if right.exact else ""
    still = d.case.dynamic_shapes is None
    for writer in ("upstream", "ours") if still else ("ours",):
        for runtime in ("upstream", "ours"):
            counts: int | str = ""
            try:
                name = files.written_by(writer, d)
                counts = len(summary_of_file(files.folder / f"{name}.pte").delegates)
                found, ms = files.run_by(runtime, name, d)
                share = worst_share(found, right.eager)
                exact = worst_share(found, right.exact) if right.exact else ""
            except Exception as error:  # a failing row must not end the table
                share, exact, ms = math.inf, "", math.nan
                print(textwrap.indent(str(error)[-3000:], "    "))
            row(d.case.name, writer, runtime, counts, share, tolerance, exact, eager, f"{ms:.2f}")
            failed += share >= tolerance and (writer, runtime) != ("upstream", "upstream")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="a folder that keeps the programs")
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of networks' names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [
        d
        for name, d in REAL.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in options.names)
    ]
    upstream, failed = Upstream(), 0
    with tempfile.TemporaryDirectory() as passing:
        row(*COLUMNS)
        for d in chosen:
            failed += compare(d, Files(options.keep or Path(passing), upstream))
    upstream.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main())
