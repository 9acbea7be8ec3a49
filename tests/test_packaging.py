"""Contents of the distributions that setup.py makes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support import c_build

ROOT = Path(__file__).resolve().parent.parent


def setup(*arguments: str | Path) -> None:
    """Run commands of setup.py without leaving files in the checkout."""
    command = [sys.executable, "setup.py", "-q", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_source_distribution_can_be_built_from(tmp_path: Path) -> None:
    setup("egg_info", "-e", tmp_path, "sdist", "-d", tmp_path)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files", "csrc", "executorch_py", "pyproject.toml", "setup.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    missing = {name for name in tracked if (ROOT / name).exists()} - names
    assert {name for name in missing if not name.endswith(".md")} == set()


def test_setup_and_tests_of_c_take_one_cmake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two programs would configure the build tree that they share in turns, each time anew.
    for name in ("cmake", "ninja"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("setuptools.setup", lambda **arguments: None)
    setup_py = runpy.run_path(str(ROOT / "setup.py"))
    for name in ("cmake", "ninja"):
        assert setup_py["find_tool"](name) == c_build.find_tool(name)


def test_an_installed_package_has_the_sources_that_users_build(tmp_path: Path) -> None:
    setup("egg_info", "-e", tmp_path, "build_py", "-d", tmp_path)
    sources = tmp_path / "executorch_py" / "csrc"
    for name in (
        "runtime/et.h",
        "kernels/ops.inc.h",
        "kernels/micro/isa_flags.txt",
        "backends/backend_registry.c",
        "tools/et_run.c",
    ):
        assert (sources / name).is_file(), name
    # The delegate needs XNNPACK, which build-kernels does not build.
    assert not (sources / "backends" / "xnnpack").exists()
    assert not (sources / "bindings" / "module.c").exists()
