"""Upstream's own test suites, run from its wheel against this package.

    python tests/drop_in/upstream_suites.py [SUITE...] [--flow NAME...] [--wheel FOLDER] [--list]
                                            [--jobs N]

Each suite is one run of pytest in which `executorch` is executorch_py (support/upstream_alias.py).
The output has the tests that passed and failed, and for each failure the reason from the tables of
`upstream_differences.py`. The exit code is 1 if a failure has no reason, or if it is a DEFECT, and
in a run of all suites if a reason has no failure.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from upstream_differences import (
    DIFFERENCES,
    MESSAGES,
    OF_CHANCE,
    OF_MISSING_MODULES,
    OF_TESTS,
)

ROOT = Path(__file__).resolve().parents[2]

# Suite → folders and files below the wheel's package. Those of other backends need compilers.
SUITES: dict[str, tuple[str, ...]] = {
    "exir": (
        "exir/tests",
        "exir/emit/test",
        "exir/program/test",
        "exir/verification/test",
    ),
    # Tests that define operators of the namespace that "exir" defines, which a process does once.
    "dialects": ("exir/dialects",),
    "operator": ("exir/operator/test",),
    "serialize": ("exir/_serialize/test", "extension/flat_tensor/test"),
    "backend": ("exir/backend/test",),
    "export": ("export/tests",),
    "runtime": ("runtime/test", "extension/pybindings/test", "kernels/quantized/test"),
    "devtools": ("devtools/bundled_program", "devtools/backend_debug/tests"),
    "training": ("extension/training",),
    "llm_ops": ("extension/llm/custom_ops",),
    "transforms": ("backends/transforms/test",),
    "xnnpack": (
        "backends/xnnpack/test/test_xnnpack_partitioner.py",
        "backends/xnnpack/test/test_xnnpack_utils.py",
        "backends/xnnpack/test/fragments",
        "backends/xnnpack/test/passes",
        "backends/xnnpack/test/quantizer",
        "backends/xnnpack/test/recipes",
        "backends/xnnpack/test/serialization",
    ),
    "xnnpack_ops": ("backends/xnnpack/test/ops",),
    "operators": ("backends/test/suite/operators",),
    "harness": ("backends/test/harness/tests", "backends/test/suite/tests"),
    "portable": (
        "kernels/portable/test/op_upsample_bilinear2d_test.py",
        "kernels/portable/test/op_upsample_bilinear2d_aa_test.py",
        "kernels/portable/test/op_upsample_nearest2d_test.py",
        "kernels/portable/test/op_grid_sampler_2d_test.py",
        "kernels/portable/test/test_grid_sampler_2d_executorch.py",
    ),
}

# Suite whose tests run once in each flow, a backend with a way to quantize → its flows. Flows of
# backends for other hardware are left out: every test of theirs ends at the same refused name.
FLOWS: dict[str, tuple[str, ...]] = {
    "operators": (
        "portable",
        "xnnpack",
        "xnnpack_dynamic_int8_per_channel",
        "xnnpack_static_int8_per_channel",
        "xnnpack_static_int8_per_tensor",
    ),
}


class Outcome(NamedTuple):
    test: str  # "exir/tests/test_passes.py::TestPasses::test_x"
    status: str  # passed, failed, skipped
    message: str


def wheel_folder(given: Path | None) -> Path:
    usual = ROOT.glob(".venv-upstream/lib/python*/site-packages/executorch")
    folder = given or next(usual, None)
    if folder is None or not (folder / "exir").is_dir():
        raise SystemExit(f"expected upstream's package, got {folder}: `make test` makes it")
    return folder


def run_suite(
    paths: tuple[str, ...], wheel: Path, report: Path, jobs: int, flows: tuple[str, ...] = ()
) -> None:
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support")))
    environment = dict(os.environ, PYTHONPATH=path, UPSTREAM_WHEEL=str(wheel), OMP_NUM_THREADS="1")
    places = [str(wheel / path) for path in paths if (wheel / path).exists()]
    options = (
        "-p upstream_alias -p no:cacheprovider --import-mode=importlib -q -W ignore --tb=short"
    )
    options += " --continue-on-collection-errors --no-header -o junit_logging=no"
    command = [sys.executable, "-m", "pytest", *options.split(), "-n", str(jobs)]
    # The root gives tests their names, and settings of this project do not apply there.
    command += ["-c", os.devnull, f"--rootdir={wheel.parent}", f"--junitxml={report}", *places]
    if flows:
        command += ["-m", " or ".join(f"flow_{flow}" for flow in flows)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if not report.exists():
        raise SystemExit(f"pytest failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def outcomes(report: Path, wheel: Path) -> Iterator[Outcome]:
    for case in ElementTree.parse(report).iter("testcase"):
        status, message = "passed", ""
        for kind in ("failure", "error", "skipped"):
            if (found := case.find(kind)) is not None:
                status = "skipped" if kind == "skipped" else "failed"
                message = f"{found.get('message', '')}\n{found.text or ''}"
        yield Outcome(name_of(case, wheel), status, message)


def name_of(case: ElementTree.Element, wheel: Path) -> str:
    """The name of a test as pytest prints it, with its file below the wheel's package."""
    dotted = case.get("classname", "") or case.get("name", "")
    marker = f"{wheel.name}."
    below = dotted.rpartition(marker)[2].split(".")
    for n in range(len(below), 0, -1):
        file = wheel.joinpath(*below[:n]).with_suffix(".py")
        if file.is_file():
            parts = [file.relative_to(wheel).as_posix(), *below[n:]]
            return "::".join([*parts, case.get("name", "")] if case.get("classname") else parts)
    return f"{dotted}::{case.get('name')}"


