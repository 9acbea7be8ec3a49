"""Gets XNNPACK as static libraries and tells CMake where they are.

csrc/cmake/xnnpack.cmake runs it while it configures; by hand: `python csrc/cmake/get_xnnpack.py`.
Nothing of XNNPACK is in this repository, nothing is installed, root is not needed. Looked at, in
this order (all of them environment variables, or CMake variables of the same name):

  XNNPACK_DIR          an installed prefix with static archives: used as it is
  the cache            what an earlier call built, in XNNPACK_CACHE_DIR or ~/.cache/executorch_py
  XNNPACK_SOURCE_DIR   a source tree; PTHREADPOOL_SOURCE_DIR, CPUINFO_SOURCE_DIR and
                       FXDIV_SOURCE_DIR likewise, each in place of its tarball
  XNNPACK_TARBALLS     a folder with the four tarballs named below
  apt                  the machine's own Debian mirror, by packages' signatures and the hashes here

XNNPACK_OFFLINE=1 keeps it from the network; XNNPACK_APT_SUITES and XNNPACK_APT_KEYRING say where in
Debian to look; XNNPACK_JOBS, CC and CXX concern the build. XNNPACK_SANITIZE=address,undefined (or
thread) builds another copy that is instrumented, for our own builds with the same sanitizers.
Standard output is one JSON object: what was found, or the reason why not. Exit: 0 found, 3 it
cannot be had here, 1 something that was named is unusable or the build failed. The standard library
is all it needs.
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
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RECIPE = 5  # part of the cache's key: raise it when the way of building changes


@dataclass(frozen=True)
class Tarball:
    """One release of a package as Debian keeps it: upstream's own files."""

    package: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.package}_{self.version}.orig.tar.xz"


PACKAGES = ("xnnpack", "pthreadpool", "cpuinfo", "fxdiv")

# Several of one package are equally good: the first that is found is taken. pthreadpool is needed
# for its header; its library is built with XNNPACK and not linked:
# csrc/backends/xnnpack/pthreadpool_shim.c stands in for it.
TARBALLS = (
    Tarball(
        "xnnpack",
        "0.0~git20241108.4ea82e5",
        "90bde2caef0f880f627bab0dc805a86c4b8070cd98e3243db3046ab3f3be1a99",
    ),
    Tarball(
        "pthreadpool",
        "0.0~git20240616.560c60d",
        "4cc3cbd933b28131d2a34edc54f76af9fb41bc490af5eae1a5bd3cd07ea90708",
    ),
    Tarball(
        "cpuinfo",
        "0.0~git20250327.39ea79a",
        "2a10028948f7f0663c56cc34405484391ee3d7ccdf09fe51d73897937b99d9d4",
    ),
    Tarball(
        "cpuinfo",
        "0.0~git20250905.877328f",
        "557ca404a3836b9f335a3a06b65ff9fe9dbaaefab7fb5c0185f53d9f33615a10",
    ),
    Tarball(
        "fxdiv",
        "0.0~git20200417.b408327",
        "7953482badaf4cb34026c3487c257b8e4ab2df061c019bd6fabbbc12ad52c44b",
    ),
)

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
    "-DXNNPACK_ENABLE_KLEIDIAI=OFF",  # else it downloads on Arm
    "-DCPUINFO_LIBRARY_TYPE=static",
    "-DCPUINFO_BUILD_PKG_CONFIG=OFF",
    "-DPTHREADPOOL_LIBRARY_TYPE=static",
)

HOW_TO_GET = (
    "set XNNPACK_DIR to an installed XNNPACK (static libraries), XNNPACK_SOURCE_DIR with "
    "PTHREADPOOL_SOURCE_DIR, CPUINFO_SOURCE_DIR and FXDIV_SOURCE_DIR to source trees, or "
    "XNNPACK_TARBALLS to a folder with " + ", ".join(tarball.name for tarball in TARBALLS)
)


class Unavailable(Exception):
    """XNNPACK cannot be had on this machine; the build can go on without it."""


class Unusable(Exception):
    """Something that was asked for is there and cannot be used."""


@dataclass(frozen=True)
class Found:
    """What CMake links: headers, static archives in link order, a version to show, licences."""

    version: str
    include: Path
    archives: tuple[Path, ...]
    licenses: Path | None

    def as_json(self) -> str:
        licenses = "" if self.licenses is None else str(self.licenses)
        archives = [str(archive) for archive in self.archives]
        facts = {"version": self.version, "include": str(self.include)}
        return json.dumps({**facts, "archives": archives, "licenses": licenses})


