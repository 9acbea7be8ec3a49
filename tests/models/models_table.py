"""Table of architectures: lowered without a delegate, to XNNPACK, and in int8 to XNNPACK.

    python tests/models/models_table.py --record FILE [--only NAME] [--column COLUMN] [--again]
        [--batch N]
    python tests/models/models_table.py --record FILE --page
    python tests/models/models_table.py --record FILE --summary

.ci/setup.sh models installs the definitions; cells of those that are missing are refused.
Each model has a process of its own, limited in time and memory, so that a crash is one cell. The
record has one JSON line for each cell; a cell that it has is not measured again without --again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from models import (
    table_detectors,
    table_generators,
    table_graphs,
    table_torch,
    table_transformers,
    table_transformers_media,
    table_transformers_others,
    table_transformers_text,
    table_transformers_vision,
    table_vision,
)
from models.table_entry import Architecture
from models.table_text import COLUMNS, PAGE, markdown, summary

LIBRARIES = (
    table_generators,
    table_graphs,
    table_torch,
    table_vision,
    table_detectors,
    table_transformers,
    table_transformers_vision,
    table_transformers_media,
    table_transformers_others,
    table_transformers_text,
)
# The parent imports the package once; it computes nothing, so that forking it is safe.
FORK = multiprocessing.get_context("fork")
MEMORY = 10 << 30
SECONDS = 300

Record = dict[tuple[str, str], dict[str, Any]]


def architectures() -> dict[str, Architecture]:
    found = [row for library in LIBRARIES for row in library.ARCHITECTURES]
    names = {row.name: row for row in found}
    assert len(names) == len(found), "expected each name once"
    return names


def read(path: Path) -> Record:
    """The last line of each cell."""
    lines = path.read_text().splitlines() if path.exists() else []
    cells = [json.loads(line) for line in lines]
    return {(cell["name"], cell["column"]): cell for cell in cells}


def measure(name: str, columns: list[str], batch: int) -> list[dict[str, Any]]:
    """The cells of one architecture, each measured in a child process."""
    found: list[dict[str, Any]] = []
    while len(found) < len(columns):
        missing = columns[len(found) :]
        cells, end = run_child(name, missing, batch)
        found += cells
        if len(cells) < len(missing):  # the process ended during the next cell
            found.append(
                {"name": name, "column": missing[len(cells)], "status": "crashed", "error": end}
            )
    return found


def run_child(name: str, columns: list[str], batch: int) -> tuple[list[dict[str, Any]], str]:
    """The cells that a child process finished, and how it ended."""
    return limited(child, name, columns, batch)


def limited(target: Callable[..., None], *args: Any) -> tuple[list[dict[str, Any]], str]:
    """Records that target(*args, sender) sends from a child process, and how that ended."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=confined, args=(target, *args, sender))
    process.start()
    sender.close()
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + SECONDS
    while receiver.poll(max(0.0, deadline - time.monotonic())):
        try:
            found.append(receiver.recv())
        except EOFError:
            process.join()
            code = process.exitcode or 0
            return found, f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
    process.kill()
    process.join()
    return found, f"expected to end within {SECONDS} seconds"


def confined(target: Callable[..., None], *args: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    target(*args)


def child(name: str, columns: list[str], batch: int, sender: Connection) -> None:
    from models.table_columns import cells

    row = architectures()[name]
    cells(row if batch == 1 else row.batched(batch), columns, sender.send)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, default=Path("models.jsonl"))
    parser.add_argument("--only", action="append", help="a name; may be repeated")
    parser.add_argument("--column", choices=COLUMNS, action="append")
    parser.add_argument("--again", action="store_true", help="measure the cells that are there")
    parser.add_argument("--batch", type=int, default=1, help="samples in each input")
    parser.add_argument("--page", action="store_true", help=f"write the record to {PAGE.name}")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    columns = given.column or list(COLUMNS)
    if given.page:
        PAGE.write_text(markdown(architectures(), read(given.record)))
    elif given.summary:
        print(summary(read(given.record)), end="")
    else:
        fill(given.record, given.only or list(architectures()), columns, given.again, given.batch)


def import_once() -> None:
    """Imports what all children need."""
    import models.table_columns  # noqa: F401

    os.environ["HF_HUB_OFFLINE"] = "1"
    if find_spec("transformers") is not None:
        import transformers.modeling_utils  # noqa: F401


def fill(path: Path, names: list[str], columns: list[str], again: bool, batch: int) -> None:
    """Measures the cells that the record lacks."""
    import_once()
    record = {} if again else read(path)
    for name in names:
        missing = [column for column in columns if (name, column) not in record]
        for cell in measure(name, missing, batch) if missing else []:
            with path.open("a") as file:
                file.write(json.dumps(cell) + "\n")
            text = f"{cell['status']} {cell.get('stage', '')} {cell.get('error', '')}"
            times = (
                f"{cell.get('nodes')} nodes, {cell.get('ms_per_node')} ms each, "
                f"{cell.get('bytes')} bytes in {cell.get('bytes_seconds')} s, "
                f"{cell.get('seconds')} s in all"
            )
            print(f"{name}, {cell['column']}: {text.splitlines()[0][:160]} ({times})", flush=True)


if __name__ == "__main__":
    main()
