"""Every program of the catalogue, exported by one side and run by the other, equals eager torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.tolerance import EXACT, assert_near
from support.upstream_peer import Upstream
from torch.utils import _pytree as pytree

from executorch_py.exir import to_edge
from executorch_py.exir.program.config import ExecutorchBackendConfig
from executorch_py.runtime import Runtime
from interop.cases import Case, expected
from interop.catalogue import CASES


def assert_equal_to_eager(case: Case, found: list[list[Any]]) -> None:
    for index, (ours, eager) in enumerate(zip(found, expected(case), strict=True)):
        assert len(ours) == len(eager)
        for a, b in zip(ours, eager, strict=True):
            if isinstance(b, torch.Tensor):
                assert_near(
                    torch.as_tensor(a),
                    b,
                    case.tolerance if b.dtype.is_floating_point else EXACT,
                    msg=lambda text, i=index: f"input set {i}: {text}",
                )
            else:
                assert a == b


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.upstream_exports])
def test_our_runtime_runs_what_upstream_exports(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    case, path = CASES[name], tmp_path / f"{name}.pte"
    if case.from_library:
        torch.export.save(case.export(), tmp_path / f"{name}.pt2")
    upstream.ask("export", name, tmp_path)
    method = Runtime.get().load_program(path).load_method("forward")
    found = []
    for inputs in case.all_inputs():
        if not case.stateful:
            method = Runtime.get().load_program(path).load_method("forward")
        flat, _ = pytree.tree_flatten(inputs)
        found.append(list(method.execute(flat)))
    assert_equal_to_eager(case, found)


@pytest.mark.parametrize("name", CASES)
def test_upstreams_runtime_runs_what_we_export(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    config = ExecutorchBackendConfig(target="executorch-1.5")
    program = to_edge(CASES[name].export()).to_executorch(config)
    program.save(tmp_path / f"{name}.pte")
    upstream.ask("run", name, tmp_path)
    assert_equal_to_eager(CASES[name], torch.load(tmp_path / f"{name}.pt", weights_only=False))
