"""Builds of csrc and of the C programs of the tests, with CMake."""

from __future__ import annotations

import fcntl
import functools
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from support.paths import ROOT

PRESET = os.environ.get("ET_TEST_PRESET", "asan-ubsan")


def find_tool(name: str) -> str:
    """The tool that setup.py takes: the one beside this Python, or the one on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} not found: run `make test`, which installs it into .venv")
    return found


def configuration(preset: str) -> tuple[Path, list[str]]:
    """The build directory of a preset, and its CMake arguments.

    The preset release compiles with the flags of setup.py, so its tests are built beside the
    extension, from the libraries there.
    """
    tag = f"{sys.implementation.cache_tag}-{platform.system().lower()}-{platform.machine()}"
    extension = ROOT / "build" / f"py-{tag}"
    if preset == "release" and (extension / "CMakeCache.txt").exists():
        return extension, ["-B", str(extension), "-DCMAKE_BUILD_TYPE=Release", "-DET_TESTS=ON"]
    return ROOT / "build" / preset, ["--preset", preset]


def run_tool(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT / "csrc", capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


@functools.cache
def configure(preset: str, *settings: str) -> Path:
    """Configures a preset, once for each process, under the lock of its build directory."""
    build, configured = configuration(preset)
    ninja = f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}"
    run_tool(find_tool("cmake"), *configured, "-S", str(ROOT / "csrc"), ninja, *settings)
    return build


@functools.cache
def build_c(preset: str = PRESET, target: str = "all", *settings: str) -> Path:
    """Builds csrc and the C tests with one CMake preset; returns the build directory."""
    build, _ = configuration(preset)
    build.mkdir(parents=True, exist_ok=True)
    with (build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        configure(preset, *settings)
        run_tool(find_tool("cmake"), "--build", str(build), "--target", target)
    return build
