"""Builds the C extension with CMake and Ninja and places it in the package.

csrc/CMakeLists.txt describes how C is compiled. This file only calls CMake, and copies the
extension and the C sources that users build against. Builds are incremental: the tree build/py-* is
kept between calls. Two environment variables are read: CMAKE_ARGS (extra configure arguments) and
EXECUTORCH_PY_BUILD_DIR (another build tree).
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def find_tool(name: str) -> str:
    """The tool beside this Python (a venv's or pip's build environment), or the one on PATH."""
    # PATH second, so that a build tree is always configured by one CMake: another one configures
    # it anew. pip's build environments have no tools beside their Python.
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise SystemExit(f"building executorch_py needs `{name}`: pip install {name}")
    return found


def default_build_dir() -> Path:
    tag = f"{sys.implementation.cache_tag}-{platform.system().lower()}-{platform.machine()}"
    return ROOT / "build" / f"py-{tag}"


def numpy_include() -> str:
    import numpy

    return numpy.get_include()


class CMakeBuild(build_ext):
    """Configures and builds the target `_C`, then copies it where setuptools wants it."""

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        build = Path(os.environ.get("EXECUTORCH_PY_BUILD_DIR") or default_build_dir())
        build.mkdir(parents=True, exist_ok=True)
        cmake = find_tool("cmake")
        configure = [
            cmake,
            "-S",
            str(ROOT / "csrc"),
            "-B",
            str(build),
            "-G",
            "Ninja",
            # Passed each time: pip's build environments change, the build tree stays.
            f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}",
            f"-DCMAKE_BUILD_TYPE={'Debug' if self.debug else 'Release'}",
            *([] if self.inplace else ["-UET_XNNPACK_REFUSED"]),  # an installation tries again
            "-DET_PYTHON=ON",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DPython_NumPy_INCLUDE_DIR={numpy_include()}",
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        ]
        subprocess.run(configure, check=True)
        jobs = str(self.parallel or os.cpu_count() or 1)
        make = [cmake, "--build", str(build), "--target", "_C", "--parallel", jobs]
        subprocess.run(make, check=True)
        built = build / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
        if not built.exists():
            raise SystemExit(f"CMake finished without making {built.name} in {build}")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Replaced by rename: a process that runs the old module keeps its mapping intact.
        staged = target.with_name(target.name + ".new")
        shutil.copy2(built, staged)
        os.replace(staged, target)
        if not self.inplace and (build / "licenses").is_dir():  # of the libraries linked into it
            shutil.copytree(build / "licenses", target.parent / "licenses", dirs_exist_ok=True)


class BuildWithSources(build_py):
    """Adds the sources that build-ops and build-kernels compile; editable installs have them.

    All of csrc but the extension itself and the XNNPACK delegate, which those commands build
    without: headers, runtime, kernels, the other delegates, the command et_run.
    """

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source, target in self._sources():
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target), preserve_mode=False)

    def _sources(self) -> list[tuple[Path, Path]]:
        package = Path(self.build_lib) / "executorch_py" / "csrc"
        files = [*(ROOT / "csrc").rglob("*.[ch]"), ROOT / "csrc/kernels/micro/isa_flags.txt"]
        relative = [p.relative_to(ROOT / "csrc") for p in sorted(files)]
        kept = [
            path
            for path in relative
            if path.parts[:2] != ("backends", "xnnpack")
            and path.parts[0] != "cmake"
            and (path.parts[0] != "bindings" or path.stem == "et_run")
        ]
        return [(ROOT / "csrc" / path, package / path) for path in kept]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        made = [] if self.editable_mode else [str(target) for _, target in self._sources()]
        return [*super().get_outputs(include_bytecode), *made]


# Files that a source distribution needs beside the packages.
SOURCES = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "csrc").rglob("*")) if p.is_file()]

setup(
    ext_modules=[Extension("executorch_py._C", sources=[], depends=SOURCES)],
    cmdclass={"build_ext": CMakeBuild, "build_py": BuildWithSources},
)
