"""Delegates of upstream's exporter on our runtime: node kinds, element types, quantized forms.

The cases are in xnnpack_payload_cases.py. Results are compared with eager torch and with upstream's
runtime. One upstream process exports all cases, once per session.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from support.paths import SUPPORT, UPSTREAM_PYTHON
from support.tolerance import UPSTREAM_PAYLOAD, UPSTREAM_QUANTIZED, Tolerance, assert_near
from support.xnnpack_payload_cases import CASES, Case

from executorch_py import _C
from executorch_py.runtime import Method, Runtime

TIMEOUT_S = 900


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with program and results of every case."""
    folder = tmp_path_factory.mktemp("upstream_payloads")
    assert UPSTREAM_PYTHON.exists(), f"{UPSTREAM_PYTHON} is missing: run `make test`"
    command = [str(UPSTREAM_PYTHON), str(SUPPORT / "xnnpack_upstream.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def load(folder: Path, name: str) -> Method:
    reason = folder / f"{name}.txt"
    assert not reason.exists(), f"upstream does not export {name}:\n{reason.read_text()}"
    return Runtime.get().load_program((folder / f"{name}.pte").read_bytes()).load_method("forward")


def compare(case: Case, found: list[Any], wanted: list[Any], tolerance: Tolerance) -> None:
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert_near(x, y, tolerance)


@pytest.mark.skipif("XnnpackBackend" not in _C.backend_names(), reason="built without XNNPACK")
@pytest.mark.parametrize("name", CASES)
def test_a_delegate_of_upstream_gives_eager_and_upstream_results(name: str, exported: Path) -> None:
    case, method = CASES[name], load(exported, name)
    results = torch.load(exported / f"{name}.pt")
    for inputs, (eager, upstream) in zip(case.all_inputs(), results, strict=True):
        ours = list(method.execute(list(inputs)))
        near = UPSTREAM_PAYLOAD[case.dtype]
        compare(case, ours, upstream, near)
        compare(case, ours, eager, UPSTREAM_QUANTIZED.get(case.quantize, near))
