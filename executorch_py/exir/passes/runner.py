"""Pipeline runner: a pipeline is a list of steps, each of which makes a pass from the settings.

Checks (checks.py) are enabled by `checked_pipeline()`, for the code inside, or by the environment
variable EXECUTORCH_PY_CHECK_PASSES=1, for the process. The error then names the pass that broke its
contract or the rules of its dialect. The choice is made once per program; without checks the passes
run and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram

from executorch_py.exir.passes.base import Dialect, Facts, Pass

# EdgeCompileConfig or ExecutorchBackendConfig, which are floors above.
Settings = Any

CHECK_VARIABLE = "EXECUTORCH_PY_CHECK_PASSES"
_checked: ContextVar[bool] = ContextVar("checked_pipeline", default=False)


@dataclass(frozen=True)
class Step:
    """One entry of a pipeline: the class of its pass, or how settings make it, and when it runs."""

    make: type[Pass] | Callable[[Settings], Pass]
    when: Callable[[Settings], bool] = lambda settings: True


def wanted_passes(steps: Iterable[Step], settings: Settings) -> list[Pass]:
    """The passes of a pipeline under these settings, in order."""
    return [
        step.make() if isinstance(step.make, type) else step.make(settings)
        for step in steps
        if step.when(settings)
    ]


def run_pipeline(
    steps: Iterable[Step],
    program: ExportedProgram,
    settings: Settings,
    given: Facts,
    dialects: Sequence[Dialect] | None = None,
) -> None:
    """Run the steps that the settings enable on a program of which the facts `given` hold.

    The rules of the first dialect whose facts hold are checked; by default the dialect is that of
    the program's own verifier, if the program is in it.
    """
    passes = wanted_passes(steps, settings)
    if not is_checked():
        run_unchecked(passes, program)
        return
    from executorch_py.exir.passes.checks import run_checked

    run_checked(passes, program, given, dialects)


def run_unchecked(passes: Sequence[Pass], program: ExportedProgram) -> None:
    for one in passes:
        one.run(program)


def is_checked() -> bool:
    """Whether pipelines that start now check every pass."""
    return _checked.get() or os.environ.get(CHECK_VARIABLE, "0") not in ("", "0")


@contextmanager
def checked_pipeline(enabled: bool = True) -> Iterator[None]:
    """Let pipelines inside check after every pass: the truth of `modified`, and all facts."""
    token = _checked.set(enabled)
    try:
        yield
    finally:
        _checked.reset(token)
