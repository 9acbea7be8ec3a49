"""Scripts that upstream and this package run alike: each sets `result` to values that JSON knows.

A script imports from `executorch`; for this package the name is replaced. Upstream runs all scripts
of a test module in one process of its own virtual environment.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from support.paths import UPSTREAM_PYTHON

_RUN_ALL = """
import json, sys, traceback
results = {}
for name, script in json.load(sys.stdin).items():
    namespace = {}
    try:
        exec(script, namespace)
        results[name] = namespace["result"]
    except BaseException:
        results[name] = {"upstream failed": traceback.format_exc()}
print("\\n" + json.dumps(results))
"""
TIMEOUT_S = 600


def _upstream_results(scripts: Mapping[str, str]) -> dict[str, Any]:
    """The results of all scripts by name, each as JSON gives it back."""
    assert UPSTREAM_PYTHON.exists(), f"{UPSTREAM_PYTHON} is missing: run `make test`"
    run = subprocess.run(
        [str(UPSTREAM_PYTHON), "-c", _RUN_ALL],
        input=json.dumps(dict(scripts)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    results: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return results


def _our_result(script: str) -> Any:
    """The result of a script with the package renamed, as JSON gives it back."""
    namespace: dict[str, Any] = {}
    exec(re.sub(r"\b(from|import) executorch\b", r"\1 executorch_py", script), namespace)
    return json.loads(json.dumps(namespace["result"]))


def _assert_same(script: str, theirs: Any) -> None:
    """Run a script here, and compare the entries of its result with those of upstream's."""
    failed = isinstance(theirs, dict) and theirs.get("upstream failed")
    assert not failed, failed
    ours = _our_result(script)
    assert len(ours) == len(theirs)
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == other, f"entry {i} of the script's result"


class SameScripts(dict[str, str]):
    """Scripts of a test module, by name."""

    @cached_property
    def _theirs(self) -> dict[str, Any]:
        return _upstream_results(self)

    def check(self, name: str) -> None:
        """Run one here, and compare its result with upstream's."""
        _assert_same(self[name], self._theirs[name])
