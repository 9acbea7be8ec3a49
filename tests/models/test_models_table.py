"""The table of docs/models.md lists the architectures of its script, each refusal with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pytest import MonkeyPatch
from support.paths import ROOT

from models import table_text
from models.models_table import architectures
from models.table_columns import COLUMNS, cell
from models.table_entry import batch_of
from models.table_reasons import reason_of
from models.table_text import HEADING, markdown, not_measured, rows_of

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


def test_a_new_table_keeps_the_text_above_it(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    introduction = PAGE.partition(HEADING)[0]
    assert markdown({}, {}).startswith(introduction + HEADING)
    empty = tmp_path / "models.md"
    empty.write_text("")
    monkeypatch.setattr(table_text, "PAGE", empty)
    with pytest.raises(SystemExit, match="expected text above '## Architectures', got none"):
        markdown({}, {})


def test_a_row_is_measured_in_every_column() -> None:
    subject = architectures()["SIREN"]
    for column in COLUMNS:
        found = cell(subject, column)
        assert found["status"] == "ok", found
        assert found["nodes"] >= 5


def test_a_batch_has_different_samples_of_the_same_model() -> None:
    subject = architectures()["GRU translator"]
    samples = subject.batched(3).inputs()
    assert [x.shape[0] for x in samples] == [3, 3]
    assert all(len(x.unique(dim=0)) == 3 for x in samples)
    assert [x[:1].tolist() for x in samples] == [x.tolist() for x in subject.inputs()]
    assert cell(subject.batched(2), "xnnpack")["status"] == "ok"


def test_inputs_that_are_a_batch_already_stay_as_they_are() -> None:
    x = torch.randn(4, 3)
    assert batch_of(x, 2) is x
    pairs = torch.tensor([[[1, 2], [3, 4], [5, 6]]])
    assert batch_of(pairs, 2).shape == (2, 3, 2)
    assert {tuple(p) for p in batch_of(pairs, 2)[1].tolist()} == {(1, 2), (3, 4), (5, 6)}


def test_a_data_dependent_model_is_refused_by_name_of_the_function() -> None:
    error = "GuardOnDataDependentSymNode: u0\nCaused by: (a/boxes.py:103 in batched_nms)\nmore"
    found = reason_of({"stage": "export", "error": error})
    assert found.startswith("torch.export: `batched_nms` in boxes.py takes a branch")


def test_an_error_that_no_pattern_matches_is_its_own_reason() -> None:
    found = {"stage": "lower", "error": "ValueError: expected a | b, got c\nmore"}
    assert reason_of(found) == "lower: ValueError: expected a / b, got c"
