"""Damaged files under sanitizers and with the real kernels: every truncation and thousands of
seeded mutations of each golden file end in an error or in a run, never in a crash or a hang.

The replayer does the work (replay.c); half of its mutations are flipped bits, half are changed
fields (mutate_program.c). A failure prints the file, the mutation's number and how to repeat it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.replayer import GOLDEN, beside, replay

N_MUTATIONS = 10_000  # a file, half of either kind: over 20,000 for ten files


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_a_file_cut_at_any_length_is_an_error(c_build: Path, path: Path) -> None:
    found = replay(c_build / "fuzz_program", "--truncate", *beside(path), str(path))
    assert found["inputs"] == path.stat().st_size + 1
    if path.stem != "xnnpack":  # which needs a backend that not every build has
        assert found["finished"] >= 1  # the whole file; cuts in the last segment's end may open


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_a_damaged_file_is_an_error_or_runs(c_build: Path, path: Path) -> None:
    replay(c_build / "fuzz_program", "--flips", str(N_MUTATIONS), *beside(path), str(path))


def test_a_good_share_of_the_damaged_files_gets_to_the_kernels(c_build: Path) -> None:
    programs = [str(path) for path in GOLDEN if path.suffix == ".pte"]
    assert len(programs) >= 10
    found = replay(c_build / "fuzz_program", "--flips", "500", "--seed", "7", *programs)
    assert found["opened"] > 0.4 * found["inputs"]
    assert found["started"] > 0.3 * found["inputs"]


def test_the_same_seed_makes_the_same_mutation(c_build: Path, tmp_path: Path) -> None:
    saved = [tmp_path / "a", tmp_path / "b"]
    for path in saved:
        replay(c_build / "fuzz_program", "--only", "16", "--save", str(path), str(GOLDEN[0]))
    assert saved[0].read_bytes() == saved[1].read_bytes() != GOLDEN[0].read_bytes()
