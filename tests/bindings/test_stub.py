"""The stub _C.pyi agrees with the extension: names, signatures, kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_stubtest_finds_no_difference(tmp_path: Path) -> None:
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "executorch_py._C", "--mypy-config-file", config],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