def say(text: str) -> None:
    print(f"xnnpack: {text}", file=sys.stderr, flush=True)


# ---- a prefix, whoever built it


def look_into(prefix: Path) -> Found:
    """The headers and archives of an installed prefix, or Unusable with what is not there."""
    include = prefix / "include"
    for header in ("xnnpack.h", "pthreadpool.h"):
        if not (include / header).is_file():
            raise Unusable(f"{prefix} has no include/{header}")
    library = first_library(prefix, "XNNPACK", "xnnpack")
    archives = [library]
    # Releases differ in what they keep apart; a library that is not there is not needed.
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
    """The static archive with one of these names; a shared library in its place is refused."""
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
                    f"{other} is a shared library; a static archive {path.name} is needed, so that "
                    "its thread pool calls cannot meet another library's in the same process"
                )
    raise Unusable(f"{prefix} has no lib/lib{names[0]}.a")


def version_of(prefix: Path) -> str:
    for description in sorted(prefix.glob("**/pkgconfig/*xnnpack.pc")):
        match = re.search(r"^Version:\s*(\S+)", description.read_text(errors="replace"), re.M)
        if match:
            return match[1]
    return "of unknown version"


# ---- where sources come from


@dataclass(frozen=True)
class Settings:
    """What the environment says, read once."""

    prefix: Path | None
    trees: Mapping[str, Path]
    tarballs: Path | None
    cache: Path
    offline: bool
    suites: tuple[str, ...]
    keyring: Path
    cc: str
    cxx: str
    jobs: str
    sanitize: str

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Settings:
        def path(name: str) -> Path | None:
            return Path(env[name]).expanduser().resolve() if env.get(name) else None

        named = {package: path(f"{package.upper()}_SOURCE_DIR") for package in PACKAGES}
        keyring = env.get("XNNPACK_APT_KEYRING") or (
            "/usr/share/keyrings/debian-archive-keyring.gpg"
        )
        return cls(
            prefix=path("XNNPACK_DIR"),
            trees={package: tree for package, tree in named.items() if tree is not None},
            tarballs=path("XNNPACK_TARBALLS"),
            cache=path("XNNPACK_CACHE_DIR") or default_cache(env),
            offline=env.get("XNNPACK_OFFLINE", "") not in ("", "0"),
            suites=tuple((env.get("XNNPACK_APT_SUITES") or "trixie sid").split()),
            keyring=Path(keyring),
            cc=env.get("CC") or "cc",
            cxx=env.get("CXX") or "c++",
            jobs=env.get("XNNPACK_JOBS") or str(os.cpu_count() or 1),
            sanitize=env.get("XNNPACK_SANITIZE") or "",
        )


def default_cache(env: Mapping[str, str]) -> Path:
    """The user's cache folder, or a folder of the user's own under the temporary one."""
    home = env.get("XDG_CACHE_HOME") or (f"{env['HOME']}/.cache" if env.get("HOME") else "")
    if home:
        cache = Path(home) / "executorch_py"
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            if os.access(cache, os.W_OK):
                return cache
    return Path(tempfile.gettempdir()) / f"executorch_py-{os.getuid()}"


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class Sources:
    """Finds each package as a tree that was named or as a tarball with the right hash."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.downloads = settings.cache / "tarballs"
        self._refused: dict[Path, str] = {}

    def tarball(self, package: str) -> Path | None:
        named = [self.settings.tarballs] if self.settings.tarballs is not None else []
        for folder in (*named, self.downloads):
            for tarball in TARBALLS:
                path = folder / tarball.name
                if tarball.package == package and path.is_file() and self._is_right(path, tarball):
                    return path
        return None

    def _is_right(self, path: Path, tarball: Tarball) -> bool:
        if path not in self._refused and (found := sha256_of(path)) != tarball.sha256:
            self._refused[path] = f"{path} has SHA-256 {found}, expected {tarball.sha256}: not used"
            say(self._refused[path])
        return path not in self._refused

    def missing(self) -> list[str]:
        trees = self.settings.trees
        return [name for name in PACKAGES if name not in trees and self.tarball(name) is None]

    def require(self) -> None:
        """Every package is at hand, or Unavailable says which is not and what to do."""
        if not self.missing():
            return
        reasons = [] if self.settings.offline else list(fetch_from_apt(self))
        missing = self.missing()
        if not missing:
            return
        if self.settings.offline:
            reasons = ["XNNPACK_OFFLINE is set"]
        why = "; ".join([*self._refused.values(), *reasons])
        raise Unavailable(f"no sources for {', '.join(missing)} ({why}). To have it, {HOW_TO_GET}.")

    def unpack(self, package: str, into: Path) -> Path:
        """The package's source tree: the one named, or its tarball unpacked."""
        if package in self.settings.trees:
            tree = self.settings.trees[package]
            if not (tree / "CMakeLists.txt").is_file():
                raise Unusable(
                    f"{package.upper()}_SOURCE_DIR={tree} is no source tree of {package}: "
                    "it has no CMakeLists.txt"
                )
            return tree
        path = self.tarball(package)
        assert path is not None, package
        folder = into / package
        with tarfile.open(path, "r:xz") as archive:
            # The hash vouches for the contents; tests are half of the files and are not built.
            wanted = [member for member in archive if "/test/" not in f"/{member.name}"]
            if hasattr(tarfile, "data_filter"):
                archive.extractall(folder, wanted, filter="data")
            else:
                archive.extractall(folder, wanted)
        tree = next(
            path for path in (folder, *folder.iterdir()) if (path / "CMakeLists.txt").is_file()
        )
        if package == "xnnpack":
            mend(tree)
        return tree


