"""The script that runs upstream's suites: tests of the wheel run on this package, with reasons."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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


def test_a_defect_is_printed_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (("*::test_y", "DEFECT: the sum is wrong."), ("*::test_z", "another order of results"))
    monkeypatch.setattr(suites, "DIFFERENCES", lines)
    results = [
        suites.Outcome(f"exir/test_x.py::{name}", "failed", "") for name in ("test_y", "test_z")
    ]
    assert suites.show("exir", results, set()) == (0, 1)
    assert "exir/test_x.py::test_y\n    DEFECT: the sum is wrong." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [
        ("DEFECT: wrong.", 1, "0 failures without a reason, 1 defects"),
        ("another order", 0, "0 failures without a reason, 0 defects"),
        (None, 1, "1 failures without a reason, 0 defects"),
    ],
)
def test_the_exit_code_tells_of_defects_and_of_failures_without_a_reason(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reason: str | None,
    code: int,
    said: str,
) -> None:
    def no_run(_paths: Any, _wheel: Path, report: Path, _jobs: int, _flows: Any) -> None:
        report.touch()

    monkeypatch.setattr(suites, "DIFFERENCES", (("*", reason),) if reason else ())
    monkeypatch.setattr(suites, "run_suite", no_run)
    failed = suites.Outcome("exir/test_x.py::test_y", "failed", "")
    monkeypatch.setattr(suites, "outcomes", lambda *_: [failed])
    monkeypatch.setattr(sys, "argv", ["upstream_suites.py", "exir"])
    assert suites.main() == code
    assert said in capsys.readouterr().out


def test_a_reason_of_some_runs_may_have_no_failure() -> None:
    names = [pattern for pattern, _ in (*suites.DIFFERENCES, *suites.MESSAGES)]
    assert set(names) >= suites.OF_CHANCE
    assert not suites.OF_CHANCE & set(suites.unused_reasons(set()))


def test_a_reason_that_no_failure_used_is_reported_of_both_tables() -> None:
    used: set[str] = set()
    text = "RuntimeError: this version records no ETDump"
    suites.reason_of(suites.Outcome("exir/test_x.py::test_y", "failed", text), used)
    unused = suites.unused_reasons(used)
    assert "this version records no ETDump" not in unused
    n_expected = len(suites.DIFFERENCES) + len(suites.MESSAGES) - len(suites.OF_CHANCE)
    assert len(unused) == n_expected - 1


WHEEL = "../.venv/lib/site-packages/executorch/exir/test_x.py:7: in test_y\n    x._buffers\n"
OURS = "../executorch_py/exir/cord.py:9: in __init__\n    self._buffers\n"


@pytest.mark.parametrize(
    ("text", "is_explained"),
    [
        (WHEEL + "E   AttributeError: 'Cord' object has no attribute '_buffers'", True),
        (WHEEL + OURS + "E   AttributeError: 'Cord' object has no attribute '_buffers'", False),
        (WHEEL + OURS + "E   TypeError: Cord._add() got an unexpected keyword argument", False),
        (
            "exir/x.py:7: in test_y\n    self.assertIn('is not', str(caught.exception))\n"
            "E   AssertionError: 'is not' not found in 'expected x'",
            True,
        ),
        (
            "exir/x.py:7: in test_y\n    self.assertIn('add', gm.code)\n"
            "E   AssertionError: 'add' not found in 'def forward'",
            False,
        ),
        ("ModuleNotFoundError: No module named 'executorch.exir.no_such_module'", True),
        ("ModuleNotFoundError: No module named 'executorch.exir.passes'", False),
    ],
)
def test_broad_reasons_do_not_explain_failures_of_this_package(
    text: str, is_explained: bool
) -> None:
    outcome = suites.Outcome("exir/x.py::test_y", "failed", text)
    reason = suites.reason_of(outcome, set(), suites.wheel_folder(None))
    assert (reason is not None) == is_explained


STATIC = "xnnpack_static_int8_per_tensor"


def test_a_flow_picks_the_tests_of_a_suite(tmp_path: Path) -> None:
    wheel = suites.wheel_folder(None)
    report = tmp_path / "report.xml"
    paths = ("backends/test/suite/operators/test_square.py",)
    suites.run_suite(paths, wheel, report, jobs=0, flows=(STATIC,))
    results = list(suites.outcomes(report, wheel))
    assert {o.test.rpartition("[")[2].rstrip("]") for o in results} == {
        STATIC,
        f"{STATIC}-float32",
    }
    assert {o.status for o in results} == {"passed", "skipped"}  # upstream skips infinities
    assert suites.flows_without_tests(results, (STATIC,)) == []
    assert suites.flows_without_tests(results, ("xnnpack", STATIC)) == ["xnnpack"]


def test_a_flow_without_tests_is_a_failure_without_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passed = suites.Outcome("backends/test_x.py::test_y[xnnpack-float32]", "passed", "")
    monkeypatch.setattr(suites, "run_suite", lambda *_: None)
    monkeypatch.setattr(suites, "outcomes", lambda *_: [passed])
    monkeypatch.setattr(sys, "argv", ["x", "operators", "--flow", "xnnpack", "portable"])
    assert suites.main() == 1
    said = capsys.readouterr().out
    assert "no test ran in the flow portable" in said
    assert "1 failures without a reason, 0 defects" in said


def test_all_flows_of_a_suite_run_unless_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(suites, "run_suite", lambda *given: ran.append(given[-1]))
    monkeypatch.setattr(suites, "outcomes", lambda *_: [])
    for names in (["operators"], ["operators", "--flow", "portable"], ["--flow", STATIC], ["exir"]):
        monkeypatch.setattr(sys, "argv", ["x", *names])
        suites.main()
    assert ran == [suites.FLOWS["operators"], ("portable",), (STATIC,), ()]


def test_a_flow_of_a_suite_that_has_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        suites.parse(["exir", "--flow", "portable"])
    assert "expected --flow with operators, got exir" in capsys.readouterr().err
