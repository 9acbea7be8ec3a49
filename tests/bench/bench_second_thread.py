"""Nodes and models of the models table that a second thread makes slower.

    python tests/bench/bench_second_thread.py --folder DIR --record FILE [--only NAME]
        [--stage prepare|time] [--again]
    python tests/bench/bench_second_thread.py --record FILE --summary

The stage `prepare` writes two files of each architecture into DIR, delegated to XNNPACK and with
own operators. The stage `time` runs each with one and two threads by turns. A node is an operator
of a file, or a node that a delegate reports. It is slower if it takes 10 % and 2 microseconds
longer with two threads: the least median of all rounds counts, and files with slower nodes are
measured once more. XNNPACK reports whole microseconds. The record has one JSON line for each file;
what it or DIR has is not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from bench_architectures import OURS, lower_and_compare
from models.models_table import architectures, import_once, limited
from peers import report

THREADS = (1, 2)
ROUNDS, SECONDS_OF_TURN, MOST_RUNS = 2, 0.08, 100
SHARE, LEAST_SECONDS = 1.1, 2e-6

Cell = dict[str, Any]
Times = dict[str, list[float]]  # by the name of a node: the least seconds at each of THREADS


def prepare(names: Sequence[str], folder: Path) -> None:
    for name in names:
        here = folder / name
        if (here / "prepared.json").exists():
            continue
        here.mkdir(parents=True, exist_ok=True)
        found, end = limited(lower_and_compare, name, here, False)
        reasons = {side: text for part in found for side, text in part.items()}
        if {} not in found:  # the last that is sent
            reasons = {side: reasons.get(side, end) for side in OURS}
        (here / "prepared.json").write_text(json.dumps(reasons))
        report(name, **{side: reason[:160] for side, reason in reasons.items()})


def time_all(names: Sequence[str], folder: Path, record: Path, again: bool) -> None:
    present = set() if again else {(cell["name"], cell["side"]) for cell in read(record)}
    for name in names:
        path = folder / name / "prepared.json"
        reasons = json.loads(path.read_text()) if path.exists() else dict.fromkeys(OURS)
        for side in OURS:
            if side in reasons or (name, side) in present:
                continue
            found, end = limited(measure, folder / name, side)
            cell = {"name": name, "side": side, **(found[0] if found else {"error": end})}
            with record.open("a") as file:
                file.write(json.dumps(cell) + "\n")
            report(f"{name}, {side}", **{k: v for k, v in cell.items() if k != "slower"})


def measure(folder: Path, side: str, sender: Connection) -> None:
    """Sends the times of a file, {node: [with one thread, with two]} of the slower nodes, and the
    number of all nodes."""
    from executorch_py.runtime import Runtime

    with np.load(folder / "inputs.npz") as arrays:
        inputs = list(arrays.values())
    path = str(folder / f"{side}.pte")
    methods = [
        Runtime.get().load_program(path, n_threads=n).load_method("forward") for n in THREADS
    ]
    first = [seconds_of(method, inputs) for method in methods]
    total: list[float] = [float("inf")] * len(THREADS)
    nodes: Times = {}
    add_rounds(methods, inputs, total, nodes)
    if is_slower(total) or any(map(is_slower, nodes.values())):
        add_rounds(methods, inputs, total, nodes)
    slower = {name: pair for name, pair in nodes.items() if is_slower(pair)}
    sender.send({"seconds": total, "first": first, "nodes": len(nodes), "slower": slower})


def add_rounds(
    methods: Sequence[Any], inputs: Sequence[Any], total: list[float], nodes: Times
) -> None:
    """Lowers the times to those of ROUNDS rounds, where they are less."""
    for _ in range(ROUNDS):
        for k, method in enumerate(methods):
            once = seconds_of(method, inputs)
            runs = int(min(MOST_RUNS, max(3, SECONDS_OF_TURN / once)))
            times = [seconds_of(method, inputs) for _ in range(runs)]
            total[k] = min(total[k], statistics.median(times))
            for name, seconds in node_times(method.profile(inputs, runs)).items():
                pair = nodes.setdefault(name, [float("inf")] * len(THREADS))
                pair[k] = min(pair[k], seconds)


def seconds_of(method: Any, inputs: Sequence[Any]) -> float:
    start = time.perf_counter()
    method.execute(inputs)
    return time.perf_counter() - start


def node_times(profile: Sequence[Any]) -> dict[str, float]:
    found = {}
    for p in profile:
        shapes = ", ".join("x".join(map(str, shape)) for _, shape in p.tensors)
        for i, node in enumerate(p.nodes):
            found[f"{p.instruction}.{i} {node.name}"] = node.seconds
        if not p.nodes:
            found[f"{p.instruction} {p.operator} ({shapes})"] = p.seconds
    return found


def is_slower(pair: Sequence[float]) -> bool:
    return pair[1] > SHARE * pair[0] and pair[1] - pair[0] > LEAST_SECONDS


def read(record: Path) -> list[Cell]:
    """The last line of each file."""
    lines = record.read_text().splitlines() if record.exists() else []
    cells = [json.loads(line) for line in lines]
    return list({(cell["name"], cell["side"]): cell for cell in cells}.values())


def summary(cells: Sequence[Cell]) -> str:
    """Markdown: how many nodes and files are slower, then each of them."""
    text = ["| files | number | slower | nodes | slower | in files |\n"]
    text.append("| --- | --- | --- | --- | --- | --- |\n")
    for side in OURS:
        listed = [cell for cell in cells if cell["side"] == side and "error" not in cell]
        counts = [
            len(listed),
            sum(is_slower(cell["seconds"]) for cell in listed),
            sum(cell["nodes"] for cell in listed),
            sum(len(cell["slower"]) for cell in listed),
            sum(bool(cell["slower"]) for cell in listed),
        ]
        text.append(f"| {side} | {' | '.join(map(str, counts))} |\n")
    text.append("\n")
    for cell in cells:
        title = f"{cell['name']}, {cell['side']}"
        if "error" in cell:
            text.append(f"{title}: {cell['error']}\n")
            continue
        if is_slower(cell["seconds"]):
            text.append(f"{title}: {microseconds(cell['seconds'])}\n")
        for name, pair in sorted(cell["slower"].items(), key=lambda x: x[1][0] - x[1][1]):
            text.append(f"  {title}: {microseconds(pair)}: {name}\n")
    return "".join(text)


def microseconds(pair: Sequence[float]) -> str:
    return f"{pair[0] * 1e6:.1f} -> {pair[1] * 1e6:.1f} us"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/architectures"))
    parser.add_argument("--record", type=Path, default=Path("second_thread.jsonl"))
    parser.add_argument("--only", action="append", help="a name; may be repeated")
    parser.add_argument("--stage", choices=("prepare", "time"), help="both by default")
    parser.add_argument("--again", action="store_true", help="time files that the record has")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    if given.summary:
        print(summary(read(given.record)), end="")
        return
    names = given.only or list(architectures())
    import_once()
    if given.stage != "time":
        prepare(names, given.folder)
    if given.stage != "prepare":
        time_all(names, given.folder, given.record, given.again)


if __name__ == "__main__":
    main()
