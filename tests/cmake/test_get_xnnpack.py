"""get_xnnpack.py: named prefixes and sources, the cache, and errors without XNNPACK.

The tests reach no network: sources are small stand-ins, and apt is a script of the test.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "csrc" / "cmake" / "get_xnnpack.py"
CMAKE = Path(sys.executable).parent / "cmake"
HEADERS = ("xnnpack.h", "pthreadpool.h", "cpuinfo.h")
ARCHIVES = ("XNNPACK", "microkernels-prod", "cpuinfo")

# A CMake project with XNNPACK's library targets, all empty.
STAND_IN = """
cmake_minimum_required(VERSION 3.24)
project(stand_in C)
foreach(name PTHREADPOOL CPUINFO FXDIV)
  if(NOT EXISTS ${${name}_SOURCE_DIR}/CMakeLists.txt)
    message(FATAL_ERROR "${name}_SOURCE_DIR leads nowhere")
  endif()
endforeach()
foreach(name XNNPACK microkernels-prod cpuinfo)
  add_library(${name} STATIC some.c)
  install(TARGETS ${name})
endforeach()
install(FILES include/xnnpack.h DESTINATION include)
"""


def load() -> ModuleType:
    sys.path.insert(0, str(SCRIPT.parent))  # of xnnpack_sources
    spec = importlib.util.spec_from_file_location("get_xnnpack", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["get_xnnpack"] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


get_xnnpack = load()
xnnpack_sources = get_xnnpack.xnnpack_sources
Ask = Callable[..., tuple[int, dict[str, object]]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run get_xnnpack with these variables and an empty cache; the exit code and the output."""

    def asked(**named: str | Path) -> tuple[int, dict[str, object]]:
        env = {"XNNPACK_CACHE_DIR": str(tmp_path / "cache"), "XNNPACK_JOBS": "1"}
        env |= {name: str(value) for name, value in named.items()}
        code = get_xnnpack.main(["--cmake", str(CMAKE)], env)
        return code, json.loads(capsys.readouterr().out)

    return asked


def make_prefix(prefix: Path, suffix: str = ".a") -> Path:
    (prefix / "include").mkdir(parents=True)
    (prefix / "lib" / "pkgconfig").mkdir(parents=True)
    for header in HEADERS:
        (prefix / "include" / header).touch()
    for name in ARCHIVES:
        (prefix / "lib" / f"lib{name}{suffix}").touch()
    (prefix / "lib" / "pkgconfig" / "xnnpack.pc").write_text("Name: xnnpack\nVersion: 1.2.3\n")
    return prefix