@dataclass(frozen=True)
class Mend:
    """A fault of the release, and the lines that take its place."""

    file: str
    fault: str  # as a message names it
    lines: str
    mended: str


MENDS = (
    # Kernels for groups of 4 bits with GFNI take 14 rows at once and read 13 scales beyond the last
    # row's, of which it fills 10: of 2, 3, 15, … rows the last would come out wrong.
    Mend(
        "include/xnnpack.h",
        "how many scales it fills beyond the last row's",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 10\n",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 15\n",
    ),
    # Memory in front of all that is live was never used again: ResNet-50 had 44 MB for the values
    # between its layers, where 7 are enough.
    Mend(
        "src/memory-planner.c",
        "where it plans values beside one other",
        "  if (num_mem_blocks == 1) {\n    return live_mem_blocks[0].end;\n  }\n\n",
        "",
    ),
    Mend(
        "src/memory-planner.c",
        "where it sorts the live blocks",
        " cmp_memory_block);\n",
        " cmp_memory_block);\n"
        "  if (live_mem_blocks[0].start >= to_alloc_size) {\n    return 0;\n  }\n",
    ),
    # Convolutions of other types ask the table for the function that packs their weights.
    Mend(
        "src/operators/convolution-nhwc.c",
        "how weights of f32 convolutions are packed",
        "    (xnn_pack_conv_goki_w_fn) xnn_pack_f32_conv_goki_w,\n",
        "    gemm_config->pack_igemm_goki != NULL\n"
        "        ? (xnn_pack_conv_goki_w_fn) gemm_config->pack_igemm_goki\n"
        "        : (xnn_pack_conv_goki_w_fn) xnn_pack_f32_conv_goki_w,\n",
    ),
)


def mend(tree: Path) -> None:
    """Puts MENDS into the sources, each once."""
    for change in MENDS:
        path = tree / change.file
        text = path.read_text()
        if text.count(change.lines) != 1:
            raise Unusable(f"{path} does not say {change.fault}")
        path.write_text(text.replace(change.lines, change.mended))


# ---- apt: the machine's own mirror, with a private state, so that neither root nor a change of
# the machine's package lists is needed. Only upstream's tarballs are asked for: they are what the
# hashes above name, and what mirrors keep most reliably.


def fetch_from_apt(sources: Sources) -> Iterator[str]:
    """Downloads what is missing; yields the reasons why something could not be had."""
    settings = sources.settings
    if shutil.which("apt-get") is None:
        yield "there is no apt-get here"
        return
    if not settings.keyring.is_file():
        yield f"there is no Debian keyring {settings.keyring}"
        return
    with tempfile.TemporaryDirectory(prefix="apt-", dir=settings.cache) as scratch:
        bases = list(mirrors(Path(scratch) / "none"))
        if not bases:
            yield "apt names no mirror"
        for number, (base, suite) in enumerate(
            (base, suite) for base in bases for suite in settings.suites
        ):
            if not sources.missing():
                return
            apt = Apt(Path(scratch) / str(number), base, suite, settings.keyring)
            say(f"reading the source index of Debian {suite}")
            if not apt.run("apt-get", "-q", "update"):
                yield f"suite {suite} cannot be read from {base}"
                continue
            for package in sources.missing():
                if not any(
                    apt.fetch(t, sources.downloads) for t in TARBALLS if t.package == package
                ):
                    yield f"{package} cannot be fetched from suite {suite}"


