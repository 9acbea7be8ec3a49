"""The architectures of the models table beside ONNX Runtime: f32, batch 1, 1 and 2 threads.

    python tests/bench/bench_architectures.py --folder DIR --record FILE [--only NAME]
        [--threads N] [--stage prepare|time]
    python tests/bench/bench_architectures.py --record FILE --summary

The sides: our file delegated to XNNPACK, our file for our runtime only (own_operators), and ONNX
Runtime with the model that torch.onnx.export writes. The stage `prepare` writes the files of each
architecture into DIR and compares their outputs with eager torch by the rule of the models table,
each step in a process limited in memory and time. The stage `time` runs the files by turns. The
record has one JSON line for each architecture and number of threads; what it or DIR has is not
made again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import geometric_mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from models.models_table import MEMORY, SECONDS, architectures, import_once, limited
from peers import Peer, report, timed
from subjects import TABLE
from worker import SIDES

OURS = ("xnnpack", "own_operators")
THEIRS = "onnxruntime"
ROUNDS, RUNS, SECONDS_OF_TURNS = 5, 1, 5.0
N_WORST = 10

Cell = dict[str, Any]


def prepare(name: str, folder: Path, converter: Peer) -> None:
    """Writes the files of one architecture, and prepared.json with the reason of each side that has
    none or whose outputs differ."""
    folder.mkdir(parents=True, exist_ok=True)
    reasons: dict[str, str] = {}
    try:
        path = str(folder / "onnxruntime.onnx")
        converter.ask("lower", model=TABLE + name, path=path)
        converter.ask("load", path=path, threads=1)
        converter.ask("inputs", model=TABLE + name)
        converter.ask("outputs", path=str(folder / "outputs.npz"))
    except RuntimeError as error:
        reasons[THEIRS] = str(error)
    found, end = limited(lower_and_compare, name, folder, THEIRS not in reasons)
    for part in found:
        reasons |= part
    if {} not in found:  # the last that is sent
        reasons |= {side: end for side in OURS if side not in reasons}
    (folder / "prepared.json").write_text(json.dumps(reasons))


def lower_and_compare(name: str, folder: Path, with_theirs: bool, sender: Connection) -> None:
    """Sends {side: reason} for each side that fails, and {} at the end."""
    from executorch_py.runtime import Runtime
    from executorch_py.testing.parity import compare_runs

    row = architectures()[name]
    try:
        model, inputs = row.build(), row.inputs()
        np.savez(folder / "inputs.npz", *[x.numpy() for x in inputs])
        with torch.no_grad():
            exported = torch.export.export(model, inputs)
    except Exception as error:
        sender.send({side: reason_of(error) for side in OURS})
        return

    def outputs_of(side: str, flat: Sequence[Any]) -> Sequence[Any]:
        if side == THEIRS:
            with np.load(folder / "outputs.npz") as arrays:
                return [torch.from_numpy(x) for x in arrays.values()]
        path = folder / f"{side}.pte"
        SIDES[side]().write(exported, str(path))
        program = Runtime.get().load_program(str(path))
        return list(program.load_method("forward").execute(list(flat)))

    for side in (*OURS, THEIRS) if with_theirs else OURS:
        try:
            compared = compare_runs(
                exported,
                lambda flat, side=side: outputs_of(side, flat),
                model,
                inputs,
                {},
                None,
                None,
            )
            if not compared.ok:
                sender.send({side: f"differs: {compared.failure()}"[:500]})
        except Exception as error:
            sender.send({side: reason_of(error)})
    sender.send({})


def reason_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def prepare_all(names: Sequence[str], folder: Path) -> None:
    import_once()
    converter = Peer(THEIRS, 1, MEMORY, SECONDS)
    for name in names:
        if (folder / name / "prepared.json").exists():
            continue
        prepare(name, folder / name, converter)
        reasons = json.loads((folder / name / "prepared.json").read_text())
        report(name, **{side: reason[:160] for side, reason in reasons.items()})
        if THEIRS in reasons:  # the process may have ended
            converter.__exit__()
            converter = Peer(THEIRS, 1, MEMORY, SECONDS)
    converter.__exit__()


def time_all(names: Sequence[str], folder: Path, threads: Sequence[int], record: Path) -> None:
    """Times the architectures that are prepared."""
    present = {(cell["name"], cell["threads"]) for cell in read(record)}
    for name in names:
        prepared = folder / name / "prepared.json"
        for count in threads if prepared.exists() else ():
            if (name, count) not in present:
                cell = timed_cell(name, folder / name, count, json.loads(prepared.read_text()))
                with record.open("a") as file:
                    file.write(json.dumps(cell) + "\n")
                report(f"{name}, {count}", **cell["ms"])


def timed_cell(name: str, folder: Path, threads: int, reasons: dict[str, str]) -> Cell:
    """One line of the record."""
    paths = {side: str(folder / f"{side}.pte") for side in OURS}
    paths[THEIRS] = str(folder / f"{THEIRS}.onnx")
    paths = {side: path for side, path in paths.items() if side not in reasons}
    ms: dict[str, float] = {}
    if THEIRS in paths and len(paths) > 1:
        inputs = str(folder / "inputs.npz")
        ms = timed(inputs, paths, threads, ROUNDS, RUNS, SECONDS_OF_TURNS)
        reasons |= {side: "did not run to the end" for side in paths if side not in ms}
    today = date.today().isoformat()
    return {"name": name, "threads": threads, "ms": ms, "reasons": reasons, "date": today}


def read(record: Path) -> list[Cell]:
    """The last line of each architecture and number of threads."""
    lines = record.read_text().splitlines() if record.exists() else []
    cells = [json.loads(line) for line in lines]
    return list({(cell["name"], cell["threads"]): cell for cell in cells}.values())


def summary(cells: Sequence[Cell]) -> str:
    """Markdown: the geometric means, the worst rows of the faster file, and what is left out."""
    text = []
    for threads in sorted({cell["threads"] for cell in cells}):
        listed = [cell for cell in cells if cell["threads"] == threads]
        compared = [cell for cell in listed if THEIRS in cell["ms"] and len(cell["ms"]) > 1]
        text.append(f"{threads} thread{'s' if threads > 1 else ''}: {len(compared)} measured\n\n")
        text.append("| time over ONNX Runtime | architectures | geometric mean | slower |\n")
        text.append("| --- | --- | --- | --- |\n")
        for title, sides in (
            ("delegated to XNNPACK", OURS[:1]),
            ("own file", OURS[1:]),
            ("the faster of both", OURS),
        ):
            ratios = [ratio(cell, sides) for cell in compared if set(sides) & set(cell["ms"])]
            if ratios:
                mean, slower = geometric_mean(ratios), sum(x > 1.1 for x in ratios)
                text.append(f"| {title} | {len(ratios)} | {mean:.2f} | {slower} above 1.1 |\n")
        text.append("\n| slowest | XNNPACK, ms | own file, ms | ONNX Runtime, ms | ratio |\n")
        text.append("| --- | --- | --- | --- | --- |\n")
        for cell in sorted(compared, key=lambda c: -ratio(c, OURS))[:N_WORST]:
            times = [f"{cell['ms'][s]:.3g}" if s in cell["ms"] else "" for s in (*OURS, THEIRS)]
            text.append(f"| {cell['name']} | {' | '.join(times)} | {ratio(cell, OURS):.2f} |\n")
        text.append("\n")
    left_out = {
        f"{cell['name']}, {side}: {reason.splitlines()[0][:160]}\n"
        for cell in cells
        for side, reason in cell["reasons"].items()
    }
    return "".join([*text, f"Left out, {len(left_out)}:\n\n", *sorted(left_out)])


def ratio(cell: Cell, sides: Sequence[str]) -> float:
    """The least time of our sides over ONNX Runtime's."""
    least: float = min(cell["ms"][side] for side in sides if side in cell["ms"])
    return least / float(cell["ms"][THEIRS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/architectures"))
    parser.add_argument("--record", type=Path, default=Path("architectures.jsonl"))
    parser.add_argument("--only", action="append", help="a name; may be repeated")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--stage", choices=("prepare", "time"), help="both by default")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    names = given.only or list(architectures())
    if given.summary:
        print(summary(read(given.record)), end="")
        return
    if given.stage != "time":
        prepare_all(names, given.folder)
    if given.stage != "prepare":
        time_all(names, given.folder, given.threads, given.record)


if __name__ == "__main__":
    main()