def make_trees(folder: Path) -> dict[str, Path]:
    """Source trees of the four packages, and the variables that name them."""
    for package in xnnpack_sources.PACKAGES:
        tree = folder / package
        (tree / "include").mkdir(parents=True)
        (tree / "test").mkdir()
        (tree / "test" / "large.c").write_text("not built, not unpacked")
        (tree / "CMakeLists.txt").write_text(STAND_IN)
        (tree / "some.c").write_text("int some;\n")
        (tree / "LICENSE").write_text(f"{package} may be used\n")
        (tree / "include" / f"{package}.h").write_text("")
    for patch in xnnpack_sources.PATCHES:
        path = folder / "xnnpack" / patch.file
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.write(patch.lines)
    return {f"{p.upper()}_SOURCE_DIR": folder / p for p in xnnpack_sources.PACKAGES}


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Limit PATH to these programs and the compilers."""
    folder.mkdir()
    for name in ("cc", "c++"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    for name, text in scripts.items():
        script = folder / name.replace("_", "-")
        script.write_text(f"#!/bin/sh\n{text}")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


# ---- a named prefix


def test_a_named_prefix_is_used_unchanged(ask: Ask, tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "prefix")
    code, found = ask(XNNPACK_DIR=prefix)
    assert code == 0
    assert found["version"] == "1.2.3"
    assert found["include"] == str(prefix / "include")
    assert found["archives"] == [str(prefix / "lib" / f"lib{name}.a") for name in ARCHIVES]
    assert not (tmp_path / "cache").exists()


def test_a_named_prefix_that_is_not_there_is_an_error(ask: Ask, tmp_path: Path) -> None:
    code, found = ask(XNNPACK_DIR=tmp_path / "nowhere")
    assert code == 1
    assert found["reason"] == (
        f"XNNPACK_DIR cannot be used: {tmp_path / 'nowhere'} has no include/xnnpack.h"
    )


def test_a_named_prefix_with_shared_libraries_is_an_error(ask: Ask, tmp_path: Path) -> None:
    code, found = ask(XNNPACK_DIR=make_prefix(tmp_path / "prefix", ".so"))
    assert code == 1
    assert "expected a static archive libXNNPACK.a, got the shared library" in str(found["reason"])


# ---- the cache


def test_an_earlier_build_is_found_at_once(ask: Ask, tmp_path: Path) -> None:
    env = {"XNNPACK_CACHE_DIR": str(tmp_path / "cache")}
    key = get_xnnpack.cache_key(xnnpack_sources.Settings.read(env))
    prefix = make_prefix(tmp_path / "cache" / f"xnnpack-{key}")
    (prefix / ".complete").touch()
    begin = time.perf_counter()
    code, found = ask()
    assert code == 0 and found["include"] == str(prefix / "include")
    assert time.perf_counter() - begin < 5


def test_a_prefix_that_was_not_completed_is_not_used(ask: Ask, tmp_path: Path) -> None:
    env = {"XNNPACK_CACHE_DIR": str(tmp_path / "cache")}
    key = get_xnnpack.cache_key(xnnpack_sources.Settings.read(env))
    make_prefix(tmp_path / "cache" / f"xnnpack-{key}")
    assert ask(XNNPACK_OFFLINE="1")[0] == 3


def test_without_a_home_the_cache_is_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xnnpack_sources.tempfile, "tempdir", str(tmp_path))
    cache = xnnpack_sources.Settings.read({}).cache
    assert cache == tmp_path / f"executorch_py-{os.getuid()}"
    home = xnnpack_sources.Settings.read({"HOME": str(tmp_path)}).cache
    assert home == tmp_path / ".cache" / "executorch_py"


# ---- building


def test_named_trees_are_built_once(ask: Ask, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees")
    code, found = ask(**trees)
    assert code == 0, found
    (prefix,) = (tmp_path / "cache").glob("xnnpack-*")
    assert found["archives"] == [str(prefix / "lib" / f"lib{name}.a") for name in ARCHIVES]
    assert found["version"] == "0.0~source-tree"
    for package in xnnpack_sources.PACKAGES:
        text = (Path(str(found["licenses"])) / package / "LICENSE").read_text()
        assert text == f"{package} may be used\n"
    left = {path.name for path in (tmp_path / "cache").iterdir()}
    assert left == {prefix.name, "lock", "build.log"}
    (tmp_path / "trees" / "xnnpack" / "CMakeLists.txt").write_text("message(FATAL_ERROR again)")
    assert ask(**trees) == (code, found)


def test_tarballs_with_the_right_hash_are_unpacked_without_tests(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_trees(tmp_path / "trees")
    pins = []
    for i, package in enumerate(xnnpack_sources.PACKAGES):
        pin = xnnpack_sources.Tarball(package, "1", "")
        with tarfile.open(tmp_path / pin.name, "w:xz") as archive:  # with a top folder or without
            archive.add(tmp_path / "trees" / package, f"{package}-1" if i % 2 else ".")
        hashed = xnnpack_sources.sha256_of(tmp_path / pin.name)
        pins.append(xnnpack_sources.Tarball(package, "1", hashed))
    monkeypatch.setattr(xnnpack_sources, "TARBALLS", tuple(pins))
    code, found = ask(XNNPACK_TARBALLS=tmp_path, XNNPACK_OFFLINE="1")
    assert code == 0, found
    sources = xnnpack_sources.Sources(
        xnnpack_sources.Settings.read({"XNNPACK_TARBALLS": str(tmp_path)})
    )
    for package in xnnpack_sources.PACKAGES:
        tree = sources.unpack(package, tmp_path / "src")
        assert (tree / "some.c").is_file() and not (tree / "test" / "large.c").exists()
    for patch in xnnpack_sources.PATCHES:
        assert patch.replacement in (tmp_path / "src" / "xnnpack" / patch.file).read_text()


def test_sources_without_the_lines_of_a_patch_are_refused(tmp_path: Path) -> None:
    make_trees(tmp_path)
    for patch in xnnpack_sources.PATCHES:
        (tmp_path / "xnnpack" / patch.file).write_text(patch.replacement)
    with pytest.raises(
        xnnpack_sources.Unusable, match="extra quantization parameters once, got 0 times"
    ):
        xnnpack_sources.patch_sources(tmp_path / "xnnpack")


def test_a_source_folder_without_sources_is_an_error(ask: Ask, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees")
    code, found = ask(**{**trees, "CPUINFO_SOURCE_DIR": tmp_path / "trees" / "cpuinfo" / "include"})
    assert code == 1
    assert "expected a source tree of cpuinfo with CMakeLists.txt, got" in str(found["reason"])


def test_a_build_that_fails_shows_its_log_and_leaves_no_prefix(ask: Ask, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees")
    (tmp_path / "trees" / "xnnpack" / "some.c").write_text("#error not today\n")
    code, found = ask(**trees)
    assert code == 1
    assert "#error not today" in str(found["reason"])
    assert f"the whole log is {tmp_path / 'cache' / 'build.log'}" in str(found["reason"])
    assert not list((tmp_path / "cache").glob("xnnpack-*"))
    assert not list((tmp_path / "cache").glob("build-*"))


def test_without_a_cpp_compiler_the_build_goes_on_without(ask: Ask, tmp_path: Path) -> None:
    code, found = ask(**make_trees(tmp_path / "trees"), CXX="no-such-compiler")
    assert code == 3
    assert "needs the compiler `no-such-compiler`" in str(found["reason"])
    assert "apt-get install g++" in str(found["reason"])


# ---- errors without XNNPACK


def test_offline_names_missing_sources_and_variables(ask: Ask) -> None:
    code, found = ask(XNNPACK_OFFLINE="1")
    reason = str(found["reason"])
    assert code == 3
    assert reason.startswith(
        "no sources for xnnpack, pthreadpool, cpuinfo, fxdiv (XNNPACK_OFFLINE is set). "
    )
    for name in ("XNNPACK_DIR", "XNNPACK_SOURCE_DIR", "XNNPACK_TARBALLS"):
        assert name in reason


def test_a_machine_without_apt_says_so(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(tmp_path / "bin", monkeypatch)
    code, found = ask()
    assert code == 3
    assert "(there is no apt-get here)" in str(found["reason"])


def test_another_distribution_says_so(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(tmp_path / "bin", monkeypatch, apt_get="exit 1", apt_cache="exit 1")
    code, found = ask(XNNPACK_APT_KEYRING=tmp_path / "no.gpg")
    assert code == 3
    assert f"(there is no Debian keyring {tmp_path / 'no.gpg'})" in str(found["reason"])


def test_a_tarball_with_another_hash_is_not_used(ask: Ask, tmp_path: Path) -> None:
    tarball = tmp_path / xnnpack_sources.TARBALLS[0].name
    tarball.write_bytes(b"something else")
    code, found = ask(XNNPACK_TARBALLS=tmp_path, XNNPACK_OFFLINE="1")
    assert code == 3
    reason = str(found["reason"])
    assert f"{tarball}: expected SHA-256 90bde2ca" in reason
    assert f", got {xnnpack_sources.sha256_of(tarball)}" in reason


# A stand-in for apt-get: names a mirror, reads its index and downloads a file.
APT_GET = """case "$*" in
*indextargets*) echo "http://mirror.invalid/debian/ trixie"
                echo "http://mirror.invalid/debian-security/ trixie-security";;
