"""Files with external weights, several methods, state: both ways with upstream."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.tolerance import F32_MODEL, assert_near
from support.upstream_peer import Upstream

from interop.features import FEATURES, run, write


def assert_equal_to_eager(name: str, folder: Path) -> None:
    found, expected = torch.load(folder / name / "results.pt"), FEATURES[name].expected()
    assert len(found) == len(expected)
    for ours, (wanted,) in zip(found, expected, strict=True):
        if isinstance(wanted, torch.Tensor):
            assert_near(ours, [wanted], F32_MODEL)
        else:
            assert ours == [wanted]


@pytest.mark.parametrize("name", FEATURES)
def test_our_runtime_has_the_features_upstream_writes(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.ask("write_feature", name, tmp_path)
    run("executorch_py", name, tmp_path)
    assert_equal_to_eager(name, tmp_path)


@pytest.mark.parametrize("name", FEATURES)
def test_upstreams_runtime_has_the_features_we_write(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    write("executorch_py", name, tmp_path)
    upstream.ask("run_feature", name, tmp_path)
    assert_equal_to_eager(name, tmp_path)


def test_data_files_of_the_other_exporter_fit_whatever_dim_order_they_name(
    upstream: Upstream, tmp_path: Path
) -> None:
    name = "external_channels_last_weights"
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    upstream.ask("write_feature", name, theirs)
    write("executorch_py", name, ours)
    (data,), (other,) = (theirs / name).glob("*.ptd"), (ours / name).glob("*.ptd")
    first, second = data.read_bytes(), other.read_bytes()
    assert first != second
    data.write_bytes(second)
    other.write_bytes(first)
    for folder in (theirs, ours):
        run("executorch_py", name, folder)
        assert_equal_to_eager(name, folder)
