"""The summary of the benchmark of architectures, and the limits of its processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

from bench_architectures import N_WORST, read, summary
from peers import Peer


def cell(name: str, ms: dict[str, float], reasons: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "threads": 1, "ms": ms, "reasons": reasons or {}}


def test_the_summary_has_the_geometric_mean_of_the_time_over_onnx_runtime() -> None:
    cells = [
        cell("half", {"xnnpack": 1.0, "own_operators": 4.0, "onnxruntime": 2.0}),
        cell("eight times", {"xnnpack": 16.0, "own_operators": 16.0, "onnxruntime": 2.0}),
    ]
    text = summary(cells)
    assert "1 thread: 2 measured" in text
    assert "| delegated to XNNPACK | 2 | 2.00 | 1 above 1.1 |" in text
    assert "| own file | 2 | 4.00 | 2 above 1.1 |" in text


def test_the_summary_lists_the_ten_slowest_first() -> None:
    rows = [cell(f"model {i}", {"xnnpack": i, "onnxruntime": 1.0}) for i in range(1, 13)]
    lines = [line for line in summary(rows).splitlines() if line.startswith("| model")]
    assert len(lines) == N_WORST
    assert lines[0].startswith("| model 12 | 12 |  | 1 | 12.00 |")


def test_the_summary_states_why_a_side_is_left_out() -> None:
    row = cell("sparse", {}, {"onnxruntime": "ConversionError: no operator\nmore"})
    text = summary([row, cell("dense", {"xnnpack": 1.0, "onnxruntime": 1.0})])
    assert "1 thread: 1 measured" in text
    assert "sparse, onnxruntime: ConversionError: no operator\n" in text


def test_the_last_line_of_a_record_counts(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    lines = [cell("model", {"xnnpack": x, "onnxruntime": 1.0}) for x in (5.0, 2.0)]
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [found["ms"]["xnnpack"] for found in read(record)] == [2.0]
    assert read(tmp_path / "none") == []


def test_a_failed_request_has_its_reason_and_the_worker_goes_on() -> None:
    with Peer("own_operators") as peer:
        with pytest.raises(RuntimeError, match="No such file"):
            peer.ask("load", path="/none.pte", threads=1)
        assert peer.ask("prepare", threads=1) == {}


def test_a_request_beyond_its_seconds_ends_the_worker() -> None:
    with (
        Peer("own_operators", seconds=0.01) as peer,
        pytest.raises(RuntimeError, match="worker ended"),
    ):
        peer.ask("prepare", threads=1)
