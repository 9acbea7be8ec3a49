"""What upstream delegates to XNNPACK, our runtime runs as eager torch does.

python tests/interop/test_delegated.py [NAME…]    the same for networks of real size, with times
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from executorch_py.runtime import Program, Runtime
from interop.delegated import ALL, REAL, SHARE, SMALL, Delegated
from interop.peer import Upstream
from interop.test_both_ways import expected


def delegated(name: str, upstream: Upstream, folder: Path) -> Program:
    case = ALL[name].case
    if case.from_library:
        torch.export.save(case.export(), folder / f"{name}.pt2")
    upstream.ask("delegate", name, folder)
    return Runtime.get().load_program(folder / f"{name}.pte", n_threads=2)


def worst(program: Program, d: Delegated) -> float:
    """The greatest difference from eager over all outputs, as a share of the greatest value."""
    method = program.load_method("forward")
    share = 0.0
    for inputs, eager in zip(d.case.all_inputs(), expected(d.case), strict=True):
        found = method.execute(pytree.tree_flatten(inputs)[0])
        for ours, right in zip(found, eager, strict=True):
            if not right.dtype.is_floating_point:
                assert torch.equal(ours, right)
                continue
            assert ours.shape == right.shape and ours.dtype == right.dtype
            difference = (ours.double() - right.double()).abs().max()
            share = max(share, float(difference / right.double().abs().max()))
    return share


@pytest.mark.parametrize("name", SMALL)
def test_our_runtime_runs_what_upstream_delegates(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    program = delegated(name, upstream, tmp_path)
    assert b"XnnpackBackend" in (tmp_path / f"{name}.pte").read_bytes()
    assert worst(program, SMALL[name]) < SHARE[SMALL[name].kind]


def main(names: list[str]) -> int:
    upstream, failed = Upstream(), 0
    for name in names or list(REAL):
        with tempfile.TemporaryDirectory() as folder:
            program = delegated(name, upstream, Path(folder))
            share = worst(program, ALL[name])
            inputs = pytree.tree_flatten(ALL[name].case.inputs())[0]
            method = program.load_method("forward")
            times = []
            for _ in range(5):
                begin = time.perf_counter()
                method.execute(inputs)
                times.append(time.perf_counter() - begin)
            failed += share >= SHARE[ALL[name].kind]
            print(f"{name}: {share:.1e} of {SHARE[ALL[name].kind]:.0e}, {min(times) * 1e3:.2f} ms")
    upstream.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