def flows_without_tests(results: list[Outcome], flows: tuple[str, ...]) -> list[str]:
    """The flows that no test ran in: upstream's suite leaves out a flow that it cannot import."""
    tests = [outcome.test for outcome in results]
    return [flow for flow in flows if not any(re.search(rf"\[{flow}[-\]]", t) for t in tests)]


def reason_of(outcome: Outcome, used: set[str], wheel: Path | None = None) -> str | None:
    """The first reason that explains a failure; its pattern is added to `used`."""
    for pattern, reason in DIFFERENCES:
        if fnmatch.fnmatchcase(outcome.test, pattern):
            used.add(pattern)
            return reason
    for pattern, reason in MESSAGES:
        found = re.search(pattern, outcome.message)
        if found is None or (reason in OF_TESTS and not failed_itself(outcome)):
            continue
        if reason == OF_MISSING_MODULES and is_in_wheel(found[1], wheel):
            continue
        used.add(pattern)
        return found[1] if reason == "a refused name" else reason
    return None


def failed_itself(outcome: Outcome) -> bool:
    """Whether the last frame of a failure is one of upstream's tests; True if it has no frames."""
    frames = re.findall(r"^(\S+\.py):\d+: in ", outcome.message, re.MULTILINE)
    file = outcome.test.partition("::")[0]
    return not frames or frames[-1].endswith(file) or "site-packages/executorch/" in frames[-1]


def is_in_wheel(module: str, wheel: Path | None) -> bool:
    """Whether upstream's package has a module, so that this one lacks it."""
    if wheel is None:
        return False
    path = wheel.joinpath(*module.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def is_defect(reason: str | None) -> bool:
    return reason is not None and reason.startswith("DEFECT")


def show(
    suite: str, results: list[Outcome], used: set[str], wheel: Path | None = None
) -> tuple[int, int]:
    """Prints a suite; the numbers of failures without a reason, and of defects."""
    counts = Counter(outcome.status for outcome in results)
    print(f"{suite}: {', '.join(f'{counts[s]} {s}' for s in ('passed', 'failed', 'skipped'))}")
    unexplained = defects = 0
    for outcome in results:
        if outcome.status != "failed":
            continue
        reason = reason_of(outcome, used, wheel)
        unexplained += reason is None
        defects += is_defect(reason)
        first = outcome.message.strip().splitlines()[0][:200] if outcome.message.strip() else ""
        print(f"  {outcome.test}\n    {reason or f'NO REASON: {first}'}")
    return unexplained, defects


def unused_reasons(used: set[str]) -> list[str]:
    """Patterns of both tables that no failure used, after a run of all suites."""
    expected = [pattern for pattern, _ in (*DIFFERENCES, *MESSAGES) if pattern not in OF_CHANCE]
    return [pattern for pattern in expected if pattern not in used]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="default: all")
    parser.add_argument(
        "--flow",
        nargs="+",
        choices=sorted({flow for flows in FLOWS.values() for flow in flows}),
        default=[],
        help=f"flows of {' '.join(FLOWS)}, default: all",
    )
    parser.add_argument("--wheel", type=Path, help="folder of upstream's package")
    parser.add_argument("--jobs", type=int, default=2, help="processes of a suite")
    parser.add_argument("--list", action="store_true", help="list the suites and flows")
    options = parser.parse_args(arguments)
    if options.flow and set(options.suites) - set(FLOWS):
        parser.error(f"expected --flow with {' '.join(FLOWS)}, got {' '.join(options.suites)}")
    return options


def check_suite(
    suite: str, flows: tuple[str, ...], options: argparse.Namespace, wheel: Path, used: set[str]
) -> tuple[int, int]:
    """Runs and prints a suite; the numbers of failures without a reason, and of defects."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run_suite(SUITES[suite], wheel, report, options.jobs, flows)
        results = list(outcomes(report, wheel))
    unexplained, defects = show(suite, results, used, wheel)
    missing = flows_without_tests(results, flows)
    for flow in missing:
        print(f"  NO REASON: no test ran in the flow {flow}")
    return unexplained + len(missing), defects


def main() -> int:
    options = parse(sys.argv[1:])
    if options.list:
        for name, paths in SUITES.items():
            print(f"{name}: {' '.join(paths)}")
        for name, flows in FLOWS.items():
            print(f"{name} --flow {' '.join(flows)}")
        return 0
    wheel = wheel_folder(options.wheel)
    used: set[str] = set()
    unexplained = defects = 0
    everything = not options.suites and not options.flow
    for suite in options.suites or (FLOWS if options.flow else SUITES):
        flows = tuple(options.flow) or FLOWS.get(suite, ())
        counts = check_suite(suite, flows, options, wheel, used)
        unexplained, defects = unexplained + counts[0], defects + counts[1]
    unused = unused_reasons(used) if everything else []
    for pattern in unused:
        print(f"a reason without a failure: {pattern}")
    print(f"{unexplained} failures without a reason, {defects} defects")
    return 1 if unexplained or defects or unused else 0


if __name__ == "__main__":
    sys.exit(main())
