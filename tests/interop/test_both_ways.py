"""Every program of the catalogue, exported by one side and run by the other, equals eager torch."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from executorch_py.exir import to_edge
from executorch_py.exir.program.config import ExecutorchBackendConfig
from executorch_py.runtime import Runtime
from interop.catalogue import CASES, Case

# One worker runs them all: the exports are made once per worker.
pytestmark = pytest.mark.xdist_group("interop")

HERE = Path(__file__).resolve().parent
UPSTREAM_PYTHON = HERE.parent.parent / ".venv-upstream" / "bin" / "python"


def upstream(action: str, folder: Path, names: list[str]) -> None:
    """Runs the worker in upstream's virtual environment; failures are left beside the files."""
    assert UPSTREAM_PYTHON.exists(), f"{UPSTREAM_PYTHON} is missing: run `make test`"
    subprocess.run(
        [UPSTREAM_PYTHON, HERE / "upstream_worker.py", action, folder, *names],
        check=True,
        capture_output=True,
        timeout=1200,
    )


def expected(case: Case) -> list[list[Any]]:
    """Eager outputs, flat, one list per set of inputs;

    state persists between sets of a stateful case.
    """
    model = case.module()
    results = []
    for inputs in case.all_inputs():
        runner = model if case.stateful else copy.deepcopy(model)
        with torch.no_grad():
            outputs = runner(*copy.deepcopy(inputs))
        flat, _ = pytree.tree_flatten(outputs)
        results.append([v.clone() if isinstance(v, torch.Tensor) else v for v in flat])
    return results


def assert_equal_to_eager(case: Case, found: list[list[Any]]) -> None:
    rtol, atol = case.tolerance
    for index, (ours, eager) in enumerate(zip(found, expected(case), strict=True)):
        assert len(ours) == len(eager)
        for a, b in zip(ours, eager, strict=True):
            if isinstance(b, torch.Tensor):
                exact = not b.dtype.is_floating_point
                torch.testing.assert_close(
                    torch.as_tensor(a),
                    b,
                    rtol=0 if exact else rtol,
                    atol=0 if exact else atol,
                    msg=lambda text, i=index: f"input set {i}: {text}",
                )
            else:
                assert a == b


def failure(folder: Path, name: str) -> str | None:
    error = folder / f"{name}.error"
    return error.read_text() if error.exists() else None


@pytest.fixture(scope="module")
def exported_by_upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("from_upstream")
    for case in CASES.values():
        if case.from_library:
            torch.export.save(case.export(), folder / f"{case.name}.pt2")
    upstream("export", folder, [name for name, case in CASES.items() if case.upstream_exports])
    return folder


@pytest.fixture(scope="module")
def run_by_upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("to_upstream")
    exported = []
    for name, case in CASES.items():
        try:
            config = ExecutorchBackendConfig(target="executorch-1.5")
            program = to_edge(case.export()).to_executorch(config)
            (folder / f"{name}.pte").write_bytes(program.buffer)
            exported.append(name)
        except Exception as error:
            (folder / f"{name}.error").write_text(f"our export failed: {error!r}")
    upstream("run", folder, exported)
    return folder


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.upstream_exports])
def test_our_runtime_runs_what_upstream_exports(name: str, exported_by_upstream: Path) -> None:
    case = CASES[name]
    error = failure(exported_by_upstream, name)
    assert error is None, error
    path = exported_by_upstream / f"{name}.pte"
    method = Runtime.get().load_program(path).load_method("forward")
    found = []
    for inputs in case.all_inputs():
        if not case.stateful:
            method = Runtime.get().load_program(path).load_method("forward")
        flat, _ = pytree.tree_flatten(inputs)
        found.append(list(method.execute(flat)))
    assert_equal_to_eager(case, found)


@pytest.mark.parametrize("name", CASES)
def test_upstreams_runtime_runs_what_we_export(name: str, run_by_upstream: Path) -> None:
    error = failure(run_by_upstream, name)
    assert error is None, error
    found = torch.load(run_by_upstream / f"{name}.upstream.pt", weights_only=False)
    assert_equal_to_eager(CASES[name], found)
