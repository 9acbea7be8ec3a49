"""Sources of XNNPACK and of its three dependencies, for get_xnnpack.py.

A package is a tree that the environment names, or one of the tarballs below, which are recognized
by their hashes: from a folder, from the cache or from the machine's Debian mirror. Settings come
from the environment and are read once. PATCHES apply to a tarball's XNNPACK, never to a named tree.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tarball:
    """One release of a package in Debian's archive, with the unchanged files of its authors."""

    package: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.package}_{self.version}.orig.tar.xz"


PACKAGES = ("xnnpack", "pthreadpool", "cpuinfo", "fxdiv")

# The first tarball of a package that is found is used; each of them works. Only pthreadpool's
# header is used; its library is built with XNNPACK and not linked, because pthreadpool_shim.c of
# csrc/backends/xnnpack defines the same functions.
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

HOW_TO_GET = (
    "set XNNPACK_DIR to an installed XNNPACK (static libraries), XNNPACK_SOURCE_DIR with "
    "PTHREADPOOL_SOURCE_DIR, CPUINFO_SOURCE_DIR and FXDIV_SOURCE_DIR to source trees, or "
    "XNNPACK_TARBALLS to a folder with " + ", ".join(tarball.name for tarball in TARBALLS)
)


class Unavailable(Exception):
    """XNNPACK is not available on this machine; the build can go on without it."""


class Unusable(Exception):
    """A named prefix, tree or build of XNNPACK exists and cannot be used."""


def log(text: str) -> None:
    """Prints a line of progress; standard output is for the answer."""
    print(f"xnnpack: {text}", file=sys.stderr, flush=True)


# ---- settings


@dataclass(frozen=True)
class Settings:
    """Settings of the environment, read once."""

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
    """The cache folder of the user, below the temporary folder if there is no home."""
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
    """The packages, each a named tree or a tarball with the expected hash."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.downloads = settings.cache / "tarballs"
        self._refused: dict[Path, str] = {}

    def tarball(self, package: str) -> Path | None:
        """The first tarball of a package in the named folder or among the downloads."""
        named = [self.settings.tarballs] if self.settings.tarballs is not None else []
        for folder in (*named, self.downloads):
            for tarball in TARBALLS:
                path = folder / tarball.name
                if tarball.package != package or not path.is_file():
                    continue
                if self._has_expected_hash(path, tarball):
                    return path
        return None

    def _has_expected_hash(self, path: Path, tarball: Tarball) -> bool:
        if path not in self._refused and (found := sha256_of(path)) != tarball.sha256:
            self._refused[path] = f"{path}: expected SHA-256 {tarball.sha256}, got {found}; ignored"
            log(self._refused[path])
        return path not in self._refused

    def missing(self) -> list[str]:
        """Packages with neither a named tree nor a tarball."""
        trees = self.settings.trees
        return [name for name in PACKAGES if name not in trees and self.tarball(name) is None]

    def require(self) -> None:
        """Fetches missing packages; Unavailable names those it cannot fetch, and settings."""
        if not self.missing():
            return
        reasons = [] if self.settings.offline else list(fetch_from_apt(self))
        missing = self.missing()
        if not missing:
            return
        if self.settings.offline:
            reasons = ["XNNPACK_OFFLINE is set"]
        why = "; ".join([*self._refused.values(), *reasons])
        raise Unavailable(f"no sources for {', '.join(missing)} ({why}). To get it, {HOW_TO_GET}.")

    def unpack(self, package: str, into: Path) -> Path:
        """The source tree of a package: the named one, or its tarball unpacked and patched."""
        if package in self.settings.trees:
            tree = self.settings.trees[package]
            if not (tree / "CMakeLists.txt").is_file():
                raise Unusable(
                    f"{package.upper()}_SOURCE_DIR: expected a source tree of {package} with "
                    f"CMakeLists.txt, got {tree} without one"
                )
            return tree
        path = self.tarball(package)
        assert path is not None, package
        folder = into / package
        with tarfile.open(path, "r:xz") as archive:
            # The hash verifies the contents. Half of the files are tests, which are not built.
            wanted = [member for member in archive if "/test/" not in f"/{member.name}"]
            if hasattr(tarfile, "data_filter"):
                archive.extractall(folder, wanted, filter="data")
            else:
                archive.extractall(folder, wanted)
        tree = next(
            path for path in (folder, *folder.iterdir()) if (path / "CMakeLists.txt").is_file()
        )
        if package == "xnnpack":
            patch_sources(tree)
        return tree


@dataclass(frozen=True)
class SourcePatch:
    """A replacement of lines in one file of XNNPACK's release."""

    file: str
    subject: str  # of the lines, for messages
    lines: str
    replacement: str


_ZERO_PADS = (
    "  if (context->kc % (context->kr * context->sr) != 0) {\n"
    "    memset(packed_weights, 0, context->nr * context->w_stride);\n"
    "  }\n"
)
_BATCH_OFFSET = " " * 34 + "batch_index * context->gc_stride);\n"

