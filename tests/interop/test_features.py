"""Files with external weights, several methods, state: both ways with upstream."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from interop.features import FEATURES, run, write

HERE = Path(__file__).resolve().parent
UPSTREAM_PYTHON = HERE.parent.parent / ".venv-upstream" / "bin" / "python"


def upstream(action: str, folder: Path) -> None:
    subprocess.run(
        [UPSTREAM_PYTHON, HERE / "features.py", action, "executorch", folder],
        check=True,
        capture_output=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    theirs, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")
    upstream("write", theirs)
    run("executorch_py", theirs)
    write("executorch_py", ours)
    upstream("run", ours)
    return {
        "ours runs theirs": torch.load(theirs / "results.pt"),
        "theirs runs ours": torch.load(ours / "results.pt"),
    }


@pytest.mark.parametrize("way", ["ours runs theirs", "theirs runs ours"])
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_works_both_ways(name: str, way: str, results: dict[str, dict[str, Any]]) -> None:
    found, expected = results[way][name], FEATURES[name].expected()
    assert not isinstance(found, str), found
    assert len(found) == len(expected)
    for ours, (wanted,) in zip(found, expected, strict=True):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(ours, [wanted], rtol=1e-4, atol=1e-5)
        else:
            assert ours == [wanted]
