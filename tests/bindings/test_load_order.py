"""The extension's pthreadpool functions are its own, regardless of other libraries.

torch exports pthreadpool's functions. A library that resolves them by name could get torch's
functions for a pool that torch did not make. So the extension exports one function and resolves
none of those by name, and programs run on its threads in every order of loading.
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

# Load orders, each run in a new process, with the library that then provides pthreadpool's symbols.
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
    """A folder with a program that multiplies matrices of many tiles, with input and result."""
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
    assert facts["new_threads"] == 1  # two including the caller; no other pool was started
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
