"""Finds XNNPACK's static libraries for CMake, or builds them once in a cache.

csrc/cmake/xnnpack.cmake runs this script; by hand: `python csrc/cmake/get_xnnpack.py`. Nothing of
XNNPACK is in this repository, nothing is installed, root is not required. Places, in this order
(all of them environment variables, or CMake variables of the same name):

  XNNPACK_DIR          an installed prefix with static archives: used as it is
  the cache            the build of an earlier call, in XNNPACK_CACHE_DIR or ~/.cache/executorch_py
  XNNPACK_SOURCE_DIR   a source tree; PTHREADPOOL_SOURCE_DIR, CPUINFO_SOURCE_DIR and
                       FXDIV_SOURCE_DIR likewise, each in place of its tarball
  XNNPACK_TARBALLS     a folder with the four tarballs of xnnpack_sources.py
  apt                  the machine's own Debian mirror, by packages' signatures and our hashes

XNNPACK_OFFLINE=1 keeps it from the network; XNNPACK_APT_SUITES and XNNPACK_APT_KEYRING name the
places in Debian; XNNPACK_JOBS, CC and CXX concern the build. XNNPACK_SANITIZE=address,undefined (or
thread) builds another, instrumented copy for our own builds with the same sanitizers.
Standard output is one JSON object: the libraries, or the reason why there are none. Exit: 0 found,
3 not available here, 1 something that was named is unusable or the build failed. Python's standard
library is enough.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import xnnpack_sources
from xnnpack_sources import (
    PACKAGES,
    Settings,
    Sources,
    Unavailable,
    Unusable,
    log,
    output_of,
)

RECIPE = 5  # part of the cache's key: raise it when the way of building changes


CMAKE_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
    "-DCMAKE_C_VISIBILITY_PRESET=hidden",
    "-DCMAKE_CXX_VISIBILITY_PRESET=hidden",
    "-DCMAKE_VISIBILITY_INLINES_HIDDEN=ON",
    "-DCMAKE_INSTALL_LIBDIR=lib",
    "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DXNNPACK_LIBRARY_TYPE=static",
    "-DXNNPACK_BUILD_TESTS=OFF",
    "-DXNNPACK_BUILD_BENCHMARKS=OFF",
    "-DXNNPACK_BUILD_ALL_MICROKERNELS=OFF",
    "-DXNNPACK_USE_SYSTEM_LIBS=OFF",
    "-DXNNPACK_ENABLE_KLEIDIAI=OFF",  # downloaded on Arm otherwise
    "-DCPUINFO_LIBRARY_TYPE=static",
    "-DCPUINFO_BUILD_PKG_CONFIG=OFF",
    "-DPTHREADPOOL_LIBRARY_TYPE=static",
)


@dataclass(frozen=True)
class Found:
    """Libraries for CMake: headers, static archives in link order, a version, licences."""

    version: str
    include: Path
    archives: tuple[Path, ...]
    licenses: Path | None

    def as_json(self) -> str:
        """The answer on standard output."""
        licenses = "" if self.licenses is None else str(self.licenses)
        archives = [str(archive) for archive in self.archives]
        facts = {"version": self.version, "include": str(self.include)}
        return json.dumps({**facts, "archives": archives, "licenses": licenses})


# ---- an installed prefix


def inspect_prefix(prefix: Path) -> Found:
    """The headers and archives of an installed prefix, or Unusable with the missing file."""
    include = prefix / "include"
    for header in ("xnnpack.h", "pthreadpool.h"):
        if not (include / header).is_file():
            raise Unusable(f"{prefix} has no include/{header}")
    library = first_library(prefix, "XNNPACK", "xnnpack")
    archives = [library]
    # Releases divide their code differently; a missing library is part of another one.
    for names in (
        ("microkernels-prod", "xnnpack-microkernels-prod"),
        ("kleidiai",),
        ("cpuinfo",),
    ):
        with contextlib.suppress(Unusable):
            archives.append(first_library(prefix, *names))
    licenses = prefix / "share" / "licenses"
    return Found(
        version=version_of(prefix),
        include=include,
        archives=tuple(archives),
        licenses=licenses if licenses.is_dir() else None,
    )


def first_library(prefix: Path, *names: str) -> Path:
    """The static archive with one of these names; a shared library instead is an error."""
    folders = [prefix / "lib", prefix / "lib64", *sorted((prefix / "lib").glob("*-linux-gnu*"))]
    paths = [folder / f"lib{name}.a" for folder in folders for name in names]
    for path in paths:
        if path.is_file():
            return path
    for path in paths:
        shared = [path.with_suffix(suffix) for suffix in (".so", ".dylib")]
        for other in shared:
            if other.exists():
                raise Unusable(
                    f"expected a static archive {path.name}, got the shared library {other}, whose "
                    "thread pool calls may reach another library in the same process"
                )
    raise Unusable(f"{prefix} has no lib/lib{names[0]}.a")


def version_of(prefix: Path) -> str:
    """The version in the prefix's pkg-config file."""
    for description in sorted(prefix.glob("**/pkgconfig/*xnnpack.pc")):
        match = re.search(r"^Version:\s*(\S+)", description.read_text(errors="replace"), re.M)
        if match:
            return match[1]
    return "of unknown version"


