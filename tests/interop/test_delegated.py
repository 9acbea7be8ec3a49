"""Programs that upstream delegates to XNNPACK run on our runtime as in eager torch.

delegate_table.py tests networks of real size in both directions.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.upstream_peer import Upstream
from torch.utils import _pytree as pytree

from executorch_py.runtime import Program, Runtime
from interop.cases import expected
from interop.delegated import SHARE, SMALL, worst_share


def delegated(name: str, upstream: Upstream, folder: Path) -> Program:
    case = SMALL[name].case
    if case.from_library:
        torch.export.save(case.export(), folder / f"{name}.pt2")
    upstream.ask("delegate", name, folder)
    return Runtime.get().load_program(folder / f"{name}.pte", n_threads=2)


@pytest.mark.parametrize("name", SMALL)
def test_our_runtime_runs_what_upstream_delegates(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    case = SMALL[name].case
    method = delegated(name, upstream, tmp_path).load_method("forward")
    assert b"XnnpackBackend" in (tmp_path / f"{name}.pte").read_bytes()
    sets = [pytree.tree_flatten(inputs)[0] for inputs in case.all_inputs()]
    found = [list(method.execute(inputs)) for inputs in sets]
    assert worst_share(found, expected(case)) < SHARE[SMALL[name].kind]
