"""Kinds of files that are given for a program or its data, each with the next step.

The extension knows its own formats only. When it refuses a file, the first bytes and, for an
archive, the names of its members tell what was given. Loaded after a refusal only.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

from executorch_py.errors import ExecutorchError
from executorch_py.terminal_text import quoted

_HEAD = 64
_LFS = (
    "a pointer of Git LFS, not the file itself: run `git lfs pull` in its repository, and load the "
    "file again"
)
_PROGRAM = "a program (.pte): give it as the program"
_DATA = (
    "external weights (.ptd), no program: load their .pte and give this file as data_path "
    "(`executorch_py run model.pte --data FILE`)"
)
_BUNDLE = (
    "a bundled program (.bpte), a program with test cases: load "
    "executorch_py.devtools.bundled_program.serialize."
    "deserialize_from_flatbuffer_to_bundled_program(data).program"
)
_RECORD = (
    "a record of an export (.etrecord), no program: read it with "
    "executorch_py.devtools.etrecord.parse_etrecord(path), and load the .pte of that export"
)
_ARCHIVE = (
    "an archive of torch.export (.pt2), not lowered yet: run "
    "`executorch_py export FILE.pt2 --output model.pte`"
)
_SCRIPT = "a TorchScript archive: export the eager model, with `executorch_py export module:Model`"
_WEIGHTS = (
    "a file of torch.save (.pt, .pth), no program: load its model or weights with torch.load(path) "
    "in Python, and export the model"
)
_PAGE = "an HTML page, as a failed download leaves: download the file again"
_EMPTY = "an empty file: write or download it again"
_HEADS: tuple[tuple[int, bytes, str], ...] = (
    (4, b"ET", _PROGRAM),
    (4, b"FT", _DATA),
    (4, b"BP", _BUNDLE),
    (0, b"version https://git-lfs", _LFS),
    (0, b"\x80\x02", _WEIGHTS),
    (0, b"<!DOCTYPE html", _PAGE),
    (0, b"<!doctype html", _PAGE),
    (0, b"<html", _PAGE),
)
# Members of archives, by the ends of their names, the most special first.
_MEMBERS: tuple[tuple[str, str], ...] = (
    ("ETRECORD_V0", _RECORD),
    ("debug_handle_map", _RECORD),
    ("models/model.json", _ARCHIVE),
    ("serialized_exported_program.json", _ARCHIVE),
    ("constants.pkl", _SCRIPT),
    ("data.pkl", _WEIGHTS),
)


def explained(error: ExecutorchError, source: Any, data: Sequence[Any]) -> ExecutorchError | None:
    """The error in other words if a file is of another kind; None if that is not the reason."""
    # The data files are opened after the program: a program that is one is not to blame.
    for item, expected in [(source, _PROGRAM), *((item, _DATA) for item in data)]:
        found = kind_of(item)
        if found is not None and found != expected:
            name = quoted(fspath(item)) if isinstance(item, (str, PathLike)) else "the bytes"
            wanted = "a program (.pte)" if expected == _PROGRAM else "external weights (.ptd)"
            text = f"{name}: expected {wanted}, got {found}"
            return type(error)(f"{text} [{error.name}, error: 0x{error.status:x}]")
    return None


def kind_of(source: Any) -> str | None:
    """The kind of a file by its contents, with the next step; None for an unknown one."""
    try:
        if isinstance(source, (str, PathLike)):
            with open(source, "rb") as file:
                return _kind(file.read(_HEAD), source)
        head = bytes(memoryview(source)[:_HEAD])
    except (OSError, TypeError, ValueError):
        return None
    return _kind(head, source)


def _kind(head: bytes, archive: Any) -> str | None:
    if not head:
        return _EMPTY
    for at, mark, kind in _HEADS:
        if head[at : at + len(mark)] == mark:
            return kind
    if not head.startswith(b"PK\x03\x04"):
        return None
    file = archive if isinstance(archive, (str, PathLike)) else io.BytesIO(archive)
    try:
        with zipfile.ZipFile(file) as members:
            names = members.namelist()
    except (zipfile.BadZipFile, OSError):
        return None
    return next(
        (kind for end, kind in _MEMBERS if any(name.endswith(end) for name in names)),
        "a zip archive of another kind",
    )
