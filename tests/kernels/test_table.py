"""The operator table: one test for each operator and dtype runs all their rows in every mode."""

from __future__ import annotations

from collections import defaultdict

import pytest
from kernels.table import every_row
from kernels.table.row import Row

GROUPS: dict[str, list[Row]] = defaultdict(list)
for _row in every_row():
    GROUPS[f"{_row.op}-{_row.dtype}"].append(_row)


@pytest.mark.parametrize("group", GROUPS)
def test_operator_equals_eager(group: str) -> None:
    failures = []
    for row in GROUPS[group]:
        try:
            row.check()
        except Exception as error:  # every row of the group is reported, whatever it met
            words = " ".join(str(error).split())[:400]
            failures.append(f"{row}\n    {type(error).__name__}: {words}")
    n = len(GROUPS[group])
    assert not failures, f"{len(failures)} of {n} rows differ:\n" + "\n".join(failures)


def test_the_table_has_at_least_8000_rows() -> None:
    n = sum(len(rows) for rows in GROUPS.values())
    print(f"{n} rows of {len({row.op for rows in GROUPS.values() for row in rows})} operators")
    assert n >= 8000