PATCHES = (
    # Kernels for groups of 4-bit weights with GFNI take 14 rows at once and read the scales of 13
    # rows beyond the last, of which XNNPACK fills 10. So the last of 2, 3, 15, … rows would be
    # wrong.
    SourcePatch(
        "include/xnnpack.h",
        "the number of extra quantization parameters",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 10\n",
        "#define XNN_EXTRA_QUANTIZATION_PARAMS 15\n",
    ),
    # Memory before all live blocks was never used again. ResNet-50 needed 44 MB for the values
    # between its layers instead of 7 MB.
    SourcePatch(
        "src/memory-planner.c",
        "the offset beside a single live block",
        "  if (num_mem_blocks == 1) {\n    return live_mem_blocks[0].end;\n  }\n\n",
        "",
    ),
    SourcePatch(
        "src/memory-planner.c",
        "the sorting of live blocks",
        " cmp_memory_block);\n",
        " cmp_memory_block);\n"
        "  if (live_mem_blocks[0].start >= to_alloc_size) {\n    return 0;\n  }\n",
    ),
    # Convolutions of other types read the function that packs their weights from the table.
    SourcePatch(
        "src/operators/convolution-nhwc.c",
        "the packing of f32 convolutions' weights",
        "    (xnn_pack_conv_goki_w_fn) xnn_pack_f32_conv_goki_w,\n",
        "    gemm_config->pack_igemm_goki != NULL\n"
        "        ? (xnn_pack_conv_goki_w_fn) gemm_config->pack_igemm_goki\n"
        "        : (xnn_pack_conv_goki_w_fn) xnn_pack_f32_conv_goki_w,\n",
    ),
    # Weights that are computed at run time are packed into memory of earlier values. Kernels that
    # take several k at once need zeros behind the last k, which packing leaves out: a product was
    # wrong if its inner size was no multiple of 4 and it had fewer columns than a tile. Of batched
    # products, those of f32 on AMD's first Zen, Exynos M1 and M2 were: others take one k at a time.
    SourcePatch(
        "src/operator-run.c",
        "the memory of packed transposed weights",
        " context->packed_weights + n_block_start * context->w_stride);\n",
        " context->packed_weights + n_block_start * context->w_stride);\n" + _ZERO_PADS,
    ),
    SourcePatch(
        "src/operator-run.c",
        "the memory of packed weights",
        " context->packed_weights + context->w_stride * n_block_start);\n",
        " context->packed_weights + context->w_stride * n_block_start);\n" + _ZERO_PADS,
    ),
    *(
        SourcePatch(
            "src/operator-run.c",
            f"the memory of packed {operand} of batched products",
            f"{_BATCH_OFFSET}\n  context->{function}(\n",
            f"{_BATCH_OFFSET}{_ZERO_PADS}\n  context->{function}(\n",
        )
        for operand, function in (("columns", "packw_gemm_gio"), ("rows", "packw_gemm_goi"))
    ),
)


def patch_sources(tree: Path) -> None:
    """Puts PATCHES into the sources, each once."""
    for patch in PATCHES:
        path = tree / patch.file
        text = path.read_text()
        if (found := text.count(patch.lines)) != 1:
            raise Unusable(f"{path}: expected the lines of {patch.subject} once, got {found} times")
        path.write_text(text.replace(patch.lines, patch.replacement))


# ---- apt
#
# The machine's own mirror is read with a private state of apt, which requires neither root nor
# changed package lists. Only the authors' tarballs are fetched: the hashes above are theirs, and
# mirrors keep these files most reliably.


def fetch_from_apt(sources: Sources) -> Iterator[str]:
    """Downloads missing packages; yields the reasons for those that cannot be fetched."""
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
            log(f"reading the source index of Debian {suite}")
            if not apt.run("apt-get", "-q", "update"):
                yield f"suite {suite} cannot be read from {base}"
                continue
            for package in sources.missing():
                if not any(
                    apt.fetch(t, sources.downloads) for t in TARBALLS if t.package == package
                ):
                    yield f"{package} cannot be fetched from suite {suite}"


def mirrors(no_lists: Path) -> Iterator[str]:
    """Base addresses of apt's sources; from two commands, as fresh machines have no lists."""
    index = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE)",
        "Created-By: Packages",
    ]
    update = [
        "apt-get",
        "-o",
        f"Dir::State::Lists={no_lists}",
        "-o",
        "Debug::NoLocking=1",
        "update",
        "--print-uris",
    ]
    lines = output_of(index) + re.sub(
        r"^'(\S+/)dists/([^/]+)/InRelease'.*$", r"\1 \2", output_of(update), flags=re.M
    )
    seen = set()
    for line in lines.splitlines():
        base, _, release = line.strip().partition(" ")
        if not release or re.search(r"-(security|updates|backports)", release):
            continue
        if base.rstrip("/") not in seen:
            seen.add(base.rstrip("/"))
            yield base


def output_of(command: Sequence[str]) -> str:
    """Standard output of a command, or nothing if it fails."""
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
        if os.getuid() == 0:  # otherwise apt reads as a user that may not enter these folders
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
        """Downloads one tarball if the suite lists it with the expected hash."""
        listed = output_of(
            ["apt-cache", *self.options, "showsrc", "--only-source", tarball.package]
        )
        for record in listed.split("\n\n"):
            version = re.search(rf"^Version: ({re.escape(tarball.version)}-\S+)", record, re.M)
            if version is None or tarball.sha256 not in record:
                continue
            source = f"{tarball.package}={version[1]}"
            options = ("-q", "source", "--download-only", "--tar-only", "--only-source")
            got = self.root / "downloads" / tarball.name
            if not self.run("apt-get", *options, source) or not got.is_file():
                return False
            if sha256_of(got) != tarball.sha256:
                return False
            into.mkdir(parents=True, exist_ok=True)
            shutil.move(got, into / tarball.name)
            log(f"got {tarball.package} {tarball.version}")
            return True
        return False
