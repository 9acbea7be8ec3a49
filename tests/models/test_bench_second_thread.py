"""The rule and the summary of the benchmark of the second thread."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

from bench_second_thread import is_slower, summary


def test_slower_means_a_tenth_and_two_microseconds() -> None:
    assert is_slower([10e-6, 12.1e-6])
    assert not is_slower([10e-6, 11.9e-6])  # less than 2 microseconds
    assert not is_slower([100e-6, 109e-6])  # less than a tenth
    assert not is_slower([10e-6, 5e-6])


def test_the_summary_counts_files_and_nodes_of_each_side() -> None:
    slower = {"0 aten::add.out (4)": [1e-6, 5e-6]}
    cells = [
        {"name": "a", "side": "xnnpack", "seconds": [1e-5, 2e-5], "nodes": 7, "slower": slower},
        {"name": "b", "side": "xnnpack", "seconds": [2e-5, 1e-5], "nodes": 3, "slower": {}},
        {"name": "b", "side": "own_operators", "error": "ended by SIGKILL"},
    ]
    lines = summary(cells).splitlines()
    assert "| xnnpack | 2 | 1 | 10 | 1 | 1 |" in lines
    assert "| own_operators | 0 | 0 | 0 | 0 | 0 |" in lines
    assert "a, xnnpack: 10.0 -> 20.0 us" in lines
    assert "  a, xnnpack: 1.0 -> 5.0 us: 0 aten::add.out (4)" in lines
    assert "b, own_operators: ended by SIGKILL" in lines
