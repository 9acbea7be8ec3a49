"""The table of docs/models.md lists the architectures of its script, each refusal with a reason."""

from __future__ import annotations

from support.paths import ROOT

from models.models_table import architectures
from models.table_columns import COLUMNS, cell
from models.table_reasons import reason_of
from models.table_text import not_measured, rows_of

PAGE = (ROOT / "docs" / "models.md").read_text()
ROWS = list(rows_of(PAGE))


def test_the_page_lists_the_architectures_of_the_script() -> None:
    names = [name for name, *_ in ROWS]
    assert len(names) >= 120
    assert sorted([*names, *not_measured(PAGE)]) == sorted(architectures())


def test_the_page_has_every_kind_of_architecture() -> None:
    kinds = {kind for _, kind, *_ in ROWS}
    assert kinds >= {
        "audio",
        "detection",
        "recurrent",
        "segmentation",
        "state-space",
        "text",
        "vision",
        "vision-language",
    }


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


def test_a_data_dependent_model_is_refused_by_name_of_the_function() -> None:
    error = "GuardOnDataDependentSymNode: u0\nCaused by: (a/boxes.py:103 in batched_nms)\nmore"
    found = reason_of({"stage": "export", "error": error})
    assert found.startswith("torch.export: `batched_nms` in boxes.py takes a branch")


def test_an_error_that_no_pattern_matches_is_its_own_reason() -> None:
    found = {"stage": "lower", "error": "ValueError: expected a | b, got c\nmore"}
    assert reason_of(found) == "lower: ValueError: expected a / b, got c"
