"""The table of docs/models.md lists the architectures of its script, each refusal with a reason."""

from __future__ import annotations

from support.paths import ROOT

from models.models_table import architectures
from models.table_columns import COLUMNS, cell
from models.table_reasons import reason_of
from models.table_text import rows_of

ROWS = list(rows_of((ROOT / "docs" / "models.md").read_text()))


def test_the_page_lists_architectures_that_the_script_knows() -> None:
    names = [name for name, *_ in ROWS]
    assert len(names) == len(set(names))
    assert set(names) <= set(architectures())


def test_a_cell_is_ok_or_its_row_says_why_not() -> None:
    for name, _, _, *states, reason in ROWS:
        assert set(states) <= {"ok", "refused", "differs", "crashed"}, name
        assert (reason == "") == (set(states) == {"ok"}), name


def test_a_row_is_measured_in_every_column() -> None:
    subject = architectures()["SIREN"]
    for column in COLUMNS:
        found = cell(subject, column)
        assert found["status"] == "ok", found
        assert found["nodes"] >= 5


def test_an_error_that_no_pattern_matches_is_its_own_reason() -> None:
    found = {"stage": "lower", "error": "ValueError: expected a | b, got c\nmore"}
    assert reason_of(found) == "lower: ValueError: expected a / b, got c"
