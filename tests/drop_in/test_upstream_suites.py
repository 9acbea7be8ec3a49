"""The script that runs upstream's suites: tests of the wheel run on this package, with reasons."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import upstream_suites as suites


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[suites.Outcome]:
    report = tmp_path_factory.mktemp("report") / "report.xml"
    wheel = suites.wheel_folder(None)
    suites.run_suite(("exir/_serialize/test/test_cord.py",), wheel, report, jobs=0)
    return list(suites.outcomes(report, wheel))


def test_tests_of_the_wheel_run_on_this_package(outcomes: list[suites.Outcome]) -> None:
    statuses = {outcome.test.rpartition("::")[2]: outcome.status for outcome in outcomes}
    assert statuses["test_cord_write_to_file"] == "passed"
    assert all(o.test.startswith("exir/_serialize/test/test_cord.py::TestCord::") for o in outcomes)


def test_a_test_of_private_attributes_fails_with_that_reason(
    outcomes: list[suites.Outcome],
) -> None:
    (failed,) = (o for o in outcomes if o.test.endswith("::test_cord_init"))
    assert failed.status == "failed"
    assert suites.reason_of(failed, set()) == "it uses a private attribute of upstream's"


def test_a_failure_that_no_line_explains_has_no_reason() -> None:
    outcome = suites.Outcome("exir/tests/test_x.py::T::test_y", "failed", "AssertionError: 1 != 2")
    assert suites.reason_of(outcome, set()) is None


def test_a_name_that_is_refused_is_explained_by_the_refusal() -> None:
    text = (
        "upstream_alias.NotHere: executorch_py has no executorch.exir.x.y: executorch_py.exir.x.y "
        "is not part of this package: a private helper. Use z."
    )
    outcome = suites.Outcome("exir/tests/test_x.py::T::test_y", "failed", text)
    reason = suites.reason_of(outcome, set())
    assert reason is not None and reason.endswith("a private helper. Use z.")


def test_a_defect_is_printed_and_counts_as_a_failure_without_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (("*::test_y", "DEFECT: the sum is wrong."), ("*::test_z", "another order of results"))
    monkeypatch.setattr(suites, "DIFFERENCES", lines)
    results = [
        suites.Outcome(f"exir/test_x.py::{name}", "failed", "") for name in ("test_y", "test_z")
    ]
    assert suites.show("exir", results, set()) == 1
    assert "exir/test_x.py::test_y\n    DEFECT: the sum is wrong." in capsys.readouterr().out
