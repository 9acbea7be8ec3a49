"""XNNPACK's thread pool functions are the extension's own, whatever else is in the process.

torch exports pthreadpool's functions, and whoever resolved them by name could be given torch's: a
pool it never made. So the extension exports one function, asks for none of those by name, and
programs run on the threads it started, in every order of loading.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.export import export

from executorch_py import _C
from executorch_py.backends.xnnpack.preprocess import XnnpackBackend
from executorch_py.exir import to_edge
from executorch_py.exir.backend.backend_api import to_backend

pytestmark = pytest.mark.skipif(
    "XnnpackBackend" not in _C.backend_names(), reason="the extension was built without XNNPACK"
)

# Each in a process of its own; what provides pthreadpool's names to those that ask by name.
ORDERS = {
    "ours": None,
    "torch, ours": None,
    "ours, torch": None,
    "global libtorch, ours": "libtorch_cpu.so",
    "global ours, torch": None,
    "global ours, global libtorch": "libtorch_cpu.so",
    "global libtorch, global ours": "libtorch_cpu.so",
}


@pytest.fixture(scope="module")
def delegated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program that multiplies matrices of many tiles, an input and its result."""
    folder = tmp_path_factory.mktemp("load_order")
    torch.manual_seed(0)
    model, x = torch.nn.Linear(256, 192).eval(), torch.randn(300, 256)
    lowered = to_backend(
        XnnpackBackend.__name__, to_edge(export(model, (x,))).exported_program(), []
    )

    class Delegated(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = lowered(x)
            assert isinstance(y, torch.Tensor)
            return y

    to_edge(export(Delegated(), (x,))).to_executorch().save(str(folder / "model.pte"))
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "y.npy", model(x).detach().numpy())
    return folder


@pytest.mark.parametrize("order", ORDERS)
def test_programs_run_on_the_extensions_own_threads(order: str, delegated: Path) -> None:
    script = Path(__file__).parent / "load_order.py"
    command = [sys.executable, str(script), order, str(delegated / "model.pte"), str(delegated)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["error"] < 1e-5
    assert facts["new_threads"] == 1  # two with the calling one; nobody else's pool was started
    assert not facts["found_in_ours"]
    assert facts["found_by_all_in"] == ORDERS[order]


def test_the_extension_exports_its_init_function_only() -> None:
    command = ["nm", "-D", "--defined-only", _C.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.findall(r" ([A-Z]) (\S+)$", done.stdout, re.M) == [("T", "PyInit__C")]


def test_the_extension_asks_nobody_for_xnnpacks_functions() -> None:
    command = ["nm", "-D", "--undefined-only", _C.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "PyModule" in done.stdout
    assert re.findall(r"\b(?:pthreadpool|xnn|cpuinfo)_\w+", done.stdout) == []