*--print-uris*) exit 1;;
*update*) exit {update};;
*source*) echo "what the mirror sent" > {name};;
esac
"""


def test_a_mirror_that_cannot_be_read_is_named(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt_get = APT_GET.format(update=100, name="none")
    put_on_path(tmp_path / "bin", monkeypatch, apt_get=apt_get, apt_cache="exit 1")
    (tmp_path / "keys.gpg").touch()
    code, found = ask(XNNPACK_APT_KEYRING=tmp_path / "keys.gpg", XNNPACK_APT_SUITES="one two")
    assert code == 3
    assert (
        "(suite one cannot be read from http://mirror.invalid/debian/; "
        "suite two cannot be read from http://mirror.invalid/debian/)"
    ) in str(found["reason"])


@pytest.mark.parametrize("is_right", [True, False], ids=["right hash", "wrong hash"])
def test_a_download_is_kept_only_with_the_right_hash(
    is_right: bool, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = tmp_path / "sent"
    sent.write_text("what the mirror sent\n")
    pin = xnnpack_sources.Tarball(
        "xnnpack", "1", xnnpack_sources.sha256_of(sent) if is_right else "0" * 64
    )
    monkeypatch.setattr(xnnpack_sources, "TARBALLS", (pin,))
    put_on_path(
        tmp_path / "bin",
        monkeypatch,
        apt_get=APT_GET.format(update=0, name=pin.name),
        apt_cache=f'printf "Package: xnnpack\\nVersion: 1-2\\nChecksums:\\n {pin.sha256} 20\\n"',
    )
    (tmp_path / "keys.gpg").touch()
    code, found = ask(XNNPACK_APT_KEYRING=tmp_path / "keys.gpg", XNNPACK_APT_SUITES="one")
    assert code == 3
    assert (tmp_path / "cache" / "tarballs" / pin.name).exists() == is_right
    missing = "pthreadpool, cpuinfo, fxdiv"
    assert f"no sources for {missing if is_right else 'xnnpack, ' + missing} (" in str(
        found["reason"]
    )
    assert ("xnnpack cannot be fetched from suite one" in str(found["reason"])) == (not is_right)


# ---- CMake


def configure(build: Path, *settings: str, **named: str | Path) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("XNNPACK_")}
    env |= {"XNNPACK_CACHE_DIR": str(build.parent / "cache")}
    env |= {name: str(value) for name, value in named.items()}
    ninja = f"-DCMAKE_MAKE_PROGRAM={Path(sys.executable).parent / 'ninja'}"
    command: list[str | Path] = [
        CMAKE,
        "-S",
        ROOT / "csrc",
        "-B",
        build,
        "-G",
        "Ninja",
        ninja,
        *settings,
    ]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def test_cmake_goes_on_without_and_says_so_once(tmp_path: Path) -> None:
    first = configure(tmp_path / "build", XNNPACK_OFFLINE="1")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("Building without the XNNPACK delegate: no sources for xnnpack") == 1
    second = configure(tmp_path / "build", XNNPACK_OFFLINE="1")
    assert second.returncode == 0 and "XNNPACK" not in second.stdout + second.stderr
    again = configure(tmp_path / "build", "-UET_XNNPACK_REFUSED", XNNPACK_OFFLINE="1")
    assert again.stdout.count("Building without the XNNPACK delegate") == 1
    # Another name was set: get_xnnpack runs again.
    third = configure(tmp_path / "build", XNNPACK_DIR=tmp_path / "nowhere")
    assert third.returncode != 0 and "XNNPACK_DIR cannot be used" in third.stderr


def test_cmake_stops_where_xnnpack_was_demanded(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", "-DET_XNNPACK=ON", "-DXNNPACK_OFFLINE=1")
    assert done.returncode != 0
    assert "no sources for xnnpack" in done.stderr and "ET_XNNPACK=OFF builds" in done.stderr


def test_cmake_does_not_look_where_xnnpack_was_refused(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", "-DET_XNNPACK=OFF", f"-DXNNPACK_DIR={tmp_path}")
    assert done.returncode == 0 and "XNNPACK" not in done.stdout


def test_cmake_refuses_a_prefix_that_does_not_link(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "prefix")
    (prefix / "include" / "xnnpack.h").write_text("#error of another time\n")
    done = configure(tmp_path / "build", f"-DXNNPACK_DIR={prefix}")
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert (
        f"The XNNPACK of {prefix / 'include'} cannot be used: expected the interface of 2024-11"
        in said
    )
    assert "of another time" in said