# ---- building


@dataclass(frozen=True)
class Tools:
    """Programs that build."""

    cmake: str
    ninja: str | None


def compiler_version(compiler: str) -> str:
    """The first line of a compiler's --version, or Unavailable if it does not run."""
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True)
    except OSError as error:
        raise Unavailable(
            f"building XNNPACK needs the compiler `{compiler}`, which does not run "
            f"({error.strerror}); Debian: apt-get install g++"
        ) from None
    return (done.stdout.splitlines() or [""])[0]


def tree_identity(package: str, tree: Path) -> str:
    """The commit and path of a named tree, which distinguish its states."""
    commit = output_of(["git", "-C", str(tree), "rev-parse", "HEAD"]) if tree.is_dir() else ""
    return f"{package} {tree} {commit.strip()}"


def sanitizer_flags(settings: Settings) -> list[str]:
    """Flags of a build with sanitizers; XNNPACK's kernels load unaligned data on purpose."""
    if not settings.sanitize:
        return []
    flags = f"-fsanitize={settings.sanitize} -fno-sanitize=alignment -fno-sanitize-recover=all"
    flags += " -fno-omit-frame-pointer -g1"
    languages = [f"-DCMAKE_{language}_FLAGS={flags}" for language in ("C", "CXX")]
    return [*languages, "-DCMAKE_C_FLAGS_RELEASE=-O1", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]


def cache_key(settings: Settings) -> str:
    """The hash of everything that changes the built libraries, one line each."""
    lines = [
        str(RECIPE),
        *(f"{tarball.name} {tarball.sha256}" for tarball in xnnpack_sources.TARBALLS),
        *map(str, xnnpack_sources.PATCHES),
        *CMAKE_FLAGS,
        *sanitizer_flags(settings),
        *(tree_identity(*named) for named in sorted(settings.trees.items())),
        compiler_version(settings.cc),
        f"{platform.system()} {platform.machine()}",
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


@contextlib.contextmanager
def cache_lock(cache: Path) -> Iterator[None]:
    """The lock of the cache: one builder at a time; the next one finds its result."""
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_or_build(settings: Settings, tools: Tools) -> Found:
    """The named prefix, the cached one, or a new one in the cache."""
    if settings.prefix is not None:
        try:
            return inspect_prefix(settings.prefix)
        except Unusable as error:
            raise Unusable(f"XNNPACK_DIR cannot be used: {error}") from None
    try:
        settings.cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"XNNPACK's cache {settings.cache} cannot be created: {error}") from None
    prefix = settings.cache / f"xnnpack-{cache_key(settings)}"
    if not (prefix / ".complete").is_file():
        with cache_lock(settings.cache):
            if not (prefix / ".complete").is_file():
                sources = Sources(settings)
                sources.require()
                build_prefix(sources, tools, prefix)
    return inspect_prefix(prefix)


