"""Users' C files with kernels, as parts of a selective build.

Each file has the form of build-ops (kernels/custom.h). Its operators are read from its text, and
its table is linked after those of the library. The file and the headers beside it are copied to the
build's folder, so that the build can be repeated there. Knows no built-in operator.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from executorch_py.atomic_file import copy_file
from executorch_py.toolchain.compiler import LANGUAGE_FLAGS, BuildError
from executorch_py.toolchain.sources import source_dir

FOLDER = "custom"
_OPERATOR = re.compile(r'"([A-Za-z_]\w*::\w+(?:\.\w+)?)"')


@dataclass(frozen=True)
class CustomSource:
    """One C file: its operators in the order of its table, and the headers beside it."""

    path: Path
    index: int
    operators: tuple[str, ...]
    headers: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Path of the file below the build's folder."""
        return f"{FOLDER}/{self.path.name}"

    @property
    def symbol(self) -> str:
        return f"et_ops_custom_{self.index}"

    @property
    def label(self) -> str:
        return f"{self.path.name}: {' '.join(self.operators)}"


def read_sources(paths: Sequence[str], cc: Sequence[str]) -> list[CustomSource]:
    """The C files with the operators that each defines, read after preprocessing."""
    sources: list[CustomSource] = []
    for index, text in enumerate(paths):
        path = Path(text)
        if not path.is_file():
            raise FileNotFoundError(
                f"no such C file: {text}; `executorch_py build-ops --example > my_op.c` writes one"
            )
        names = _operators(path, cc)
        for other in sources:
            if other.path.name == path.name:
                raise ValueError(f"{other.path} and {path} have the same name: rename one")
            both = sorted(set(names) & set(other.operators))
            if both:
                raise ValueError(f"{', '.join(both)}: defined in {other.path} and in {path}")
        sources.append(CustomSource(path, index, names, _headers(path, cc)))
    return sources


def _operators(path: Path, cc: Sequence[str]) -> tuple[str, ...]:
    names = _OPERATOR.findall(_preprocessed(path, cc, "-E", "-P"))
    if not names:
        raise ValueError(
            f'{path}: expected a table with names such as "mylib::softcap.out" and ET_OP_LIBRARY, '
            "got no operator (`executorch_py build-ops --example` prints a complete file)"
        )
    ordered = sorted(names, key=str.encode)
    if names != ordered:
        raise ValueError(
            f"{path}: expected a table sorted by operator name, since lookup in it is a binary "
            f"search: {', '.join(ordered)}, got {', '.join(names)}"
        )
    return tuple(names)


def _headers(path: Path, cc: Sequence[str]) -> tuple[Path, ...]:
    """Headers that the file includes from its folder or below."""
    rule = _preprocessed(path, cc, "-MM").replace("\\\n", " ")
    found = [Path(word) for word in shlex.split(rule.partition(":")[2])]
    folder = path.parent.resolve()
    return tuple(p for p in found if p != path and folder in p.resolve().parents)


def _preprocessed(path: Path, cc: Sequence[str], *options: str) -> str:
    command = [*cc, *LANGUAGE_FLAGS, *options, f"-I{source_dir()}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\nfailed:\n{done.stderr.strip()}")
    return done.stdout


def copy_sources(sources: Sequence[CustomSource], folder: Path) -> None:
    """Copy users' sources and the headers that they include to a folder."""
    for source in sources:
        base = source.path.parent.resolve()
        for path in (source.path, *source.headers):
            target = folder / FOLDER / path.resolve().relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_file(path, target)


def defines(sources: Sequence[CustomSource]) -> Mapping[str, tuple[str, ...]]:
    """Compiler flags of each file: macros of its table's name and of the next table's name."""
    found = {}
    for source, following in zip(sources, [*sources[1:], None], strict=False):
        words = [f"-DET_OP_LIBRARY_NAME={source.symbol}"]
        if following is not None:
            words.append(f"-DET_OP_LIBRARY_NEXT={following.symbol}")
        found[source.name] = tuple(words)
    return found
