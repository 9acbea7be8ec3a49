"""Code of the core runtime: at most 20 KiB with messages reduced to codes (.ci/size.sh)."""

from __future__ import annotations

import subprocess

from support.paths import ROOT


def test_the_core_runtime_has_at_most_20_kib_of_code() -> None:
    done = subprocess.run([ROOT / ".ci" / "size.sh"], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr).splitlines()[-1]
