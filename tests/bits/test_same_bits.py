"""Every kernel gives the same bits on every machine, instruction set and number of threads,
prepared or not: each call of ../fuzz/calls.txt and calls.txt, for each element type, has one hash
in hashes.txt, which every machine must compute.

A failure names the calls. After an intended change of results, or new calls, `python
tests/bits/machines.py --write` writes the table again.
"""

from __future__ import annotations

import re

import pytest

from bits.machines import CALLS, FOLDER, HASHES, MACHINES, build, differences, run, table_of

TABLE = table_of(HASHES.read_text())
HOW_TO_RENEW = "after adding calls run `python tests/bits/machines.py --write`"


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_finds_the_bits_of_the_table(name: str) -> None:
    machine = MACHINES[name]
    text = run(machine, build(machine))
    found = re.search(r"^levels (.*)$", text, flags=re.M)
    assert found is not None and tuple(found[1].split()) == machine.levels
    wrong = differences(text, TABLE)
    assert not wrong, f"{len(wrong)} differences on {name}:\n" + "\n".join(wrong[:40])


def test_the_table_has_every_call() -> None:
    calls = {line for path in CALLS for line in path.read_text().splitlines()}
    missing = sorted(calls - TABLE.keys())
    assert not missing, f"{HOW_TO_RENEW}; not in the table: {missing[:20]}"
    assert not TABLE.keys() - calls, f"{HOW_TO_RENEW}; the table has calls that no longer exist"


def test_every_operator_has_bits_in_the_table() -> None:
    listed = (FOLDER.parents[1] / "csrc" / "kernels" / "ops.inc.h").read_text()
    with_bits = {call.split(" ", 1)[0] for call, types in TABLE.items() if types}
    missing = set(re.findall(r'"([a-z_]+::[^"]+)"', listed)) - with_bits
    assert not missing, f"add calls of these to tests/bits/calls.txt: {sorted(missing)}"
