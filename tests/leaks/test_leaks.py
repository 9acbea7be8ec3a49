"""Each script leak_*.py of this folder, run in a separate interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.program_maker import adder, program_bytes

HERE = Path(__file__).resolve().parent
NEEDS = {"leak_execute": ["planned", "unplanned"]}


@pytest.mark.parametrize("script", sorted(path.stem for path in HERE.glob("leak_*.py")))
def test_nothing_is_leaked_by(script: str, tmp_path: Path) -> None:
    for name in ("planned", "unplanned"):
        data = program_bytes(adder((64, 64), planned=name == "planned"))
        (tmp_path / f"{name}.pte").write_bytes(data)
    files = [str(tmp_path / f"{name}.pte") for name in NEEDS.get(script, ["unplanned"])]
    done = subprocess.run(
        [sys.executable, str(HERE / f"{script}.py"), *files],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": str(HERE.parents[1]), "PYTHONMALLOC": "pymalloc"},
    )
    assert done.returncode == 0, done.stderr
