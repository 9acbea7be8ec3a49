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
from support.xnnpack_payload_cases import CASES, Case

from executorch_py import _C
from executorch_py.runtime import Method, Runtime

TIMEOUT_S = 900

# Upstream's kernels are another revision's; half types are compared in their own precision. Values
# that are quantized at run time are rounded by the delegate, not by the exported model.
TOLERANCE = {
    torch.float32: (1e-5, 1e-5),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (4e-2, 4e-2),
}
QUANTIZED = {
    "tensor": (0.0, 0.05),
    "channel": (0.0, 0.05),
    "dynamic": (0.0, 0.02),
    "int4 group": (0.0, 0.02),
    "int4 channel": (0.0, 0.02),
}


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


def compare(case: Case, found: list[Any], wanted: list[Any], tolerance: Any) -> None:
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance[0], atol=tolerance[1])


@pytest.mark.skipif("XnnpackBackend" not in _C.backend_names(), reason="built without XNNPACK")
@pytest.mark.parametrize("name", CASES)
def test_a_delegate_of_upstream_gives_eager_and_upstream_results(name: str, exported: Path) -> None:
    case, method = CASES[name], load(exported, name)
    results = torch.load(exported / f"{name}.pt")
    for inputs, (eager, upstream) in zip(case.all_inputs(), results, strict=True):
        ours = list(method.execute(list(inputs)))
        near = TOLERANCE[case.dtype]
        compare(case, ours, upstream, near)
        compare(case, ours, eager, QUANTIZED.get(case.quantize, near))
