"""Machines of other page sizes, with and without huge pages, of other CPU counts: same results.

made_up_machine.c replaces system calls in a separate process, which needs no torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.exir import to_edge_transform_and_lower
from executorch_py.toolchain.compiler import call, find_compiler

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries come first on Linux")

MACHINES: dict[str, dict[str, str]] = {
    "this one": {},
    "pages of 64 KiB": {"MADE_UP_PAGE": "65536"},
    "no advice on memory": {"MADE_UP_ADVICE": "refused"},
    "no huge pages": {"NO_HUGE_PAGES": "1"},
    "1 CPU": {"MADE_UP_CPUS": "1"},
    "3 CPUs": {"MADE_UP_CPUS": "3"},
}
RUN = """
import ctypes, hashlib, json, mmap, os, sys
if "NO_HUGE_PAGES" in os.environ:
    PR_SET_THP_DISABLE = 41
    assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
import numpy as np
from executorch_py.runtime import Runtime
program = Runtime.get().load_program(sys.argv[1])
method = program.load_method("forward")
x = np.linspace(-1, 1, 2 * 48, dtype=np.float32).reshape(2, 48)
results = [method.execute([x])[0] for _ in range(2)]
try:
    mmap.mmap(-1, mmap.PAGESIZE).madvise(mmap.MADV_NORMAL)
    takes_advice = True
except OSError:
    takes_advice = False
print(json.dumps({
    "page": os.sysconf("SC_PAGESIZE"),
    "takes_advice": takes_advice,
    "n_threads": program.n_threads,
    "results": [hashlib.sha256(r.tobytes()).hexdigest() for r in results],
}))
"""


class Large(torch.nn.Module):
    """A model with more than 16 MiB of weights in a delegate, and a kernel's result above 4 MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(48, 90_000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(self.linear(x).repeat(8, 1), 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program, and the library that replaces system calls."""
    folder = tmp_path_factory.mktemp("machine")
    torch.manual_seed(0)
    exported = torch.export.export(Large().eval(), (torch.randn(2, 48),))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    (folder / "large.pte").write_bytes(edge.to_executorch().buffer)
    source = str(Path(__file__).with_name("made_up_machine.c"))
    flags = ["-std=c11", "-shared", "-fPIC", "-o", str(folder / "machine.so")]
    call([*find_compiler(None), *flags, source, "-ldl"])
    return folder / "large.pte", folder / "machine.so"


def run_on(machine: str, program: Path, library: Path) -> dict[str, Any]:
    environment = {**os.environ, "LD_PRELOAD": str(library), **MACHINES[machine]}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(program)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def here(files: tuple[Path, Path]) -> dict[str, Any]:
    return run_on("this one", *files)


@pytest.mark.parametrize("machine", list(MACHINES)[1:])
def test_results_are_those_of_this_machine(
    machine: str, files: tuple[Path, Path], here: dict[str, Any]
) -> None:
    found, answers = run_on(machine, *files), MACHINES[machine]
    assert found["results"] == here["results"]
    assert found["page"] == int(answers.get("MADE_UP_PAGE", here["page"]))
    assert found["takes_advice"] == ("MADE_UP_ADVICE" not in answers)
    # A control group may allow fewer CPUs.
    assert 1 <= found["n_threads"] <= int(answers.get("MADE_UP_CPUS", here["n_threads"]))
