"""The runtime's cost of one instruction: chains of one-element additions through et_run.

    python tests/bench/bench_dispatch.py build/release/et_run

The difference between a long and a short chain, divided by their difference in length, excludes the
fixed cost of a run. The addition itself is part of the figure. One JSON line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

SHORT, LONG, REPEAT, ROUNDS = 100, 1100, 3000, 5


def chain(n: int) -> bytes:
    """x + x + x …: two results alternate, so that every addition needs the previous one."""
    from support.program_maker import MethodMaker, program_bytes

    method = MethodMaker()
    x, alpha = method.tensor([1]), method.scalar(1)
    results, current = [method.tensor([1]), method.tensor([1])], x
    method.inputs.append(x)
    for i in range(n):
        method.call("aten::add.out", current, x, alpha, results[i % 2], results[i % 2])
        current = results[i % 2]
    method.outputs.append(current)
    return program_bytes(method)


def median_ms(runner: str, path: Path) -> float:
    command = [runner, str(path), "--repeat", str(REPEAT)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"median ([\d.]+) ms", text)
    assert found is not None, text
    return float(found[1])


def main(runner: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: Path(folder) / f"{n}.pte" for n in (SHORT, LONG)}
        for n, path in paths.items():
            path.write_bytes(chain(n))
        rounds = [
            (median_ms(runner, paths[LONG]) - median_ms(runner, paths[SHORT]))
            * 1e6
            / (LONG - SHORT)
            for _ in range(ROUNDS)
        ]
    rounds.sort()
    figures = {"subject": "dispatch", "variant": "add.out, one f32", "ns": round(rounds[2], 2)}
    print(json.dumps({**figures, "spread": round(rounds[-1] - rounds[0], 2), "n": ROUNDS}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/release/et_run")
