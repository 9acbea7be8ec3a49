"""Import time and memory of the runtime, time from the start of a process to its first result of
MobileNetV2, and peak memory of a process that runs it once, torch-free.

Byte code is compiled before, as in an installed package, even if the environment forbids writing
it. Import times are the fastest of several processes, because other programs can only make one
slower. Times to the first result are medians of fresh processes that start by turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from peers import PYTHONS, Peer, report

PROBE = """
import resource, sys, time
start = time.perf_counter()
{code}
seconds = time.perf_counter() - start
print(seconds * 1e3, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 'torch' in
sys.modules)
"""
RUN_ONCE = {
    "ours": """
import numpy as np
from executorch_py.runtime import Runtime
method = Runtime.get().load_program({path!r}).load_method("forward")
method.execute([np.ones((1, 3, 224, 224), np.float32)])
""",
    "upstream": """
import torch
from executorch.runtime import Runtime
method = Runtime.get().load_program({path!r}).load_method("forward")
method.execute([torch.ones(1, 3, 224, 224)])
""",
}


def probe(side: str, code: str, repeat: int = 15) -> tuple[float, float, bool]:
    """Minimum ms and median peak MB of fresh processes; whether torch was imported."""
    runs = []
    with tempfile.TemporaryDirectory() as byte_code:
        environment = dict(os.environ, PYTHONPYCACHEPREFIX=byte_code, PYTHONDONTWRITEBYTECODE="")
        for _ in range(repeat + 1):
            text = subprocess.run(
                [PYTHONS[side], "-c", PROBE.format(code=code)],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
            ).stdout.splitlines()[-1]
            ms, mb, torch = text.split()
            runs.append((float(ms), float(mb), torch == "True"))
    later = runs[1:]  # the first one wrote the byte code
    return min(r[0] for r in later), statistics.median(r[1] for r in later), any(r[2] for r in runs)


NOW = "\nimport time; print(time.clock_gettime(time.CLOCK_MONOTONIC))"


def times_to_first_result(codes: dict[str, tuple[str, str]], turns: int = 20) -> dict[str, float]:
    """Median ms from the start of a process to the end of its code, by name: (side, code)."""
    found: dict[str, list[float]] = {name: [] for name in codes}
    with tempfile.TemporaryDirectory() as byte_code:
        environment = dict(os.environ, PYTHONPYCACHEPREFIX=byte_code, PYTHONDONTWRITEBYTECODE="")
        for _ in range(turns + 1):
            for name, (side, code) in codes.items():
                start = time.clock_gettime(time.CLOCK_MONOTONIC)
                done = subprocess.run(
                    [PYTHONS[side], "-c", code + NOW],
                    capture_output=True,
                    text=True,
                    check=True,
                    env=environment,
                )
                found[name].append(float(done.stdout.splitlines()[-1]) - start)
    return {name: statistics.median(each[1:]) * 1e3 for name, each in found.items()}


def report_first_result(turns: int = 20) -> None:
    with tempfile.TemporaryDirectory() as folder:
        codes = {"numpy": ("ours", "import numpy")}
        for name, side in (("ours", "own_operators"), ("upstream", "upstream_xnnpack")):
            path = str(Path(folder) / f"{side}.pte")
            with Peer(side) as peer:
                peer.ask("lower", model="mobilenet_v2", path=path)
            codes[name] = (side, RUN_ONCE[name].format(path=path))
        ms = times_to_first_result(codes, turns)
    report(
        "process start to first result of MobileNetV2: own file; upstream's XNNPACK file",
        numpy_ms=ms["numpy"],
        ours_ms=ms["ours"],
        upstream_ms=ms["upstream"],
        beyond_numpy_ms=ms["ours"] - ms["numpy"],
        ratio=ms["ours"] / ms["upstream"],
        bar="≤ NumPy + 12 ms, ≤ 0.1 of upstream",
    )


def main() -> None:
    numpy_ms, numpy_mb, _ = probe("ours", "import numpy")
    ours_ms, ours_mb, torch = probe("ours", "import numpy; import executorch_py.runtime")
    upstream_ms, upstream_mb, _ = probe("upstream", "import executorch.runtime", repeat=3)
    report(
        "import of the runtime, beyond import numpy",
        ours_ms=ours_ms - numpy_ms,
        ours_mb=ours_mb - numpy_mb,
        torch_imported=torch,
        upstream_ms=upstream_ms,
        upstream_mb=upstream_mb,
        bar="≤ 50 ms, ≤ 15 MB",
    )
    report_first_result()
    with tempfile.TemporaryDirectory() as folder:
        peak = {}
        for side, code in RUN_ONCE.items():
            path = str(Path(folder) / f"{side}.pte")
            with Peer(side) as peer:
                peer.ask("lower", model="mobilenet_v2", path=path)
            peak[side] = probe(side, code.format(path=path), repeat=1)[1]
    report(
        "peak memory of a process that runs MobileNetV2 once",
        ours_mb=peak["ours"],
        upstream_mb=peak["upstream"],
        bar="≤ 100 MB",
    )


if __name__ == "__main__":
    main()