def mirrors(no_lists: Path) -> Iterator[str]:
    """The base addresses that apt is set up with; asked twice, as fresh machines have no lists."""
    index = [
        *("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)"),
        "Created-By: Packages",
    ]
    update = [
        *("apt-get", "-o", f"Dir::State::Lists={no_lists}", "-o", "Debug::NoLocking=1"),
        *("update", "--print-uris"),
    ]
    asked = output_of(index) + re.sub(
        r"^'(\S+/)dists/([^/]+)/InRelease'.*$", r"\1 \2", output_of(update), flags=re.M
    )
    seen = set()
    for line in asked.splitlines():
        base, _, release = line.strip().partition(" ")
        if not release or re.search(r"-(security|updates|backports)", release):
            continue
        if base.rstrip("/") not in seen:
            seen.add(base.rstrip("/"))
            yield base


def output_of(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else ""


class Apt:
    """apt with a state of its own for one suite of one mirror."""

    def __init__(self, root: Path, base: str, suite: str, keyring: Path) -> None:
        self.root = root
        for folder in ("lists/partial", "cache/archives/partial", "etc", "downloads"):
            (root / folder).mkdir(parents=True)
        (root / "etc" / "one.sources").write_text(
            f"Types: deb-src\nURIs: {base}\nSuites: {suite}\nComponents: main\n"
            f"Signed-By: {keyring}\n"
        )
        options = {
            "Dir::Etc::SourceList": root / "etc" / "one.sources",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::State": root,
            "Dir::State::Lists": root / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": root / "cache",
            "Debug::NoLocking": "1",
            "Acquire::Retries": "3",
            "Acquire::http::Timeout": "20",
            "Acquire::https::Timeout": "20",
            "Acquire::AllowInsecureRepositories": "0",
            "APT::Get::List-Cleanup": "0",
        }
        if os.getuid() == 0:  # apt would read as a user who may not enter these folders
            options["APT::Sandbox::User"] = "root"
        self.options = [part for k, v in options.items() for part in ("-o", f"{k}={v}")]

    def run(self, program: str, *arguments: str) -> bool:
        done = subprocess.run(
            [program, *self.options, *arguments],
            cwd=self.root / "downloads",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return done.returncode == 0

    def fetch(self, tarball: Tarball, into: Path) -> bool:
        """Downloads one tarball if the suite lists it with the hash that is expected."""
        listed = output_of(
            ["apt-cache", *self.options, "showsrc", "--only-source", tarball.package]
        )
        for record in listed.split("\n\n"):
            version = re.search(rf"^Version: ({re.escape(tarball.version)}-\S+)", record, re.M)
            if version is None or tarball.sha256 not in record:
                continue
            what = f"{tarball.package}={version[1]}"
            options = ("-q", "source", "--download-only", "--tar-only", "--only-source")
            got = self.root / "downloads" / tarball.name
            if not self.run("apt-get", *options, what) or not got.is_file():
                return False
            if sha256_of(got) != tarball.sha256:
                return False
            into.mkdir(parents=True, exist_ok=True)
            shutil.move(got, into / tarball.name)
            say(f"got {tarball.package} {tarball.version}")
            return True
        return False


# ---- building


@dataclass(frozen=True)
class Tools:
    cmake: str
    ninja: str | None


def compiler_line(compiler: str) -> str:
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True)
    except OSError as error:
        raise Unavailable(
            f"building XNNPACK needs the compiler `{compiler}`, which does not run "
            f"({error.strerror}); Debian: apt-get install g++"
        ) from None
    return (done.stdout.splitlines() or [""])[0]


def tree_identity(package: str, tree: Path) -> str:
    """What distinguishes one state of a named tree from another: its commit, else its path."""
    commit = output_of(["git", "-C", str(tree), "rev-parse", "HEAD"]) if tree.is_dir() else ""
    return f"{package} {tree} {commit.strip()}"


def instrumentation(settings: Settings) -> list[str]:
    """The flags of a build with sanitizers. Its kernels load what is not aligned on purpose."""
    if not settings.sanitize:
        return []
    flags = f"-fsanitize={settings.sanitize} -fno-sanitize=alignment -fno-sanitize-recover=all"
    flags += " -fno-omit-frame-pointer -g1"
    languages = [f"-DCMAKE_{language}_FLAGS={flags}" for language in ("C", "CXX")]
    return [*languages, "-DCMAKE_C_FLAGS_RELEASE=-O1", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]


def cache_key(settings: Settings) -> str:
    """One line for each thing that changes the built libraries, hashed."""
    lines = [
        str(RECIPE),
        *(f"{tarball.name} {tarball.sha256}" for tarball in TARBALLS),
        *CMAKE_FLAGS,
        *instrumentation(settings),
        *(tree_identity(*named) for named in sorted(settings.trees.items())),
        compiler_line(settings.cc),
        f"{platform.system()} {platform.machine()}",
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


@contextlib.contextmanager
def locked(cache: Path) -> Iterator[None]:
    """One builder at a time; who waited finds the work done."""
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def get(settings: Settings, tools: Tools) -> Found:
    if settings.prefix is not None:
        try:
            return look_into(settings.prefix)
        except Unusable as error:
            raise Unusable(f"XNNPACK_DIR cannot be used: {error}") from None
    try:
        settings.cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"XNNPACK's cache {settings.cache} cannot be made: {error}") from None
    prefix = settings.cache / f"xnnpack-{cache_key(settings)}"
    if not (prefix / ".complete").is_file():
        with locked(settings.cache):
            if not (prefix / ".complete").is_file():
                sources = Sources(settings)
                sources.require()
                build(sources, tools, prefix)
    return look_into(prefix)


def build(sources: Sources, tools: Tools, prefix: Path) -> None:
    """Builds in a scratch folder and moves the result: a killed build leaves no half prefix."""
    settings = sources.settings
    compiler_line(settings.cxx)  # asked for by XNNPACK's own build
    with tempfile.TemporaryDirectory(prefix="build-", dir=settings.cache) as name:
        scratch = Path(name)
        trees = {package: sources.unpack(package, scratch / "src") for package in PACKAGES}
        made = scratch / "prefix"
        say("building XNNPACK, once for this compiler (about three minutes on two cores)")
        run_logged(
            settings.cache / "build.log",
            [
                *(tools.cmake, "-S", str(trees["xnnpack"]), "-B", str(scratch / "build")),
                *(["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools.ninja}"] if tools.ninja else []),
                *CMAKE_FLAGS,
                *instrumentation(settings),
                f"-DCMAKE_C_COMPILER={settings.cc}",
                f"-DCMAKE_CXX_COMPILER={settings.cxx}",
                f"-DCMAKE_INSTALL_PREFIX={made}",
                *(f"-D{p.upper()}_SOURCE_DIR={trees[p]}" for p in PACKAGES if p != "xnnpack"),
            ],
            [tools.cmake, "--build", str(scratch / "build"), "--parallel", settings.jobs],
            [tools.cmake, "--install", str(scratch / "build")],
        )
        complete(made, trees, settings)
        look_into(made)
        if prefix.exists():
            shutil.rmtree(prefix)
        made.rename(prefix)


def run_logged(log: Path, *commands: list[str]) -> None:
    with log.open("w") as file:
        for command in commands:
            file.write(" ".join(command) + "\n")
            file.flush()
            if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode != 0:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
                raise Unusable(f"XNNPACK does not build here; the whole log is {log}:\n{tail}")


def complete(made: Path, trees: Mapping[str, Path], settings: Settings) -> None:
    """Adds what XNNPACK's own install leaves out: headers, licences, a description."""
    for package, header in (("xnnpack", "xnnpack.h"), ("pthreadpool", "pthreadpool.h")):
        source = trees[package] / "include" / header
        if not (made / "include" / header).exists():
            shutil.copy(source, made / "include" / header)
    # Inner headers: kernels of our own are put into XNNPACK's tables (csrc/backends/xnnpack).
    inner = trees["xnnpack"] / "src" / "xnnpack"
    if inner.is_dir():
        shutil.copytree(inner, made / "include" / "xnnpack")
    for package, tree in trees.items():
        folder = made / "share" / "licenses" / package
        folder.mkdir(parents=True)
        shutil.copy(tree / "LICENSE", folder)
    strip = shutil.which("strip")
    if strip is not None and not settings.sanitize:  # reports name lines
        for archive in sorted((made / "lib").glob("*.a")):
            subprocess.run([strip, "-S", str(archive)], check=False)
    version = TARBALLS[0].version
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
    parser = argparse.ArgumentParser(description="Gets XNNPACK as static libraries.")
    parser.add_argument("--cmake", default=shutil.which("cmake") or "cmake", help="to build with")
    parser.add_argument("--ninja", default=shutil.which("ninja"), help="to build with")
    given = parser.parse_args(arguments)
    try:
        found = get(Settings.read(env), Tools(given.cmake, given.ninja))
    except (Unavailable, Unusable) as error:
        print(json.dumps({"reason": str(error)}))
        return 3 if isinstance(error, Unavailable) else 1
    print(found.as_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