def build_prefix(sources: Sources, tools: Tools, prefix: Path) -> None:
    """Builds in a scratch folder and moves the result: a killed build leaves no partial prefix."""
    settings = sources.settings
    compiler_version(settings.cxx)  # of XNNPACK's own build
    with tempfile.TemporaryDirectory(prefix="build-", dir=settings.cache) as name:
        scratch = Path(name)
        trees = {package: sources.unpack(package, scratch / "src") for package in PACKAGES}
        made = scratch / "prefix"
        log("building XNNPACK, once for this compiler (about three minutes on two cores)")
        run_logged(
            settings.cache / "build.log",
            [
                tools.cmake,
                "-S",
                str(trees["xnnpack"]),
                "-B",
                str(scratch / "build"),
                *(["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools.ninja}"] if tools.ninja else []),
                *CMAKE_FLAGS,
                *sanitizer_flags(settings),
                f"-DCMAKE_C_COMPILER={settings.cc}",
                f"-DCMAKE_CXX_COMPILER={settings.cxx}",
                f"-DCMAKE_INSTALL_PREFIX={made}",
                *(f"-D{p.upper()}_SOURCE_DIR={trees[p]}" for p in PACKAGES if p != "xnnpack"),
            ],
            [tools.cmake, "--build", str(scratch / "build"), "--parallel", settings.jobs],
            [tools.cmake, "--install", str(scratch / "build")],
        )
        complete_prefix(made, trees, settings)
        inspect_prefix(made)
        if prefix.exists():
            shutil.rmtree(prefix)
        made.rename(prefix)


def run_logged(log_file: Path, *commands: list[str]) -> None:
    """Runs commands with their output in a file; the error of a failed command has its tail."""
    with log_file.open("w") as file:
        for command in commands:
            file.write(" ".join(command) + "\n")
            file.flush()
            if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode != 0:
                tail = "\n".join(log_file.read_text(errors="replace").splitlines()[-30:])
                raise Unusable(f"XNNPACK does not build here; the whole log is {log_file}:\n{tail}")


def complete_prefix(made: Path, trees: Mapping[str, Path], settings: Settings) -> None:
    """Adds files that XNNPACK's own install leaves out: headers, licences, a pkg-config file."""
    for package, header in (("xnnpack", "xnnpack.h"), ("pthreadpool", "pthreadpool.h")):
        source = trees[package] / "include" / header
        if not (made / "include" / header).exists():
            shutil.copy(source, made / "include" / header)
    # Internal headers, for csrc/backends/xnnpack/tuned/xnn_private.h.
    internal = trees["xnnpack"] / "src" / "xnnpack"
    if internal.is_dir():
        shutil.copytree(internal, made / "include" / "xnnpack")
    for package, tree in trees.items():
        folder = made / "share" / "licenses" / package
        folder.mkdir(parents=True)
        shutil.copy(tree / "LICENSE", folder)
    strip = shutil.which("strip")
    if strip is not None and not settings.sanitize:  # sanitizers report lines
        for archive in sorted((made / "lib").glob("*.a")):
            subprocess.run([strip, "-S", str(archive)], check=False)
    version = xnnpack_sources.TARBALLS[0].version
    if "xnnpack" in settings.trees:
        commit = output_of(["git", "-C", str(trees["xnnpack"]), "rev-parse", "--short", "HEAD"])
        version = f"0.0~{commit.strip() or 'source-tree'}"
    (made / "lib" / "pkgconfig").mkdir(exist_ok=True)
    (made / "lib" / "pkgconfig" / "xnnpack.pc").write_text(
        "prefix=${pcfiledir}/../..\n"
        "Name: xnnpack\n"
        "Description: XNNPACK and cpuinfo, static; the program gives it pthreadpool's functions\n"
        f"Version: {version}\n"
        "Cflags: -I${prefix}/include\n"
        "Libs: -L${prefix}/lib -lXNNPACK -lmicrokernels-prod -lcpuinfo -lpthread -lm\n"
    )
    (made / ".complete").write_text(f"recipe {RECIPE}\n" + "\n".join(CMAKE_FLAGS) + "\n")


def main(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """Prints the answer; returns the exit code."""
    parser = argparse.ArgumentParser(description="Finds or builds XNNPACK as static libraries.")
    parser.add_argument("--cmake", default=shutil.which("cmake") or "cmake", help="to build with")
    parser.add_argument("--ninja", default=shutil.which("ninja"), help="to build with")
    given = parser.parse_args(arguments)
    try:
        found = find_or_build(Settings.read(env), Tools(given.cmake, given.ninja))
    except (Unavailable, Unusable) as error:
        print(json.dumps({"reason": str(error)}))
        return 3 if isinstance(error, Unavailable) else 1
    print(found.as_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
