"""Damaged delegate payloads, under sanitizers and with XNNPACK: real ones, written by upstream's
exporter, cut at every length and with thousands of seeded mutations, end in an error or in a run.

Half of the mutations are flipped bits, half are changed fields (mutate_xnnpack.c). So are whole
programs with delegates, opened, loaded and executed by the runtime (fuzz_program, for which every
second changed field is a payload's): test_fuzz.py does it to the golden one 10,000 times.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.replayer import replay

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PAYLOADS = sorted((GOLDEN / "xnnpack").glob("*.payload"))
N_MUTATIONS = 2_000  # of each payload


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.stem)
def test_a_damaged_payload_is_an_error_or_runs(c_build: Path, path: Path) -> None:
    found = replay(c_build / "fuzz_xnnpack", "--truncate", "--flips", str(N_MUTATIONS), str(path))
    assert found["inputs"] > N_MUTATIONS
    if found["opened"] > 0:  # a build with XNNPACK
        assert found["finished"] > 0.1 * N_MUTATIONS


def test_a_good_share_of_the_damaged_programs_gets_to_their_delegates(c_build: Path) -> None:
    found = replay(c_build / "fuzz_program", "--flips", "500", str(GOLDEN / "xnnpack.pte"))
    if replay(c_build / "fuzz_xnnpack", str(PAYLOADS[0]))["opened"] > 0:  # a build with XNNPACK
        assert found["finished"] > 0.3 * found["inputs"]
