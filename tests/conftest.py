"""C tests as pytest items, and fixtures that all tests share.

A file tests/c/test_<module>.c is built by CMake (preset from ET_TEST_PRESET, asan-ubsan by default)
into an executable that lists its tests with --list and runs one given by name. Collection builds
them once, under a lock, so that parallel workers do not build twice.
"""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.c_build import PRESET, build_c, find_tool
from support.paths import ROOT

if TYPE_CHECKING:
    from support.upstream_peer import Upstream

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers are as many as the processors
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Files whose tests one worker runs, since their shared fixtures take long. They start first, so
# that no worker runs them alone at the end.
TOGETHER = {
    "tests/backends/xnnpack/partition/test_partitioner.py",
    "tests/backends/xnnpack/payload/test_payloads.py",
    "tests/backends/xnnpack/payload/test_upstream_payloads.py",
    "tests/docs/test_site.py",
    "tests/extension/llm/test_byte_model.py",
    "tests/extension/llm/test_real_weights.py",
    "tests/test_notebooks.py",
    "tests/test_operator_coverage.py",
    "tests/toolchain/test_op_library.py",
    "tests/toolchain/test_selected_build.py",
}
# Folders whose tests export with checks of every pass (executorch_py/exir/passes/checks.py).
CHECKED = {"backends", "exir", "models", "quantizer"}
CHECK_VARIABLE = "EXECUTORCH_PY_CHECK_PASSES"
# Older processors, which tests/c/processor.c emulates by hiding instruction sets, and the C tests
# that run on each: those of operators whose kernel depends on the processor.
PROCESSORS = ("sse2", "zen", "avx2", "avxvnni", "avx512", "avx512vnni")
CHOOSING = {
    "tests/c/test_xnnpack_conv_stem.c",
    "tests/c/test_xnnpack_dwconv_f32.c",
    "tests/c/test_xnnpack_dwconv_qs8.c",
    "tests/c/test_xnnpack_fuse_lut.c",
    "tests/c/test_xnnpack_gemm_residual.c",
    "tests/c/test_xnnpack_memory_bound.c",
    "tests/c/test_xnnpack_reshape.c",
    "tests/c/test_xnnpack_rowwise.c",
    "tests/c/test_xnnpack_weights_cache.c",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Scheduler with the groups TOGETHER for --dist loadgroup, whose marks change node ids."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByModule(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if path in TOGETHER else nodeid

    return ByModule(config, log)


def emulator() -> list[str]:
    """The emulator of a preset that builds for another machine."""
    command = {"aarch64": "qemu-aarch64", "armhf": "qemu-arm"}.get(PRESET)
    return [find_tool(command)] if command else []


class CTestFailure(Exception):
    """A C test that did not pass; its text is what the test printed."""


class CTestItem(pytest.Item):
    """A test of an executable, on the processor at the end of its name, else on this one."""

    def __init__(self, *, executable: Path, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.executable = executable

    def runtest(self) -> None:
        test, _, processor = self.name.rstrip("]").partition("[")
        done = subprocess.run(
            [*emulator(), self.executable, test],
            capture_output=True,
            text=True,
            timeout=600,
            cwd=ROOT,
            env={**os.environ, "ET_TEST_PROCESSOR": processor} if processor else None,
        )
        if done.returncode != 0:
            raise CTestFailure(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.stem}::{self.name}"


class CTestFile(pytest.File):
    def collect(self) -> Iterator[CTestItem]:
        executable = build_c() / self.path.stem
        if self.path.stem.startswith("test_xnnpack_") and not executable.exists():
            pytest.skip(f"{PRESET} was configured without XNNPACK", allow_module_level=True)
        listing = subprocess.run(
            [*emulator(), executable, "--list"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        is_x86 = platform.machine() in ("x86_64", "AMD64")
        path = self.path.relative_to(ROOT).as_posix()
        lesser = PROCESSORS if is_x86 and path in CHOOSING else ()
        for name in listing.stdout.split():
            for variant in (name, *(f"{name}[{processor}]" for processor in lesser)):
                yield CTestItem.from_parent(self, name=variant, executable=executable)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """In tests and fixtures of CHECKED, every pass of every export answers for its contract.

    A value given in the environment stays: 0 shows how long the tests take without checks.
    """
    wanted = any(ROOT / "tests" / folder in item.path.parents for folder in CHECKED)
    if not wanted or CHECK_VARIABLE in os.environ:
        return (yield)
    os.environ[CHECK_VARIABLE] = "1"
    try:
        return (yield)
    finally:
        del os.environ[CHECK_VARIABLE]


def pytest_collectstart() -> None:
    _seed()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _seed()


def _seed() -> None:
    """Seeds torch and others, so that random numbers of a test depend on no other test."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".c" and file_path.name.startswith("test_"):
        return CTestFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    """One process of upstream's for each test process, started on its first request."""
    from support.upstream_peer import Upstream

    peer = Upstream()
    yield peer
    peer.stop()


@pytest.fixture(scope="session")
def c_build() -> Path:
    """Directory with et_run, the C examples and the fuzz replayers, built with sanitizers."""
    return build_c()
