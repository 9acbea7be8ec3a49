"""Files that are replaced in one step: a reader finds the old file or the whole new one.

The bytes go to a temporary file in the same folder, which is synced and then renamed. A failure, a
full disk for example, removes the temporary file and leaves the old file whole. A killed process
leaves both: the temporary file has a name like `.0123….tmp`. As with a plain open(), a link is
followed, and permissions are those of the old file, else of the umask. Pipes, devices and
/dev/stdout are written directly. Knows no format.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

Name = str | os.PathLike[str]
_MAX_LINKS = 40
# Links in these folders stand for open files: what another path leads to must not be replaced.
_OPEN_FILES = ("/proc/", "/dev/fd/")
# Errors of write(), which have no name of a file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def replacing(path: Name) -> Iterator[BinaryIO]:
    """A binary file to write; it becomes `path` when the block ends without an exception."""
    target = _target(path)
    if target is None:
        with _named(path), open(path, "wb") as file:
            yield file
        return
    with _named(path, target.temporary), _renamed(target), _create(target) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def staged(path: Name) -> Iterator[str]:
    """The path of a file to be, for a program that opens files itself; then as in replacing()."""
    target = _target(path)
    if target is None:
        yield os.fsdecode(path)
        return
    with _named(path, target.temporary), _renamed(target):
        yield target.temporary
        file = os.open(target.temporary, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def write_text(path: Name, text: str) -> None:
    """Replace a file by this text in UTF-8."""
    with replacing(path) as file:
        file.write(text.encode())


def copy_file(source: Name, path: Name) -> None:
    """Replace a file by a copy of `source`, with its times and permissions."""
    with staged(path) as copy:
        shutil.copy2(source, copy)


@dataclass(frozen=True)
class _Target:
    """A regular file to be replaced, or made: its path without links, its status if it exists."""

    path: str
    temporary: str
    old: os.stat_result | None


def _target(path: Name) -> _Target | None:
    """The file to replace; None if the path must be written directly."""
    end = _end_of_links(os.fsdecode(path))
    if end is None or not os.path.basename(end):
        return None
    folder = os.path.dirname(end)
    temporary = os.path.join(folder, f".{os.urandom(16).hex()}.tmp")
    try:
        old = os.stat(end)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            text = f"cannot write {os.fsdecode(path)!r}: expected an existing folder {folder!r}, "
            raise FileNotFoundError(errno.ENOENT, f"{text}got none; make it first") from None
        return _Target(end, temporary, None)
    if not stat.S_ISREG(old.st_mode):
        return None
    os.close(os.open(end, os.O_WRONLY | os.O_CLOEXEC))  # refuses a file that may not be written
    return _Target(end, temporary, old)


def _end_of_links(path: str) -> str | None:
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder)
        if f"{folder}/".startswith(_OPEN_FILES):
            return None
        path = os.path.join(folder, name)
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    return path


def _create(target: _Target) -> BinaryIO:
    """The temporary file; the umask applies, and nobody may read more than of the old file."""
    mode = 0o666 if target.old is None else target.old.st_mode & 0o666
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(target.temporary, flags, mode), "wb")


@contextmanager
def _renamed(target: _Target) -> Iterator[None]:
    """Give the temporary file the target's name after the block; remove it after an exception."""
    try:
        yield
        if target.old is not None:
            with suppress(PermissionError):  # another owner's file becomes the caller's
                os.chown(target.temporary, target.old.st_uid, target.old.st_gid)
            os.chmod(target.temporary, target.old.st_mode & 0o777)
        os.replace(target.temporary, target.path)
    except BaseException:
        with suppress(OSError):
            os.unlink(target.temporary)
        raise


@contextmanager
def _named(path: Name, temporary: str | None = None) -> Iterator[None]:
    """Name the file in errors that have no name or that of the temporary file."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None and error.errno in _FULL
        if unnamed or (temporary is not None and error.filename == temporary):
            error.filename = os.fsdecode(path)
        raise
